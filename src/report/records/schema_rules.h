/* SPDX-License-Identifier: MIT */
/* Rules for the members of an object; used by schema*.c alone. */
#ifndef REPORT_RECORDS_SCHEMA_RULES_H
#define REPORT_RECORDS_SCHEMA_RULES_H

#include <stdbool.h>

#include "base/json_read.h"

typedef enum schema_kind {
    SCHEMA_VERSION, /* REPORT_SCHEMA */
    SCHEMA_TEXT,    /* not empty; one of `words` where there are some */
    SCHEMA_WORDS,   /* text that may be empty */
    SCHEMA_HEX,
    SCHEMA_FLAG,
    SCHEMA_COUNT,    /* whole, from 0 */
    SCHEMA_POSITIVE, /* whole, from 1 */
    SCHEMA_REAL,     /* finite, from 0 */
    SCHEMA_OBJECT,   /* as `inside` says; without it, of any members */
    SCHEMA_ARRAY,    /* of objects as `inside` says; without it, of anything */
} schema_kind_t;

typedef struct schema_rule schema_rule_t;
struct schema_rule {
    const char *name; /* NULL: the rules end */
    schema_kind_t kind;
    bool nullable, optional; /* null, or no member, is fine as well */
    const schema_rule_t *inside;
    const char *const *words; /* ended by NULL */
};

/* Rules that both kinds of records use. */
#define TEXT(field)                                                                                          \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_TEXT                                                                   \
    }
#define COUNT(field)                                                                                         \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_COUNT                                                                  \
    }
#define POSITIVE(field)                                                                                      \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_POSITIVE                                                               \
    }
#define REAL(field)                                                                                          \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_REAL                                                                   \
    }
#define OBJECT(field)                                                                                        \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_OBJECT                                                                 \
    }
#define ARRAY(field)                                                                                         \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_ARRAY                                                                  \
    }
#define END                                                                                                  \
    {                                                                                                        \
        .name = NULL                                                                                         \
    }

bool schema_keeps(const json_value_t *value, const schema_rule_t *rule);

/* No member twice, none without a rule, all that are not optional, each as its rule says. ERR_DATA naming it.
 */
err_t schema_check_object(const json_value_t *object, const schema_rule_t *rules);

/* NULL: there is none for that name. */
const schema_rule_t *schema_find(const schema_rule_t *rules, const char *name);

/* The kinds of dptrain bench and of dptrain train; NULL: no such kind. */
typedef err_t (*schema_checker_t)(const json_value_t *record);
schema_checker_t schema_bench_checker(const char *kind);
schema_checker_t schema_train_checker(const char *kind);

#endif
