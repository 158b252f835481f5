/* SPDX-License-Identifier: MIT */
/* The named values of a record, as a report_t has them. Not collective. */
#ifndef REPORT_RECORDS_FIELDS_H
#define REPORT_RECORDS_FIELDS_H

#include "base/figure.h"
#include "report/records/report.h"

/* The first of that name; NULL: none. */
const report_field_t *fields_find(report_fields_t fields, const char *name);

/* A value as people read it: bytes and times with their units, other numbers and words as they were written,
 * "-" where there is none. The field's own text, or in *room. */
const char *fields_text(const report_field_t *field, figure_t *room);

#endif
