/* SPDX-License-Identifier: MIT */
/* What the commands share: their errors, their verbs, and --help, --help TOPIC, --help all and --help=tsv. The words of help
 * are those of the commands' usage, of their option tables and of the examples here. */
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "base/version.h"
#include "text/table.h"

/* Three commands to start from, the first ones of each --help; tests/cli/help.bats runs them, those of one help in order in
 * one folder, or checks them where they need hosts or minutes. */
enum { N_EXAMPLES = 3 };

typedef struct example {
    const char *what, *command;
} example_t;

static const struct {
    const char *name; /* command, or command and verb */
    example_t examples[N_EXAMPLES];
} all_examples[] = {
    {"",
     {{"is this machine ready?", "dptrain check"},
      {"train LeNet-5 on 2 ranks of it", "mpirun -np 2 dptrain train --out runs/first"},
      {"the same on several hosts", "dptrain run -hostfile hosts -- train --out runs/second"}}},
    {"train",
     {{"LeNet-5 on 2 ranks of this machine", "mpirun -np 2 dptrain train --out runs/first"},
      {"go on after an interruption", "mpirun -np 2 dptrain train --out runs/first --resume auto"},
      {"ResNet-50 on a folder of images, on several hosts",
       "dptrain run -hostfile hosts -- train --model resnet50 --data imagenet"}}},
    {"eval",
     {{"the newest checkpoint of a run", "dptrain eval runs/first"},
      {"an image of its worst mistakes", "dptrain eval runs/first --png worst.png"},
      {"score a file of detections as pycocotools does",
       "dptrain eval --results bbox.json --data instances_val2017.json"}}},
    {"predict",
     {{"the class of an image", "dptrain predict runs/first digit.png"},
      {"of a folder of images, as JSON", "dptrain predict runs/first photos --json predicted.json"},
      {"draw the objects that a detector finds", "dptrain predict runs/coco photos --out found"}}},
    {"checkpoint",
     {{"what a checkpoint holds", "dptrain checkpoint show runs/first"},
      {"compare its bytes with its hashes", "dptrain checkpoint verify runs/first"},
      {"weights for NumPy or PyTorch", "dptrain checkpoint export runs/first --out weights.npz"}}},
    {"replay",
     {{"the recorded steps of a run", "dptrain replay runs/first"},
      {"from step 300 to the next recorded bits", "dptrain replay runs/first --step 300"},
      {"on 2 ranks", "mpirun -np 2 dptrain replay runs/first"}}},
    {"bench",
     {{"everything, in two minutes", "mpirun -np 2 dptrain bench all --quick"},
      {"allreduce, as nccl-tests measure it", "mpirun -np 2 dptrain bench comm -b 8 -e 64M -f 2"},
      {"training steps of ResNet-50", "mpirun -np 2 dptrain bench step --step-model resnet50"}}},
    {"report",
     {{"tables of one or several recordings", "dptrain report runs/first/metrics.jsonl"},
      {"one case, as CSV", "dptrain report bench.jsonl --case comm --format csv"},
      {"the same with charts", "dptrain report html bench.jsonl --out bench.html"}}},
    {"report compare",
     {{"is it slower than before?", "dptrain report compare before.jsonl after.jsonl"},
      {"of a folder of starts each", "dptrain report compare before after"},
      {"for a script", "dptrain report compare before after --format json"}}},
    {"report history",
     {{"when it became slower", "dptrain report history recordings"},
      {"one case", "dptrain report history recordings --case step"},
      {"for a script", "dptrain report history recordings --format json"}}},
    {"report html",
     {{"a page with charts", "dptrain report html bench.jsonl --out bench.html"},
      {"of training runs", "dptrain report html runs/first runs/second --out runs.html"},
      {"of a folder of recordings", "dptrain report html recordings --out recordings.html"}}},
    {"data",
     {{"pack a folder of images", "dptrain data pack --from photos --out packed"},
      {"find damage", "dptrain data verify packed"},
      {"a sheet of its images", "dptrain data show packed --out sheet.png"}}},
    {"data synth",
     {{"70000 digits as IDX files", "dptrain data synth digits --out digits"},
      {"train on them", "dptrain train --data ./digits"},
      {"JPEGs of shapes, a folder per class", "dptrain data synth shapes --out shapes"}}},
    {"data pack",
     {{"a folder with a folder per class", "dptrain data pack --from photos --out packed"},
      {"by 8 processes", "mpirun -np 8 dptrain data pack --from coco --out shards"},
      {"train on the shards", "dptrain train --data packed --model resnet18"}}},
    {"data verify",
     {{"compare every byte", "dptrain data verify packed"},
      {"by 8 processes", "mpirun -np 8 dptrain data verify packed"},
      {"then train", "dptrain train --data packed --model resnet18"}}},
    {"data show",
     {{"a summary", "dptrain data show data/mnist"},
      {"a sheet of images", "dptrain data show packed --out sheet.png"},
      {"of a category", "dptrain data show coco --category person --out people.png"}}},
    {"check",
     {{"this machine, beside other work", "dptrain check --allow-busy"},
      {"all hosts, with the data", "dptrain run -hostfile hosts -- check --data /shared/mnist"},
      {"only the network and the clocks",
       "dptrain run -hostfile hosts -- check --only reach,network,clock"}}},
    {"hosts",
     {{"what a hostfile says", "dptrain hosts show hosts"},
      {"a hostfile from a list", "dptrain hosts hostfile node[1-4]:8"},
      {"ssh's configuration from a specification", "dptrain hosts ssh-config cluster.yaml"}}},
    {"info",
     {{"build, libraries and devices", "dptrain info"},
      {"the layers of a model", "dptrain info --model resnet50"},
      {"with batch 32 in bf16", "dptrain info --model resnet50 --batch 32 --precision bf16"}}},
    {"run",
     {{"LeNet-5 on all GPUs of this machine, or on all cores",
       "dptrain run -- train --data /shared/mnist --out runs/first"},
      {"on two hosts, 8 ranks each; --dry-run prints the command",
       "dptrain run -H a:8,b:8 -x NCCL_DEBUG=INFO -- train --data /shared/mnist"},
      {"for days: start again on the hosts that are left",
       "dptrain run -hostfile hosts --restarts 20 -- train --out runs/week"}}},
};

/* Prints the examples of a command, if there are any. tsv: as lines `example WHAT COMMAND`. */
static void print_examples(const cmd_context_t *context, bool tsv)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", context->name[0], context->name[1] ? " " : "",
             context->name[1] ? context->name[1] : "");
    for (size_t i = 0; i < sizeof all_examples / sizeof *all_examples; i++) {
        if (strcmp(name, all_examples[i].name) != 0) continue;
        if (!tsv) print_out("\nExamples:\n");
        for (int k = 0; k < N_EXAMPLES; k++) {
            const example_t *example = &all_examples[i].examples[k];
            print_out(tsv ? "example\t%s\t%s\n" : "  # %s\n  %s\n", example->what, example->command);
        }
    }
}

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

err_t cmd_refuse_ranks(const char *command)
{
    const launch_t launch = launch_read();
    if (launch.size <= 1) return ERR_OK;
    RAISE(
        ERR_USAGE,
        "dptrain %s starts mpirun itself: leave out the %s before it (%s is %d). If the variable is left over: "
        "'env -u %s dptrain %s ...'",
        command, launch.name, launch.variable, launch.size, launch.variable, command);
}

cmd_context_t cmd_verb(const cmd_context_t *context)
{
    cmd_context_t verb = *context;
    verb.name[1] = context->argv[0];
    verb.argc--;
    verb.argv++;
    return verb;
}

err_t cmd_unknown_verb(const char *command, const char *word, const char *const *verbs)
{
    char list[128];
    int n = 0;
    opt_join(verbs, ", ", list, sizeof list);
    while (verbs[n]) n++;
    const char *nearest = word[0] ? opt_nearest(word, verbs, n) : NULL;
    if (nearest)
        RAISE(ERR_USAGE, "dptrain %s: unknown verb '%s'; did you mean '%s'?", command, word, nearest);
    if (!word[0]) RAISE(ERR_USAGE, "dptrain %s: expected a verb: %s", command, list);
    RAISE(ERR_USAGE, "dptrain %s: unknown verb '%s'; expected one of %s", command, word, list);
}

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

static err_t print_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups,
                        int n_groups, const char *topic)
{
    char text[USAGE_BYTES], topics[OPT_MAX_TOPICS][OPT_TOPIC_BYTES], list[512], name[64];
    int n_left_out = 0;
    if (topic) TRY(check_topic(context, groups, n_groups, topic));
    if (!log_speaks()) return ERR_OK;
    if (topic && strcmp(topic, "all") != 0) return opt_help(groups, n_groups, topic, NULL);
    const bool cut = usage_text(usage, topic != NULL, text);
    print_usage(text);
    print_examples(context, false);
    TRY(opt_help(groups, n_groups, topic, &n_left_out));
    if (topic) return ERR_OK;
    full_name(context, name, sizeof name);
    join_topics(groups, n_groups, list, sizeof list);
    if (opt_topics(groups, n_groups, topics) > 1)
        snprintf(text, sizeof text, "More: %s --help all, or --help TOPIC: %s", name, list);
    else if (cut || n_left_out > 0)
        snprintf(text, sizeof text, "More: %s --help all", name);
    else
        return ERR_OK;
    print_out("\n");
    table_put_wrapped(stdout, text, 0, 0, opt_help_columns());
    return ERR_OK;
}

bool cmd_wants_help(const cmd_context_t *context, const char *usage, const opt_group_t *groups, int n_groups,
                    err_t *err)
{
    const char *topic;
    help_t help = help_wanted(context, &topic);
    if (help == HELP_NONE) return false;
    *err = ERR_OK;
    if (help == HELP_TSV) {
        char text[USAGE_BYTES];
        if (log_speaks()) {
            usage_text(usage, true, text);
            for (const char *at = text; *at;) {
                const int n = (int)strcspn(at, "\n");
                print_out("usage\t%.*s\n", n, at);
                at += n + (at[n] != '\0');
            }
            opt_help_tsv(groups, n_groups);
            print_examples(context, true);
        }
    } else {
        *err = cmd_fail(print_help(context, usage, groups, n_groups, topic));
    }
    return true;
}

void cmd_tell_word(const cmd_context_t *context, const char *kind, const char *name, const char *summary)
{
    const char *topic;
    if (help_wanted(context, &topic) == HELP_TSV && log_speaks())
        print_out("%s\t%s\t%s\n", kind, name, summary);
}

err_t cmd_help_commands(const char *word, const cmd_t *list)
{
    const char *topic;
    if (!log_speaks()) return ERR_OK;
    if (help_of_word(word, &topic) == HELP_TSV) {
        print_out("version\t%s\n", version_number);
        for (const cmd_t *cmd = list; cmd->name; cmd++)
            print_out("command\t%s\t%s\n", cmd->name, cmd->summary);
        return ERR_OK;
    }
    const cmd_context_t context = {.name = {""}};
    table_t table = {.columns = {{NULL, true}, {NULL, true}},
                     .n_columns = 2,
                     .indent = 2,
                     .max_width = opt_help_columns()};
    for (const cmd_t *cmd = list; cmd->name; cmd++) {
        table_cell(&table, "%s", cmd->name);
        table_cell(&table, "%s", cmd->summary);
    }
    print_out("dptrain %s: checks and benchmarks a cluster, and trains on it\n\n"
              "usage: [mpirun -np N [-hostfile FILE]] dptrain [COMMAND] [options]\n",
              version_number);
    print_examples(&context, false);
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
    return cmd_fail(err);
}
