/* SPDX-License-Identifier: MIT */
/* Options: one table per module says what exists; the same table drives --help, the command line, and the
 * record of resolved options. Unknown keys, trailing junk and out-of-range values are ERR_USAGE, and the
 * nearest valid key is named. */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

typedef enum opt_type {
    OPT_INT,    /* int64_t */
    OPT_SIZE,   /* int64_t bytes; suffix K, M, G (powers of 1024); auto is 0 where that is the default */
    OPT_REAL,   /* double; 3% is 0.03 */
    OPT_STRING, /* const char *, borrowed from argv */
    OPT_FLAG,   /* bool; --key or --no-key, no value */
    OPT_CHOICE, /* const char *, one of `choices` */
} opt_type_t;

/* Which help lists an option. */
typedef enum opt_level {
    OPT_COMMON, /* --help */
    OPT_MORE,   /* --help all */
    OPT_HIDDEN, /* none: for tests */
} opt_level_t;

typedef struct opt {
    const char *key; /* without the dashes */
    opt_type_t type;
    size_t offset;              /* of the field in the module's struct */
    const char *initial;        /* default, as text; NULL: zero / NULL */
    double min, max;            /* OPT_INT, OPT_SIZE, OPT_REAL; both 0: unbounded */
    const char *const *choices; /* OPT_CHOICE: NULL-terminated */
    const char *unit;           /* shown in --help after the key: "N", "DIR", "SEC" */
    const char *help;           /* a noun phrase; a default that the program derives ends it, as "[64]" */
    opt_level_t level;
} opt_t;

/* One module's table bound to one struct of values. */
typedef struct opt_group {
    const char *title;
    const opt_t *table;
    int n; /* at most 64 */
    void *values;
    uint64_t given; /* bit i: table[i] was set by the user */
} opt_group_t;

/* Sets every default. */
err_t opt_defaults(opt_group_t *groups, int n_groups);

/* Reads argv[0..argc): --key VALUE, --key=VALUE, --flag, --no-flag. A VALUE that begins with two dashes needs
 * the form with =. Words without dashes are collected in order in `positional` (at most max_positional; more
 * is an error); "--" ends the options. */
err_t opt_parse(opt_group_t *groups, int n_groups, int argc, char **argv, const char **positional,
                int max_positional, int *n_positional);

/* Whether the user set the key himself; ASSERTs that it exists. */
bool opt_given(const opt_group_t *groups, int n_groups, const char *key);

/* What stands for the option's value: its unit, or its choices with | between them, which are written to out.
 * "" for a flag. */
const char *opt_placeholder(const opt_t *opt, char *out, size_t n_bytes);

/* The options part of --help, to stdout, in lines of 80 columns; all: of --help all. *n_left_out: options
 * that only
 * --help all lists; NULL: not wanted. ERR_SYSTEM without memory. */
err_t opt_help(const opt_group_t *groups, int n_groups, bool all, int *n_left_out);

/* The same for programs. Lines of fields with tabs between them: `group TITLE`, then for each of its options
 * `option KEY KIND PLACEHOLDER DEFAULT HELP`; the kind is flag or value, what is missing is empty. */
void opt_help_tsv(const opt_group_t *groups, int n_groups);

/* All resolved options as one object. */
void opt_json(const opt_group_t *groups, int n_groups, json_t *j, const char *key);

/* Value of one option as text that opt_parse reads back, into out. */
void opt_text(const opt_group_t *group, int index, char *out, size_t n_bytes);

/* Resolved options as "key = value" lines, in the form that opt_config_read reads. Left out: options that
 * have no default and were not given, and those listed in `without` (NULL-terminated, or NULL). *out is freed
 * with mem_free. */
err_t opt_config_write(const opt_group_t *groups, int n_groups, const char *const *without, char **out);

/* True when `word` is in a NULL-terminated list. */
bool opt_listed(const char *const *list, const char *word);

/* Reads "key = value" lines; # at the start or after a blank begins a comment. An option that is given
 * already (the command line wins) keeps its value; others count as given. Values are borrowed from a copy
 * kept in *storage (mem_free it after the last use of the options). Errors name `name` and the line. */
err_t opt_config_read(opt_group_t *groups, int n_groups, const char *text, const char *name, char **storage);

/* Takes one value over from another binding of the same table; it does not count as given. */
void opt_copy(opt_group_t *to, const opt_group_t *from, int index);

/* The candidate closest to `word` by edit distance; NULL when none is near. Also for subcommands. */
const char *opt_nearest(const char *word, const char *const *candidates, int n);

#endif
