/* SPDX-License-Identifier: MIT */
/* Subcommands, one file each: parse options and call the modules that do the work. Each returns the exit code
 * as err_t, after printing its message. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "base/err.h"
#include "text/opt.h"

typedef struct cmd_context {
    int argc; /* words after the command */
    char **argv;
    const char *name[2];           /* command and verb: "data", "pack"; verb NULL: none */
    void (*abort_job)(err_t code); /* ends the whole job from any thread */
} cmd_context_t;

typedef struct cmd {
    const char *name, *summary;
    err_t (*run)(const cmd_context_t *context);
    /* Opens no communicator, or only for some of its verbs: its start has no deadline. */
    bool local;
    const char *verbs; /* joined by |; NULL: none */
} cmd_t;

/* All subcommands; ends with a NULL name. */
extern const cmd_t cmds[];

err_t cmd_train(const cmd_context_t *context);
err_t cmd_eval(const cmd_context_t *context);
err_t cmd_predict(const cmd_context_t *context);
err_t cmd_checkpoint(const cmd_context_t *context);
err_t cmd_replay(const cmd_context_t *context);
err_t cmd_bench(const cmd_context_t *context);
err_t cmd_data(const cmd_context_t *context);
err_t cmd_report(const cmd_context_t *context);
err_t cmd_check(const cmd_context_t *context);
err_t cmd_hosts(const cmd_context_t *context);
err_t cmd_info(const cmd_context_t *context);
err_t cmd_run(const cmd_context_t *context);
/* Becomes the script that context->name names. With --help=tsv it prints `script PATH` instead. */
err_t cmd_script(const cmd_context_t *context);

/* Runs the subcommand that argv names; none means train. ERR_SYSTEM: also if standard output could not be written. */
err_t cmd_dispatch(int argc, char **argv, void (*abort_job)(err_t code));

/* Prints an error, before a communicator is open, and returns it. */
err_t cmd_fail(err_t err);

/* Raises ERR_USAGE under mpirun, for a command that starts mpirun itself. */
err_t cmd_refuse_ranks(const char *command);

/* Whether $DPTRAIN_CHECK_OPTIONS is set, which says so: the command line has been checked, and the command must not run.
 * For tests of examples; end_of_options of scripts/lib.sh is the same for scripts. */
bool cmd_only_checks(void);

/* The context of the verb that the first word names. */
cmd_context_t cmd_verb(const cmd_context_t *context);

/* Raises ERR_USAGE for a missing ("") or unknown verb; `verbs` is NULL-terminated. */
err_t cmd_unknown_verb(const char *command, const char *word, const char *const *verbs);

/* Whether the word is --help, --help=TOPIC, --help=tsv or -h. */
bool cmd_is_help(const char *word);
/* Whether one of the command's words is. */
bool cmd_asks_for_help(const cmd_context_t *context);

/* If a word is --help or -h, prints usage, examples and options on rank 0 and returns true: the common options, or, if
 * `all` follows, every one; the options alone of another topic. --help=tsv prints tab-separated lines `usage LINE`, then
 * those of opt_help_tsv, then `example WHAT COMMAND`, which scripts/dev/manual.sh reads.
 *
 *   usage  what follows a form feed, which ends a line's text, is left out by a plain --help
 *   err    the exit code; ERR_USAGE for an unknown topic. Unchanged without --help */
bool cmd_wants_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups, int n_groups,
                    err_t *err);

/* Prints the list of commands; `list` ends with a NULL name, `word` as typed, --help or --help=tsv. */
err_t cmd_help_commands(const char *word, const cmd_t *list);

/* With --help=tsv, prints a line `KIND NAME SUMMARY` that describes a word of the command line.
 *
 *   kind  verb: has its own help; word: has none; case: several may be given; model: a model's name */
void cmd_tell_word(const cmd_context_t *context, const char *kind, const char *name, const char *summary);

#endif
