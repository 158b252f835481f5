/* SPDX-License-Identifier: MIT */
/* Dispatches to a subcommand and answers --help, --help=tsv and --version. The list of subcommands is in
 * cmd/registry.c. */
#include "cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "base/isa.h"
#include "base/log.h"
#include "base/print.h"
#include "base/table.h"
#include "base/version.h"

err_t cmd_fail(err_t err)
{
    if (err != ERR_OK) log_early_error("%s", err_message());
    return err;
}

bool cmd_only_checks(void)
{
    const char *set = getenv("DPTRAIN_CHECK_OPTIONS");
    if (!set || !set[0]) return false;
    log_note("the options are valid; DPTRAIN_CHECK_OPTIONS is set, so nothing runs");
    return true;
}

typedef enum help { HELP_NONE, HELP_COMMON, HELP_ALL, HELP_TSV } help_t;

static help_t help_of_word(const char *word)
{
    if (strcmp(word, "--help=tsv") == 0) return HELP_TSV;
    if (strcmp(word, "--help=all") == 0) return HELP_ALL;
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ? HELP_COMMON : HELP_NONE;
}

static help_t help_wanted(const cmd_context_t *context)
{
    for (int i = 0; i < context->argc; i++) {
        if (strcmp(context->argv[i], "--") == 0) break;
        help_t help = help_of_word(context->argv[i]);
        bool all = help == HELP_COMMON && i + 1 < context->argc && strcmp(context->argv[i + 1], "all") == 0;
        if (help != HELP_NONE) return all ? HELP_ALL : help;
    }
    return HELP_NONE;
}

static void print_usage_tsv(const char *usage)
{
    while (*usage) {
        int n = (int)strcspn(usage, "\n");
        print_out("usage\t%.*s\n", n, usage);
        usage += n + (usage[n] != '\0');
    }
}

/* Prints paragraphs as wide as the terminal, and lines that are indented, or follow such lines, as they are. */
static void print_usage(const char *usage)
{
    char paragraph[1024];
    size_t used = 0;
    bool as_is = true; /* the lines of "usage:" */
    for (const char *at = usage; *at;) {
        const int n = (int)strcspn(at, "\n");
        if (n == 0) as_is = false;
        const bool prose = !as_is && n > 0 && *at != ' ';
        as_is |= *at == ' ';
        if (prose && used + (size_t)n + 2 < sizeof paragraph)
            used +=
                (size_t)snprintf(paragraph + used, sizeof paragraph - used, "%s%.*s", used ? " " : "", n, at);
        const char *next = at + n + (at[n] == '\n');
        const bool ends = !prose || *next == '\0' || *next == '\n' || *next == ' ';
        if (used && ends) table_put_wrapped(stdout, paragraph, 0, 0, opt_help_columns());
        if (ends) used = 0;
        if (!prose) print_out("%.*s\n", n, at);
        at = next;
    }
}

static err_t print_command_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups,
                                int n_groups, bool all)
{
    int n_left_out = 0;
    print_usage(usage);
    TRY(opt_help(groups, n_groups, all, &n_left_out));
    if (usage[0]) cmd_print_examples(context, false);
    if (n_left_out == 0) return ERR_OK;
    print_out("\ndptrain %s%s%s --help all lists every option\n", context->name[0],
              context->name[1] ? " " : "", context->name[1] ? context->name[1] : "");
    return ERR_OK;
}

bool cmd_wants_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups, int n_groups)
{
    help_t help = help_wanted(context);
    if (help == HELP_NONE || !log_speaks()) return help != HELP_NONE;
    if (help == HELP_TSV) {
        print_usage_tsv(usage);
        opt_help_tsv(groups, n_groups);
        if (usage[0]) cmd_print_examples(context, true);
    } else {
        cmd_fail(print_command_help(context, usage, groups, n_groups, help == HELP_ALL));
    }
    return true;
}

cmd_context_t cmd_verb(const cmd_context_t *context)
{
    cmd_context_t verb = *context;
    verb.name[1] = context->argv[0];
    verb.argc--;
    verb.argv++;
    return verb;
}

void cmd_tell_word(const cmd_context_t *context, const char *kind, const char *name, const char *summary)
{
    if (help_wanted(context) == HELP_TSV && log_speaks()) print_out("%s\t%s\t%s\n", kind, name, summary);
}

static void print_help(void)
{
    table_t table = {.columns = {{NULL, true}, {NULL, true}},
                     .n_columns = 2,
                     .indent = 2,
                     .max_width = opt_help_columns()};
    for (const cmd_t *cmd = cmds; cmd->name; cmd++) {
        table_cell(&table, "%s", cmd->name);
        table_cell(&table, "%s", cmd->summary);
    }
    print_out("dptrain %s: checks and benchmarks a cluster, and trains on it\n\n"
              "usage: mpirun [-np N] [-hostfile FILE] dptrain [COMMAND] [options]\n\n",
              version_number);
    cmd_fail(table_print(&table, stdout));
    table_free(&table);
    print_usage("\ndptrain COMMAND --help lists a command's common options; --help all lists every\n"
                "option. dptrain --version prints version, revision and compiler.\n\n"
                "Exit codes: 0 success; 1 a check, target or comparison failed; 2 usage;\n"
                "3 invalid input data; 4 system or library failure; 5 a peer was lost or a wait\n"
                "timed out; 6 a comparison decided nothing; 130, 143 stopped by Ctrl-C, SIGTERM\n"
                "(1 under bare mpirun).\n");
}

static void print_help_tsv(void)
{
    print_out("version\t%s\n", version_number);
    for (const cmd_t *cmd = cmds; cmd->name; cmd++) print_out("command\t%s\t%s\n", cmd->name, cmd->summary);
}

static void print_version(void)
{
    if (log_speaks()) print_out("dptrain %s (%s, %s)\n", version_number, version_git_hash, version_compiler);
}

static err_t run_command(int argc, char **argv, void (*abort_job)(err_t code))
{
    const char *word = argc > 1 ? argv[1] : "";
    cmd_context_t context = {argc - 2, argv + 2, {"train"}, abort_job};
    err_t err = isa_check();
    if (err != ERR_OK) return cmd_fail(err);
    help_t help = strcmp(word, "help") == 0 ? HELP_COMMON : help_of_word(word);
    if (help != HELP_NONE) {
        if (log_speaks()) (help == HELP_TSV ? print_help_tsv : print_help)();
        return ERR_OK;
    }
    if (strcmp(word, "--version") == 0) {
        print_version();
        return ERR_OK;
    }
    if (word[0] == '-' || argc < 2) {
        context.argc = argc - 1;
        context.argv = argv + 1;
        return cmd_train(&context);
    }
    for (const cmd_t *cmd = cmds; cmd->name; cmd++) {
        if (strcmp(cmd->name, word) != 0) continue;
        context.name[0] = cmd->name;
        if (cmd->local) deadline_enter(DEADLINE_RUN, "");
        return cmd->run(&context);
    }
    return cmd_fail(cmd_unknown(word));
}

/* As of a full disk or a quota. Commands whose output is a document have checked it before. */
static err_t check_output(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return ERR_OK;
    RAISE(ERR_SYSTEM, "cannot write standard output: %s",
          errno ? strerror(errno) : "part of it is lost; is the disk full?");
}

err_t cmd_dispatch(int argc, char **argv, void (*abort_job)(err_t code))
{
    err_t err = run_command(argc, argv, abort_job);
    return err == ERR_OK ? cmd_fail(check_output()) : err;
}
