/* SPDX-License-Identifier: MIT */
/* Lookup and formatting of a record's named values. Not collective. */
#ifndef REPORT_RECORDS_FIELDS_H
#define REPORT_RECORDS_FIELDS_H

#include "base/figure.h"
#include "report/records/report.h"

/* The first field of that name; NULL: none. */
const report_field_t *fields_find(report_fields_t fields, const char *name);

/* The human-readable value: bytes and times with units, other numbers and texts as recorded, "-" if missing.
 * Points to the field's own text or into *room. */
const char *fields_text(const report_field_t *field, figure_t *room);

#endif
