/* SPDX-License-Identifier: MIT */
/* Answers --help, --help TOPIC, --help all and --help=tsv. The words are those of the commands' usage, of their option tables
 * and of cmd/examples.c. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/table.h"
#include "base/version.h"
#include "cmd/cmd.h"

enum { USAGE_BYTES = 4096 };

typedef enum help { HELP_NONE, HELP_TEXT, HELP_TSV } help_t;

/* *topic: of --help=TOPIC; else NULL. */
static help_t help_of_word(const char *word, const char **topic)
{
    *topic = NULL;
    if (strcmp(word, "--help=tsv") == 0) return HELP_TSV;
    if (strncmp(word, "--help=", 7) == 0) *topic = word + 7;
    return *topic || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ? HELP_TEXT : HELP_NONE;
}

bool cmd_is_help(const char *word)
{
    const char *topic;
    return help_of_word(word, &topic) != HELP_NONE;
}

/* *topic: the word after --help, unless it is an option; NULL: none. */
static help_t help_wanted(const cmd_context_t *context, const char **topic)
{
    for (int i = 0; i < context->argc; i++) {
        if (strcmp(context->argv[i], "--") == 0) break;
        help_t help = help_of_word(context->argv[i], topic);
        if (help == HELP_TEXT && !*topic && i + 1 < context->argc && context->argv[i + 1][0] != '-')
            *topic = context->argv[i + 1];
        if (help != HELP_NONE) return help;
    }
    return HELP_NONE;
}

bool cmd_asks_for_help(const cmd_context_t *context)
{
    const char *topic;
    return help_wanted(context, &topic) != HELP_NONE;
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

/* The usage up to its form feed, or, if it is asked for in full, without it. Returns whether something is left out. */
static bool usage_text(const char *usage, bool full, char out[USAGE_BYTES])
{
    const char *rest = strchr(usage, '\f');
    const int n = (int)(rest ? (size_t)(rest - usage) : strlen(usage));
    snprintf(out, USAGE_BYTES, "%.*s%s", n, usage, rest && full ? rest + 1 : "");
    return rest && !full;
}

static void full_name(const cmd_context_t *context, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "dptrain %s%s%s", context->name[0], context->name[1] ? " " : "",
             context->name[1] ? context->name[1] : "");
}

static void join_topics(const opt_group_t *groups, int n_groups, char *out, size_t n_bytes)
{
    char topics[OPT_MAX_TOPICS][OPT_TOPIC_BYTES];
    const char *list[OPT_MAX_TOPICS + 1];
    int n = opt_topics(groups, n_groups, topics);
    for (int i = 0; i < n; i++) list[i] = topics[i];
    list[n] = NULL;
    opt_join(list, ", ", out, n_bytes);
}

static err_t check_topic(const cmd_context_t *context, const opt_group_t *groups, int n_groups,
                         const char *topic)
{
    char topics[OPT_MAX_TOPICS][OPT_TOPIC_BYTES], list[512], own[OPT_TOPIC_BYTES], name[64];
    const char *words[OPT_MAX_TOPICS + 1] = {"all"};
    int n = opt_topics(groups, n_groups, topics);
    for (int i = 0; i < n; i++) words[i + 1] = topics[i];
    for (int i = 0; i <= n; i++)
        if (strcmp(topic, words[i]) == 0) return ERR_OK;
    join_topics(groups, n_groups, list, sizeof list);
    full_name(context, name, sizeof name);
    const char *nearest = opt_topic_of(groups, n_groups, topic, own) ? own : opt_nearest(topic, words, n + 1);
    RAISE(ERR_USAGE, "%s --help: unknown topic '%s'; %s%s%sthe topics are %s%sall", name, topic,
          nearest ? "did you mean '" : "", nearest ? nearest : "", nearest ? "'? " : "", list,
          n ? " and " : "");
}

static void print_topics(const cmd_context_t *context, const opt_group_t *groups, int n_groups, bool left_out)
{
    char topics[OPT_MAX_TOPICS][OPT_TOPIC_BYTES], list[512], name[64], text[1024];
    full_name(context, name, sizeof name);
    join_topics(groups, n_groups, list, sizeof list);
    if (opt_topics(groups, n_groups, topics) > 1)
        snprintf(text, sizeof text, "More: %s --help all, or --help TOPIC: %s", name, list);
    else if (left_out)
        snprintf(text, sizeof text, "More: %s --help all", name);
    else
        return;
    print_out("\n");
    table_put_wrapped(stdout, text, 0, 0, opt_help_columns());
}

static err_t print_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups,
                        int n_groups, const char *topic)
{
    char text[USAGE_BYTES];
    int n_left_out = 0;
    if (topic) TRY(check_topic(context, groups, n_groups, topic));
    if (!log_speaks()) return ERR_OK;
    if (topic && strcmp(topic, "all") != 0) return opt_help(groups, n_groups, topic, NULL);
    const bool cut = usage_text(usage, topic != NULL, text);
    print_usage(text);
    cmd_print_examples(context, false);
    TRY(opt_help(groups, n_groups, topic, &n_left_out));
    if (!topic) print_topics(context, groups, n_groups, cut || n_left_out > 0);
    return ERR_OK;
}

static void print_tsv(const cmd_context_t *context, const char *usage, const opt_group_t *groups,
                      int n_groups)
{
    char text[USAGE_BYTES];
    if (!log_speaks()) return;
    usage_text(usage, true, text);
    print_usage_tsv(text);
    opt_help_tsv(groups, n_groups);
    cmd_print_examples(context, true);
}

bool cmd_wants_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups, int n_groups,
                    err_t *err)
{
    const char *topic;
    help_t help = help_wanted(context, &topic);
    if (help == HELP_NONE) return false;
    *err = ERR_OK;
    if (help == HELP_TSV)
        print_tsv(context, usage, groups, n_groups);
    else
        *err = cmd_fail(print_help(context, usage, groups, n_groups, topic));
    return true;
}

void cmd_tell_word(const cmd_context_t *context, const char *kind, const char *name, const char *summary)
{
    const char *topic;
    if (help_wanted(context, &topic) == HELP_TSV && log_speaks())
        print_out("%s\t%s\t%s\n", kind, name, summary);
}

static void print_commands_tsv(void)
{
    print_out("version\t%s\n", version_number);
    for (const cmd_t *cmd = cmds; cmd->name; cmd++) print_out("command\t%s\t%s\n", cmd->name, cmd->summary);
}

static err_t print_commands(void)
{
    const cmd_context_t context = {.name = {""}};
    table_t table = {.columns = {{NULL, true}, {NULL, true}},
                     .n_columns = 2,
                     .indent = 2,
                     .max_width = opt_help_columns()};
    for (const cmd_t *cmd = cmds; cmd->name; cmd++) {
        table_cell(&table, "%s", cmd->name);
        table_cell(&table, "%s", cmd->summary);
    }
    print_out("dptrain %s: checks and benchmarks a cluster, and trains on it\n\n"
              "usage: [mpirun -np N [-hostfile FILE]] dptrain [COMMAND] [options]\n",
              version_number);
    cmd_print_examples(&context, false);
    print_out("\nCommands:\n");
    err_t err = table_print(&table, stdout);
    table_free(&table);
    print_usage(
        "\ndptrain COMMAND --help shows examples and the options to begin with; --help all lists every\n"
        "option. dptrain --version prints version, revision and compiler.\n\n"
        "Exit codes: 0 success; 1 a check, target or comparison failed; 2 usage;\n"
        "3 invalid input data; 4 system or library failure; 5 a peer was lost or a wait\n"
        "timed out; 6 a comparison decided nothing; 130, 143 stopped by Ctrl-C, SIGTERM\n"
        "(1 under bare mpirun).\n");
    return err;
}

err_t cmd_help_commands(const char *word)
{
    const char *topic;
    if (!log_speaks()) return ERR_OK;
    if (help_of_word(word, &topic) == HELP_TSV) {
        print_commands_tsv();
        return ERR_OK;
    }
    return cmd_fail(print_commands());
}
