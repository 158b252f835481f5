/* SPDX-License-Identifier: MIT */
/* The names of the kinds of records. */
#include "base/json.h"

#define RECORD_NAME(id, name) [RECORD_##id] = name,
const char *const record_names[N_RECORD_KINDS] = {RECORD_KINDS(RECORD_NAME)};

void json_record_begin(json_t *j, record_kind_t kind)
{
    json_object_begin(j, NULL);
    json_string(j, "record", record_names[kind]);
}
