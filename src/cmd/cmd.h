/* SPDX-License-Identifier: MIT */
/* Subcommands: options in, calls down. One file each. Every command returns the exit code as err_t, after its
 * message was printed. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "base/err.h"
#include "base/opt.h"

typedef struct cmd_context {
    int argc; /* words after the subcommand */
    char **argv;
    const char *name[2];           /* "data", "pack"; the second NULL: no verb */
    void (*abort_job)(err_t code); /* ends the whole job from any thread */
} cmd_context_t;

typedef struct cmd {
    const char *name, *summary;
    err_t (*run)(const cmd_context_t *context);
} cmd_t;

/* Every subcommand, ended by a NULL name. */
extern const cmd_t cmds[];

err_t cmd_train(const cmd_context_t *context);
err_t cmd_eval(const cmd_context_t *context);
err_t cmd_checkpoint(const cmd_context_t *context);
err_t cmd_bench(const cmd_context_t *context);
err_t cmd_data(const cmd_context_t *context);
err_t cmd_report(const cmd_context_t *context);
err_t cmd_check(const cmd_context_t *context);
err_t cmd_hosts(const cmd_context_t *context);
err_t cmd_info(const cmd_context_t *context);

/* Finds and runs what argv names; no subcommand means train. */
err_t cmd_dispatch(int argc, char **argv, void (*abort_job)(err_t code));

/* Prints this process's error where rank 0 speaks, and returns it. Before a communicator is open. */
err_t cmd_fail(err_t err);

/* The context of the verb that the first word names. */
cmd_context_t cmd_verb(const cmd_context_t *context);

/* True when one of the words is --help or -h (common options; with `all` after it every one), or --help=tsv.
 * Then `usage` and the groups' options have been printed, for programs in lines as opt_help_tsv's, with
 * `usage LINE` before them (scripts/dev/manual.sh reads them). */
bool cmd_wants_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups, int n_groups);

/* With --help=tsv prints a line `KIND NAME SUMMARY`, of what a word of the command line may be: a `verb`,
 * which has help of its own, a `word`, which has not, a `case`, of which there may be several, or the name of
 * a `model`. */
void cmd_tell_word(const cmd_context_t *context, const char *kind, const char *name, const char *summary);

#endif
