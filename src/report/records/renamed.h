/* SPDX-License-Identifier: MIT */
/* Fields of records that earlier versions of dptrain wrote under other names. */
#ifndef REPORT_RECORDS_RENAMED_H
#define REPORT_RECORDS_RENAMED_H

#include "base/json.h"

/* Replaces old field names of a record in place. */
void records_rename(const json_value_t *record);

#endif
