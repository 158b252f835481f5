/* SPDX-License-Identifier: MIT */
/* Rules for the members of an object; used by schema*.c alone. */
#ifndef REPORT_RECORDS_SCHEMA_RULES_H
#define REPORT_RECORDS_SCHEMA_RULES_H

#include <stdbool.h>

#include "base/json.h"

typedef enum schema_kind {
    SCHEMA_VERSION, /* REPORT_SCHEMA */
    SCHEMA_TEXT,    /* not empty; one of `words` if given */
    SCHEMA_WORDS,   /* may be empty */
    SCHEMA_HEX,
    SCHEMA_FLAG,
    SCHEMA_COUNT,    /* integer from 0 */
    SCHEMA_POSITIVE, /* integer from 1 */
    SCHEMA_STEP,     /* integer from -1: none */
    SCHEMA_REAL,     /* finite, 0 or more */
    SCHEMA_NUMBER,   /* finite */
    SCHEMA_INTEGER,
    SCHEMA_OBJECT, /* members checked by `inside` if given */
    SCHEMA_ARRAY,  /* objects checked by `inside` if given */
} schema_kind_t;

typedef struct schema_rule schema_rule_t;
struct schema_rule {
    const char *name; /* NULL ends the rules */
    schema_kind_t kind;
    bool nullable, optional; /* may be null; may be missing */
    bool is_prefix;          /* `name` begins the names of any number of members */
    const schema_rule_t *inside;
    const char *const *words; /* NULL-terminated */
};

/* The first members of a rule, as {TEXT("record")} or {REAL("lr"), .optional = true}. {0} ends the rules. */
#define VERSION(field)  .name = field, .kind = SCHEMA_VERSION
#define TEXT(field)     .name = field, .kind = SCHEMA_TEXT
#define WORDS(field)    .name = field, .kind = SCHEMA_WORDS
#define HEX(field)      .name = field, .kind = SCHEMA_HEX
#define FLAG(field)     .name = field, .kind = SCHEMA_FLAG
#define COUNT(field)    .name = field, .kind = SCHEMA_COUNT
#define POSITIVE(field) .name = field, .kind = SCHEMA_POSITIVE
#define REAL(field)     .name = field, .kind = SCHEMA_REAL
#define OBJECT(field)   .name = field, .kind = SCHEMA_OBJECT
#define ARRAY(field)    .name = field, .kind = SCHEMA_ARRAY

bool schema_keeps(const json_value_t *value, const schema_rule_t *rule);

/* ERR_DATA names a member that occurs twice. Linear in the number of members. */
err_t schema_check_repeats(const json_value_t *object);

/* Each member occurs once and keeps its rule; none is unknown, none that is required is missing. ERR_DATA
 * names the member. */
err_t schema_check_object(const json_value_t *object, const schema_rule_t *rules);

/* NULL: no rule of that name. */
const schema_rule_t *schema_find(const schema_rule_t *rules, const char *name);

extern const schema_rule_t schema_run_rules[];

/* The checker of a kind of record (base/json.h), and those of each family; NULL: unknown kind. */
typedef err_t (*schema_checker_t)(const json_value_t *record);
schema_checker_t schema_checker_find(const char *kind);
schema_checker_t schema_bench_checker(const char *kind);
schema_checker_t schema_train_checker(const char *kind);
schema_checker_t schema_job_checker(const char *kind);
schema_checker_t schema_results_checker(const char *kind);

#endif
