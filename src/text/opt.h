/* SPDX-License-Identifier: MIT */
/* Options: each module has one table, which drives --help, the command line, config files and the record of
 * resolved options. Unknown keys, trailing characters and out-of-range values are ERR_USAGE; the message
 * names the nearest valid key. */
#ifndef TEXT_OPT_H
#define TEXT_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/json.h"

typedef enum opt_type {
    OPT_INT,    /* int64_t */
    OPT_SIZE,   /* int64_t bytes; suffix K, M, G (powers of 1024); where the default is auto, auto is 0 */
    OPT_REAL,   /* double; 3% reads as 0.03 */
    OPT_STRING, /* const char *, borrowed from argv */
    OPT_FLAG,   /* bool; --key or --no-key, without a value */
    OPT_CHOICE, /* const char *, one of `choices` */
} opt_type_t;

enum { OPT_WIDE = 120, OPT_TOPIC_BYTES = 24, OPT_MAX_TOPICS = 32 };

/* Which help screen lists an option. */
typedef enum opt_level {
    OPT_COMMON, /* --help: what a newcomer needs, about 15 options of a command */
    OPT_MORE,   /* --help TOPIC and --help all, which list the common ones, too */
    OPT_HIDDEN, /* none: for tests */
} opt_level_t;

typedef struct opt {
    const char *key; /* without dashes */
    opt_type_t type;
    size_t offset;              /* field in the module's struct */
    const char *initial;        /* default, as text; NULL: zero / NULL */
    double min, max;            /* OPT_INT, OPT_SIZE, OPT_REAL; both 0: unbounded */
    const char *const *choices; /* OPT_CHOICE: NULL-terminated */
    const char *unit;           /* placeholder of the value in --help: "N", "DIR", "SEC" */
    const char *help;           /* noun phrase; ends with the default in brackets if the program derives it */
    opt_level_t level;
} opt_t;

/* A table bound to a struct of values. */
typedef struct opt_group {
    /* Its first word, in lower case, is the topic for --help TOPIC; groups may share one. */
    const char *title;
    const opt_t *table;
    int n; /* at most 64 */
    void *values;
    uint64_t given; /* bit i: table[i] was set by the user */
} opt_group_t;

/* Sets every default. */
err_t opt_defaults(opt_group_t *groups, int n_groups);

/* Parses --key VALUE, --key=VALUE, --flag and --no-flag. A VALUE that begins with two dashes requires the
 * form with =. "--" ends the options. -q and -v are short for --quiet and --verbose.
 *
 *   argc, argv      the words after the command's name
 *   positional      receives the words without dashes, in order
 *   max_positional  its capacity; more words are an error
 *   n_positional    may be NULL */
err_t opt_parse(opt_group_t *groups, int n_groups, int argc, char **argv, const char **positional,
                int max_positional, int *n_positional);

/* Whether the user set the key. ASSERTs that it exists. */
bool opt_given(const opt_group_t *groups, int n_groups, const char *key);
/* The same by bits that were kept: typed[n_groups]. */
bool opt_typed(const opt_group_t *groups, int n_groups, const uint64_t *typed, const char *key);

/* The placeholder of the option's value: its unit, or its choices joined by | (written to `out`); "" for a
 * flag. */
const char *opt_placeholder(const opt_t *opt, char *out, size_t n_bytes);

/* Prints the options part of --help to stdout, as wide as the terminal, but not wider than OPT_WIDE; 80 columns
 * elsewhere.
 *
 *   topic       NULL: the common options, as one list; "all": every option, in groups; or one of opt_topics
 *   n_left_out  number of options that were not listed; may be NULL */
err_t opt_help(const opt_group_t *groups, int n_groups, const char *topic, int *n_left_out);

/* The topics of groups with an option to show, each once, in their order. Returns how many. */
int opt_topics(const opt_group_t *groups, int n_groups, char out[OPT_MAX_TOPICS][OPT_TOPIC_BYTES]);

/* Writes the topic of the group with this option to `out`; false: there is none. */
bool opt_topic_of(const opt_group_t *groups, int n_groups, const char *key, char out[OPT_TOPIC_BYTES]);

/* The widest line of a help screen: table_t's max_width. */
int opt_help_columns(void);

/* The same, machine-readable, in tab-separated lines: `group TITLE TOPIC`, then for each of its options
 * `option KEY KIND PLACEHOLDER DEFAULT HELP`. KIND is flag or value; missing fields are empty. */
void opt_help_tsv(const opt_group_t *groups, int n_groups);

/* Writes all resolved options as one object. */
void opt_json(const opt_group_t *groups, int n_groups, json_t *j, const char *key);

/* Formats one option's value as text that opt_parse reads back. */
void opt_text(const opt_group_t *group, int index, char *out, size_t n_bytes);

/* Formats resolved options as "key = value" lines, which opt_config_read reads back. Omits options that have
 * no default and were not given, and those in `without` (NULL-terminated, or NULL). Free *out with mem_free.
 */
err_t opt_config_write(const opt_group_t *groups, int n_groups, const char *const *without, char **out);

/* Joins the words of a NULL-terminated list. */
void opt_join(const char *const *list, const char *separator, char *out, size_t n_bytes);

/* The index of `word` in the NULL-terminated list; -1: it is not there. */
int opt_index(const char *const *list, const char *word);
/* Whether it is there; false for a list that is NULL. */
bool opt_listed(const char *const *list, const char *word);

/* Parses a number with s, m, h or d, such as 6h. False if invalid, or not above 0. */
bool opt_duration(const char *text, double *out_sec);

/* Parses "key = value" lines; # at the start or after a blank begins a comment. Options given before keep
 * their value (the command line wins); others count as given.
 *
 *   name     for messages, with the line number
 *   storage  a copy of the text, from which values are borrowed; mem_free it after the last use of them */
err_t opt_config_read(opt_group_t *groups, int n_groups, const char *text, const char *name, char **storage);

/* Copies one value from another binding of the same table. It does not count as given. */
void opt_copy(opt_group_t *to, const opt_group_t *from, int index);

/* The candidate nearest to `word` by edit distance, or that adds or lacks parts joined by dashes; NULL if none
 * is near. */
const char *opt_nearest(const char *word, const char *const *candidates, int n);

/* Whether `word` is one of the words joined by |; not of NULL. */
bool opt_is_among(const char *word, const char *words);

/* A condition under which options change something. */
typedef struct opt_when {
    const char *keys;   /* the options, joined by | */
    const char *needs;  /* another option, or a fact */
    const char *values; /* joined by |, one of which it has; NULL: it is set, and not 0, false, none or off */
    const char *text;   /* for the message, what the options are for; NULL: `needs` with `values` */
} opt_when_t;

/* What is known of a run beyond its options; replaces the option of the same name: {"device", "cpu"}. */
typedef struct opt_fact {
    const char *name, *value;
} opt_fact_t;

/* Warns of each given option with a condition that does not hold. Returns how many.
 *
 *   whens, facts  end with a NULL
 *   typed         as opt_group_t.given, per group; NULL: that itself */
int opt_warn_idle(const opt_group_t *groups, int n_groups, const opt_when_t *whens, const opt_fact_t *facts,
                  const uint64_t *typed);

#endif
