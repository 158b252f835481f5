/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Options: every type, every way to write one, and every way to get one wrong. */
#include "tests/tap.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "text/opt.h"

typedef struct values {
    int64_t batch, bucket, free;
    double lr, momentum;
    const char *data, *device;
    bool overlap, quiet;
} values_t;

static const char *const devices[] = {"auto", "ref", "cpu", NULL};
static const opt_t table[] = {
    {"batch", OPT_INT, offsetof(values_t, batch), "64", 1, 1000, NULL, "N", "samples", OPT_MORE},
    {"bucket", OPT_SIZE, offsetof(values_t, bucket), "1M", 1024, 0x1p37, NULL, "SIZE", "bytes", OPT_MORE},
    {"free", OPT_INT, offsetof(values_t, free), NULL, 0, 0, NULL, "N", "any number", OPT_MORE},
    {"lr", OPT_REAL, offsetof(values_t, lr), "0.03", 0, 10, NULL, "X", "learning rate", OPT_MORE},
    {"secret", OPT_REAL, offsetof(values_t, momentum), "0.9", 0, 1, NULL, "X", "hidden", OPT_HIDDEN},
};
static const opt_t table2[] = {
    {"data", OPT_STRING, offsetof(values_t, data), NULL, 0, 0, NULL, "DIR", "folder", OPT_MORE},
    {"device", OPT_CHOICE, offsetof(values_t, device), "auto", 0, 0, devices, NULL, "backend", OPT_MORE},
    {"overlap", OPT_FLAG, offsetof(values_t, overlap), NULL, 0, 0, NULL, NULL, "early", OPT_MORE},
    {"quiet", OPT_FLAG, offsetof(values_t, quiet), "true", 0, 0, NULL, NULL, "silence", OPT_MORE},
};

static values_t v;
static opt_group_t groups[2] = {{"First", table, 5, &v, 0}, {"Second", table2, 4, &v, 0}};
static const char *words[4];
static int n_words;

/* Parses a copy of `line`, split at single blanks ("~" stands for an empty word). */
static err_t parse(const char *line)
{
    static char copy[256];
    char *argv[16];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "~") == 0 ? word + 1 : word;
    memset(&v, 0x55, sizeof v);
    n_words = -1;
    err_t err = opt_defaults(groups, 2);
    return err != ERR_OK ? err : opt_parse(groups, 2, argc, argv, words, 4, &n_words);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-15;
}

static void check_defaults(void)
{
    OK_CALL(parse(""), "nothing is fine");
    OK(v.batch == 64 && v.bucket == 1 << 20 && near(v.lr, 0.03) && near(v.momentum, 0.9),
       "numbers have defaults");
    OK(strcmp(v.device, "auto") == 0 && v.quiet, "so have choices and switches");
    OK(v.free == 0 && v.data == NULL && !v.overlap, "without one they are zero");
    OK(n_words == 0 && !opt_given(groups, 2, "batch"), "nothing counts as given");
}

static void check_forms(void)
{
    OK_CALL(parse("a --batch 7 --bucket=64k --lr 1e-2 b --data x=y --device=cpu --overlap --no-quiet"),
            "all forms");
    OK(v.batch == 7 && v.bucket == 65536 && near(v.lr, 0.01), "numbers");
    OK(strcmp(v.data, "x=y") == 0 && strcmp(v.device, "cpu") == 0, "texts");
    OK(v.overlap && !v.quiet, "switches");
    OK(n_words == 2 && strcmp(words[0], "a") == 0 && strcmp(words[1], "b") == 0,
       "words in between are kept in order");
    OK(opt_given(groups, 2, "batch") && opt_given(groups, 2, "quiet") && !opt_given(groups, 2, "secret"),
       "what was given is known");
    OK(parse("--data=") == ERR_OK && strcmp(v.data, "") == 0, "a text may be empty");
    OK(parse("--lr 2.5%") == ERR_OK && near(v.lr, 0.025) && parse("--lr %") == ERR_USAGE &&
           parse("--lr 2%%") == ERR_USAGE && parse("--lr 1100%") == ERR_USAGE,
       "a share may be in percent");
    OK(parse("--free -5 -") == ERR_OK && v.free == -5 && n_words == 1,
       "a value may be negative, a word one dash");
    OK(parse("--batch 2 -- --batch -x") == ERR_OK && n_words == 2 && strcmp(words[0], "--batch") == 0,
       "-- ends the options");
    OK(parse("--overlap=true --quiet=false") == ERR_OK && v.overlap && !v.quiet,
       "a switch takes =true and =false");
}

static void check_numbers(void)
{
    static const struct {
        const char *text;
        int64_t n_bytes;
    } sizes[] = {{"1024", 1024},  {"4K", 4096},    {"2kB", 2048},
                 {"3M", 3 << 20}, {"1G", 1 << 30}, {"128g", 1LL << 37}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char line[64];
        snprintf(line, sizeof line, "--bucket %s", sizes[i].text);
        OK(parse(line) == ERR_OK && v.bucket == sizes[i].n_bytes, "--bucket %s", sizes[i].text);
    }
    OK(parse("--batch 1") == ERR_OK && parse("--batch 1000") == ERR_OK, "both ends of a range are in it");
    OK(parse("--free 9223372036854775807") == ERR_OK && v.free == INT64_MAX, "the largest whole number");
}

/* Each line fails with ERR_USAGE and a message that contains `words`. */
static void check_mistakes(void)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"--batch 0", "from 1 to 1000"},
        {"--batch 1001", "out of range"},
        {"--batch 12x", "invalid --batch '12x': expected a whole number"},
        {"--batch 1K", "whole number"},
        {"--batch ~", "whole number"},
        {"--batch=", "whole number"},
        {"--batch 1.5", "whole number"},
        {"--batch", "requires a value (N)"},
        {"--device", "requires a value (auto|ref|cpu)"},
        {"--batch --quiet", "requires a value (N)"},
        {"--free 9223372036854775808", "too large"},
        {"--bucket 9223372036854775807K", "too large"},
        {"--bucket 1T", "size"},
        {"--bucket 1MiB", "size"},
        {"--bucket K", "size"},
        {"--bucket 512", "out of range"},
        {"--lr fast", "number"},
        {"--lr 0.1x", "number"},
        {"--lr nan", "number"},
        {"--lr inf", "number"},
        {"--lr -1", "out of range"},
        {"--device gpu", "auto, ref, cpu"},
        {"--device CPU", "expected one of"},
        {"--overlap=yes", "takes no value"},
        {"--batch 1 --batch 1", "twice"},
        {"--quiet --no-quiet", "twice"},
        {"--no-batch", "unknown option"},
        {"--no-overlap=true", "unknown option"},
        {"--bacth 3", "did you mean --batch"},
        {"--over-lap", "did you mean --overlap"},
        {"--devices cpu", "did you mean --device"},
        {"--zzzzzzzz 1", "--help all lists"},
        {"--secre 1", "unknown option"},
        {"--batch-size 3",
         "unknown option --batch-size; write --batch N over all ranks, or --batch-per-rank N"},
        {"--batch_size=3", "unknown option --batch_size; write --batch N"},
        {"--learning-rate 1", "unknown option --learning-rate; write --lr X"},
        {"--no-cuda", "unknown option --no-cuda; write --device cpu"},
        {"--batch_ 3", "did you mean --batch?"},
        /* Of an option that this command does not have. */
        {"--workers 3", "unknown option --workers; --help all"},
        {"-z", "unknown option -z; short options: -h, -q, -v"},
        {"-batch 3", "unknown option -batch; short options: -h"},
        {"--=3", "not an option"},
        {"a b c d e", "unexpected argument 'e'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err_t err = parse(cases[i].line);
        OK(err == ERR_USAGE && strstr(err_message(), cases[i].words), "%s → %s", cases[i].line,
           err_message());
    }
    OK(parse("--secre 1") == ERR_USAGE && !strstr(err_message(), "secret"), "a hidden key is not suggested");
    char line[200] = "--";
    memset(line + 2, 'k', 150);
    OK(parse(line) == ERR_USAGE, "a key of 150 letters is refused");
}

static void check_nearest(void)
{
    static const char *const commands[] = {"train", "eval", "data", "info"};
    const char *found = opt_nearest("trian", commands, 4);
    OK(found && strcmp(found, "train") == 0, "trian is near train");
    OK(opt_nearest("xyzxyzxyz", commands, 4) == NULL, "xyzxyzxyz is near nothing");
    OK(opt_nearest("train", commands, 0) == NULL, "nothing is near without candidates");
    const char *longer =
        "ttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt";
    OK(opt_nearest("train", &longer, 1) == NULL, "a very long candidate is not near");
}

static void check_records(void)
{
    json_t j = {0};
    parse("--lr 0.1 --data a\"b --bucket 4K");
    opt_json(groups, 2, &j, NULL);
    const char *expected =
        "{\"batch\":64,\"bucket\":4096,\"free\":0,\"lr\":0.1,\"secret\":0.9,\"data\":\"a\\\"b\","
        "\"device\":\"auto\",\"overlap\":false,\"quiet\":true}";
    OK(strcmp(j.text, expected) == 0, "opt_json records every value: %s", j.text);
    json_free(&j);

    char text[64];
    int bad = 0;
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < groups[g].n; i++) {
            char line[128];
            const values_t before = (parse("--lr 0.30000000000000004 --data d --bucket 3M --no-quiet"), v);
            opt_text(&groups[g], i, text, sizeof text);
            snprintf(line, sizeof line, "--%s=%s", groups[g].table[i].key, text);
            bad += parse(line) != ERR_OK;
            opt_text(&groups[g], i, line, sizeof line);
            bad += strcmp(line, text) != 0;
            if (strcmp(groups[g].table[i].key, "lr") == 0) bad += memcmp(&before.lr, &v.lr, sizeof v.lr) != 0;
        }
    OK(bad == 0, "opt_text is read back by opt_parse");
}

/* A size may be left to the program where that is its default. */
static void check_auto(void)
{
    static const opt_t table3[] = {
        {"bucket", OPT_SIZE, offsetof(values_t, bucket), "auto", 1024, 0x1p37, NULL, "SIZE", "bytes",
         OPT_MORE},
    };
    static const char *const lines[] = {"--bucket=auto", "--bucket=1K", "--bucket=128G"};
    static const int64_t n_bytes[] = {0, 1024, 1LL << 37};
    static const char *const texts[] = {"auto", "1024", "137438953472"};
    opt_group_t group = {"Third", table3, 1, &v, 0};
    char text[64], word[64];
    char *argv[] = {word};
    v.bucket = 5;
    OK_CALL(opt_defaults(&group, 1), "auto may be a size's default");
    OK(v.bucket == 0, "which is 0 to the program");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(word, sizeof word, "%s", lines[i]);
        if (opt_defaults(&group, 1) != ERR_OK) abort();
        OK(opt_parse(&group, 1, 1, argv, NULL, 0, NULL) == ERR_OK && v.bucket == n_bytes[i], "%s", lines[i]);
        opt_text(&group, 0, text, sizeof text);
        OK(strcmp(text, texts[i]) == 0, "… is written %s", text);
    }
    static const struct {
        const char *line, *words;
    } cases[] = {{"--bucket=0", "out of range"},
                 {"--bucket=1023", "from 1024"},
                 {"--bucket=automatic", "'automatic': expected a size such as 4096, 64K, 8M or 1G, or auto"},
                 {"--bucket=AUTO", "or auto"},
                 {"--bucket=", "or auto"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(word, sizeof word, "%s", cases[i].line);
        if (opt_defaults(&group, 1) != ERR_OK) abort();
        OK(opt_parse(&group, 1, 1, argv, NULL, 0, NULL) == ERR_USAGE && strstr(err_message(), cases[i].words),
           "%s → %s", cases[i].line, err_message());
    }
    OK(parse("--bucket auto") == ERR_USAGE && !strstr(err_message(), "or auto"),
       "elsewhere auto is no size: %s", err_message());

    char *written = NULL, *storage = NULL;
    if (opt_defaults(&group, 1) != ERR_OK) abort();
    OK(opt_config_write(&group, 1, NULL, &written) == ERR_OK && strcmp(written, "bucket = auto\n") == 0,
       "a file of options keeps auto");
    v.bucket = 5;
    OK(opt_config_read(&group, 1, written, "test", &storage) == ERR_OK && v.bucket == 0, "and gives it back");
    mem_free(&written);
    mem_free(&storage);
}

/* Warnings are counted; their words are in tests/cli/help.bats. */
static int idle(const char *line, const opt_when_t *whens, const opt_fact_t *facts, const uint64_t *typed)
{
    if (parse(line) != ERR_OK) return -1;
    return opt_warn_idle(groups, 2, whens, facts, typed);
}

static void check_idle(void)
{
    static const opt_when_t whens[] = {{"lr|batch", "device", "cpu|ref", NULL},
                                       {"lr", "data", NULL, NULL},
                                       {"bucket", "nothing of this name", "x", NULL},
                                       {NULL, NULL, NULL, NULL}};
    static const opt_fact_t facts[] = {{"device", "cpu"}, {"data", NULL}, {NULL, NULL}};
    const uint64_t none[2] = {0};
    OK(idle("--lr 1 --batch 2 --device cpu --data x", whens, NULL, NULL) == 0, "conditions that hold");
    OK(idle("--lr 1 --batch 2 --data x", whens, NULL, NULL) == 2, "an option that has another value");
    OK(idle("--lr 1 --device ref", whens, NULL, NULL) == 1, "an option that is not set");
    OK(idle("--bucket 1M", whens, NULL, NULL) == 0 && idle("--quiet", whens, NULL, NULL) == 0,
       "no condition");
    OK(idle("--lr 1 --batch 2", whens, facts, NULL) == 1, "a fact takes an option's place");
    OK(idle("--lr 1 --batch 2", whens, NULL, none) == 0, "options that were not typed");
}

int main(void)
{
    unsetenv("DPTRAIN_DEBUG");
    tap_plan(98);
    check_defaults();
    check_forms();
    check_numbers();
    check_mistakes();
    check_nearest();
    check_records();
    check_auto();
    check_idle();
    OK(mem_live() == 0, "nothing is left allocated");
    return tap_done();
}
