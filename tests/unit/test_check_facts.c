/* SPDX-License-Identifier: MIT */
/* dptrain check's facts: judged among hosts and by a profile, which is written and read. RUN np=0 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/folder.h"
#include "tests/tap.h"
#include "tools/check/host.h"
#include "tools/check/lines.h"

/* A fictitious job: a rank on each host. */
enum { MAX_HOSTS = 1000, JOB = -1 };
static check_options_t options;
static check_rank_t ranks[MAX_HOSTS];
static comm_t comms[MAX_HOSTS];
static check_t checks[MAX_HOSTS];
static check_lines_t lines;
static int n_hosts;

static void begin(int n)
{
    n_hosts = n;
    for (int h = 0; h < n; h++) {
        ranks[h] = (check_rank_t){.host = h};
        snprintf(ranks[h].host_name, sizeof ranks[h].host_name, "node%d", h + 1);
        comms[h] = (comm_t){.rank = h, .size = n, .topo = {.rank = h, .size = n, .local_size = 1}};
        checks[h] = (check_t){.options = &options,
                              .comm = &comms[h],
                              .ranks = ranks,
                              .host = h,
                              .n_hosts = n,
                              .current = "machine"};
    }
}

static void add(int host, const check_fact_t *fact, const char *text)
{
    check_fact(&checks[host], check_host(&checks[host]), fact, "%s", text);
}

/* A text of each host, or of one; NULL: none. */
static void add_texts(const char *name, const char *const *texts)
{
    for (int h = 0; h < n_hosts; h++) check_equal(&checks[h], name, CHECK_WARN, "do this", texts[h]);
}

static void add_items(const char *item, const char *const *texts)
{
    const check_fact_t fact = {.name = "libraries",
                               .item = item,
                               .advice = "do this",
                               .rule = CHECK_EQUAL,
                               .unequal = CHECK_WARN,
                               .value = NAN};
    for (int h = 0; h < n_hosts; h++)
        if (texts[h]) add(h, &fact, texts[h]);
}

static void add_value(int host, check_fact_t fact, double value)
{
    char text[32];
    fact.value = value;
    fact.advice = "do this";
    snprintf(text, sizeof text, "%g GB", value);
    add(host, &fact, text);
}

static void add_values(check_fact_t fact, const double *values)
{
    for (int h = 0; h < n_hosts; h++) add_value(h, fact, values[h]);
}

static void gather(void)
{
    lines = (check_lines_t){0};
    for (int h = 0; h < n_hosts; h++)
        if (checks[h].text) check_lines_unpack(checks[h].text, checks[h].n_text, &lines);
}

static void judge(const check_profile_t *profile)
{
    gather();
    ASSERT(check_facts_judge(&checks[0], profile, &lines) == ERR_OK);
}

static void end(void)
{
    check_lines_free(&lines);
    for (int h = 0; h < n_hosts; h++) mem_free(&checks[h].text);
}

/* Whether a host, or the job, has a line with just this status and finding. */
static bool says(int host, const char *name, check_status_t status, const char *found)
{
    for (int64_t i = 0; i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        if (strcmp(line->name, name) == 0 && line->status == status && strcmp(line->found, found) == 0 &&
            (line->advice[0] != '\0') == (status > CHECK_SKIP) && line->rule == CHECK_FINDING &&
            (line->scope == CHECK_JOB ? JOB : line->index) == host)
            return true;
    }
    for (int64_t i = 0; i < lines.n; i++)
        printf("# %s of %d: %s '%s'\n", lines.line[i].name, lines.line[i].index,
               check_status_names[lines.line[i].status], lines.line[i].found);
    return false;
}

static int count_lines(check_status_t status)
{
    int n = 0;
    for (int64_t i = 0; i < lines.n; i++) n += lines.line[i].status == status;
    return n;
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__})

static void test_texts(void)
{
    begin(4);
    add_texts("kernel", TEXTS("5.10", "6.1", "6.1", "6.1"));
    add_texts("MPI", TEXTS("4.1", "4.1", "5.0", "5.0"));
    add_texts("NCCL", TEXTS("", "", "", ""));
    add_texts("driver", TEXTS("550", "", "550", "550"));
    add_texts("data", TEXTS("a", NULL, "a", "a"));
    judge(NULL);
    OK(says(0, "kernel", CHECK_WARN, "5.10; node2 has 6.1") && says(1, "kernel", CHECK_OK, "6.1"),
       "the minority is named, even if it is the first host");
    OK(says(2, "MPI", CHECK_WARN, "5.0; node1 has 4.1") && says(3, "MPI", CHECK_WARN, "5.0; node1 has 4.1") &&
           says(1, "MPI", CHECK_OK, "4.1"),
       "of two halves the first host is right");
    OK(says(0, "NCCL", CHECK_SKIP, "none") && says(3, "NCCL", CHECK_SKIP, "none"),
       "what no host has is skipped");
    OK(says(1, "driver", CHECK_WARN, "none; node1 has 550"), "a host without one");
    OK(count_lines(CHECK_OK) == 3 + 2 + 3 + 3, "a host that reported its own error takes no part");
    end();

    begin(2);
    const check_fact_t poor = {.name = "governor",
                               .advice = "do this",
                               .rule = CHECK_EQUAL,
                               .unequal = CHECK_WARN,
                               .alone = CHECK_WARN,
                               .value = NAN};
    const check_fact_t low = {.name = "ulimit",
                              .advice = "do this",
                              .rule = CHECK_EQUAL,
                              .unequal = CHECK_WARN,
                              .alone = CHECK_FAIL,
                              .value = NAN};
    for (int h = 0; h < 2; h++) add(h, &poor, "powersave");
    add(0, &low, "1");
    add(1, &low, "2");
    judge(NULL);
    OK(says(0, "governor", CHECK_WARN, "powersave") && says(1, "governor", CHECK_WARN, "powersave"),
       "a value that is poor on all hosts");
    OK(says(0, "ulimit", CHECK_FAIL, "1") && says(1, "ulimit", CHECK_FAIL, "2; node1 has 1"),
       "the worse of the two findings counts");
    end();
}

static void test_values(void)
{
    const check_fact_t memory = {
        .name = "memory", .rule = CHECK_EQUAL, .unequal = CHECK_FAIL, .tolerance = 0.02};
    const check_fact_t exact = {.name = "exact", .rule = CHECK_EQUAL, .unequal = CHECK_FAIL};
    const check_fact_t shown = {.name = "shown", .rule = CHECK_EQUAL, .unequal = CHECK_OK};
    begin(5);
    add_values(memory, (const double[]){96, 100, 101, 99.5, 100.5});
    add_values(exact, (const double[]){7, 7, 7, 7, 7.001});
    add_values(shown, (const double[]){1, 2, 3, 4, 5});
    judge(NULL);
    OK(says(0, "memory", CHECK_FAIL, "96 GB; node2 has 100 GB") && count_lines(CHECK_FAIL) == 2,
       "values within the tolerance are equal");
    OK(says(4, "exact", CHECK_FAIL, "7.001 GB; node1 has 7 GB"), "without one they are not");
    OK(says(4, "shown", CHECK_OK, "5 GB"), "facts that may differ");
    end();
}

static void test_speeds(void)
{
    check_fact_t copy = {.name = "copy", .rule = CHECK_SPEED};
    begin(5);
    add_values(copy, (const double[]){100, 96, 94, 84, 130});
    judge(NULL);
    OK(says(3, "copy", CHECK_WARN, "84 GB, 12 % below the median") && says(2, "copy", CHECK_OK, "94 GB") &&
           says(4, "copy", CHECK_OK, "130 GB"),
       "5 %% below the median is a warning");
    end();
    begin(4);
    add_values(copy, (const double[]){100, 80, 100, 60});
    judge(NULL);
    OK(says(1, "copy", CHECK_FAIL, "80 GB, 20 % below the median") &&
           says(3, "copy", CHECK_FAIL, "60 GB, 40 % below the median"),
       "15 %% a failure; of four, the upper median");
    end();
    begin(2);
    add_values(copy, (const double[]){80, 100});
    judge(NULL);
    OK(says(0, "copy", CHECK_FAIL, "80 GB, 20 % below the other") && says(1, "copy", CHECK_OK, "100 GB"),
       "of two hosts the slow one");
    end();
    begin(4);
    for (int h = 0; h < 4; h++) {
        copy.item = h < 2 ? "EPYC" : "Xeon";
        add_value(h, copy, h < 2 ? 100 : 50);
    }
    judge(NULL);
    OK(count_lines(CHECK_OK) == 4, "kinds of hardware are not compared with each other");
    end();
    begin(3);
    copy.item = NULL;
    add_values(copy, (const double[]){100, NAN, 100});
    judge(NULL);
    OK(count_lines(CHECK_OK) == 3, "a host that could not measure");
    end();
}

static void test_items(void)
{
    begin(4);
    add_items("libc", TEXTS("1", "1", "1", "1"));
    add_items("libm", TEXTS("1", "2", "1", "1"));
    add_items("libmpi", TEXTS("1", "1", "1", NULL));
    add_items("libspy", TEXTS(NULL, NULL, "9", NULL));
    judge(NULL);
    OK(says(0, "libraries", CHECK_OK, "3 as they should be") &&
           says(1, "libraries", CHECK_OK, "2 as they should be"),
       "items that are equal are one line");
    OK(says(1, "libraries", CHECK_WARN, "libm: 2; node1 has 1"), "one that differs has its own");
    OK(says(3, "libraries", CHECK_WARN, "libmpi: none; node1 has 1"), "a host that lacks one");
    OK(says(2, "libraries", CHECK_WARN, "libspy: 9; node1 has none") && count_lines(CHECK_WARN) == 3,
       "a host that alone has one");
    end();
    begin(3);
    add_items("libm", TEXTS("1", "1", NULL));
    judge(NULL);
    OK(says(0, "libraries", CHECK_OK, "1 as it should be") && lines.n == 2,
       "a host without any item takes no part");
    end();
    for (int has = 0; has < 2; has++) {
        begin(2);
        add_items("libc", TEXTS("1", "1"));
        add_items("libx", has == 0 ? TEXTS("5", NULL) : TEXTS(NULL, "5"));
        judge(NULL);
        OK(says(1, "libraries", CHECK_WARN, has == 0 ? "libx: none; node1 has 5" : "libx: 5; node1 has none"),
           "of two hosts the second, which %s one", has == 0 ? "lacks" : "has");
        end();
    }
    begin(1);
    add_items("libc", TEXTS("1"));
    judge(NULL);
    OK(says(0, "libraries", CHECK_OK, "1 found"), "a single host is not compared");
    end();
}

/* ---- Profiles ---- */
static const check_fact_t memory_fact = {
    .name = "memory", .rule = CHECK_EQUAL, .unequal = CHECK_WARN, .tolerance = 0.02};
static const check_fact_t serial_fact = {
    .name = "firmware", .rule = CHECK_EQUAL, .unequal = CHECK_OK, .value = NAN, .advice = "do this"};
static const check_fact_t speed_fact = {
    .name = "copy", .item = "EPYC", .rule = CHECK_SPEED, .tolerance = 0.1};

/* Three good hosts. */
static void add_good(void)
{
    begin(3);
    add_texts("kernel", TEXTS("6.1", "6.1", "6.1"));
    add_texts("NCCL", TEXTS("", "", ""));
    add_values(memory_fact, (const double[]){100, 100.5, 100});
    add_values(speed_fact, (const double[]){100, 99, 98});
    add_items("libc", TEXTS("1", "1", "1"));
    add_items("libm", TEXTS("1", "1", "1"));
    add_items("libspy", TEXTS(NULL, "1", NULL));
    for (int h = 0; h < 3; h++) {
        add(h, &serial_fact, "v7");
        check_same(&checks[h], "job", CHECK_FAIL, "do this", "this one");
    }
}

static err_t read_profile(check_profile_t **out)
{
    check_profile_free(out);
    return check_profile_read(folder_path("profile"), out);
}

static bool file_has(const char *word)
{
    char text[1 << 14] = "";
    FILE *file = fopen(folder_path("profile"), "r");
    ASSERT(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, word) != NULL;
}

static void test_profile(void)
{
    check_profile_t *profile = NULL;
    add_good();
    gather();
    OK(check_profile_write(&checks[0], &lines, folder_path("profile")) == ERR_OK &&
           read_profile(&profile) == ERR_OK,
       "a profile is written and read");
    OK(!file_has("this one") && !file_has("libspy") && file_has("libm") && file_has("v7"),
       "without facts of the job, and what few hosts have");
    end();

    add_good();
    judge(profile);
    OK(count_lines(CHECK_FAIL) == 0 && says(0, "libraries", CHECK_OK, "2 as they should be") &&
           says(1, "libraries", CHECK_WARN, "libspy: 1; node1 has none") &&
           says(0, "kernel", CHECK_OK, "6.1") && says(0, "NCCL", CHECK_SKIP, "none"),
       "the same hosts pass");
    end();

    read_profile(&profile);
    begin(3);
    add_texts("kernel", TEXTS("6.1", "6.2", "6.2"));
    add_texts("NCCL", TEXTS("", "2.28", "2.28"));
    add_values(memory_fact, (const double[]){101, 97, 97});
    add_values(speed_fact, (const double[]){120, 91, 89});
    add_items("libc", TEXTS("1", "3", "3"));
    add_items("libm", TEXTS("1", NULL, NULL));
    for (int h = 0; h < 3; h++) add(h, &serial_fact, h == 2 ? "v8" : "v7");
    judge(profile);
    OK(says(0, "kernel", CHECK_OK, "6.1") && says(1, "kernel", CHECK_FAIL, "6.2; the profile has 6.1") &&
           says(1, "NCCL", CHECK_FAIL, "2.28; the profile has none"),
       "each host that differs fails, even where most do; one that does not passes");
    OK(says(0, "memory", CHECK_OK, "101 GB") &&
           says(2, "memory", CHECK_FAIL, "97 GB; the profile has 100 GB"),
       "beyond the tolerance of the file");
    OK(says(0, "copy", CHECK_OK, "120 GB") && says(1, "copy", CHECK_OK, "91 GB") &&
           says(2, "copy", CHECK_FAIL, "89 GB; the profile has 99 GB"),
       "a speed may be higher");
    OK(says(0, "libraries", CHECK_OK, "2 as they should be") &&
           says(2, "libraries", CHECK_FAIL, "libc: 3; the profile has 1"),
       "items");
    OK(says(1, "libraries", CHECK_FAIL, "libm: none; the profile has 1") &&
           says(2, "libraries", CHECK_FAIL, "libm: none; the profile has 1"),
       "an item that most hosts lack, but not the profile");
    OK(says(2, "firmware", CHECK_FAIL, "v8; the profile has v7") && says(0, "firmware", CHECK_OK, "v7"),
       "facts that hosts are not compared by");
    end();

    read_profile(&profile);
    begin(1);
    add_texts("kernel", TEXTS("6.1"));
    add_texts("new", TEXTS("1"));
    judge(profile);
    OK(says(JOB, "memory", CHECK_FAIL, "none on any host; the profile has 100 GB") &&
           says(JOB, "libraries", CHECK_FAIL, "none on any host; the profile has libc: 1") &&
           says(JOB, "copy", CHECK_FAIL, "none on any host; the profile has EPYC: 99 GB"),
       "a fact that no host has fails");
    OK(says(0, "kernel", CHECK_OK, "6.1") && says(0, "new", CHECK_OK, "1"),
       "one that the profile lacks does not");
    end();
    read_profile(&profile);
    begin(1);
    checks[0].current = "network";
    add_texts("latency", TEXTS("2 us"));
    judge(profile);
    OK(count_lines(CHECK_FAIL) == 0, "facts of checks that did not run are not missing");
    end();
    check_profile_free(&profile);
}

static void test_profile_speeds(void)
{
    static const check_fact_t plain = {.name = "copy", .rule = CHECK_SPEED};
    check_profile_t *profile = NULL;
    begin(3);
    add_values(plain, (const double[]){NAN, 100, 100});
    gather();
    OK(check_profile_write(&checks[0], &lines, folder_path("profile")) == ERR_OK &&
           read_profile(&profile) == ERR_OK,
       "a speed without a tolerance");
    end();
    begin(2);
    add_values(plain, (const double[]){86, 84});
    judge(profile);
    OK(says(0, "copy", CHECK_OK, "86 GB") && says(1, "copy", CHECK_FAIL, "84 GB; the profile has 100 GB"),
       "may be 15 %% slower than in the profile");
    end();
    check_profile_free(&profile);
}

#define HEAD "{\"record\": \"check_profile\", \"time\": \"2025-01-01T00:00:00Z\", \"hosts\": 1, \"ranks\": 1"

static void test_malformed(void)
{
    static const char *const texts[] = {
        "",
        "[]",
        "not JSON",
        HEAD,
        HEAD "}",
        HEAD ", \"facts\": 3}",
        HEAD ", \"facts\": [3]}",
        HEAD ", \"facts\": [{\"check\": \"gpu\", \"name\": \"driver\"}]}",
        HEAD ", \"facts\": [{\"check\": \"gpu\", \"text\": \"5\"}]}",
        HEAD ", \"facts\": [{\"check\": \"gpu\", \"name\": null, \"text\": \"5\"}]}",
        HEAD ", \"facts\": [{\"check\": \"gpu\", \"name\": \"driver\", \"text\": \"5\", \"value\": \"x\"}]}",
        HEAD ", \"facts\": [{\"check\": \"gpu\", \"name\": \"driver\", \"text\": \"5\", \"at_least\": 1}]}",
        "{\"record\": \"check\", \"facts\": []}",
        "{\"record\": \"end\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_profile_t *profile = NULL;
        folder_put("profile", texts[i], strlen(texts[i]));
        OK(read_profile(&profile) == ERR_DATA && strstr(err_message(), folder_path("profile")), "refused: %s",
           texts[i]);
        check_profile_free(&profile);
    }
    check_profile_t *profile = NULL;
    OK(check_profile_read(folder_path("none"), &profile) == ERR_USAGE && strstr(err_message(), "none"),
       "a missing file");
    check_profile_free(&profile);
    folder_put("profile", HEAD ", \"facts\": []}", strlen(HEAD ", \"facts\": []}"));
    OK(read_profile(&profile) == ERR_OK, "an empty profile");
    check_profile_free(&profile);
}

/* 1000 hosts with 150 facts each, one of them different. */
static void test_many(void)
{
    begin(MAX_HOSTS);
    check_fact_t fact = {.rule = CHECK_EQUAL, .unequal = CHECK_WARN, .advice = "do this"};
    for (int h = 0; h < n_hosts; h++)
        for (int i = 0; i < 150; i++) {
            char item[32];
            snprintf(item, sizeof item, "library %d", i);
            fact.name = i < 100 ? "libraries" : i == 100 ? "memory" : item;
            fact.item = i < 100 ? item : "";
            fact.value = i == 100 ? h : NAN;
            fact.tolerance = 0.9;
            if (h != 500 || i != 7) add(h, &fact, h == 700 && i == 8 ? "different" : "0123456789abcdef");
        }
    const double since = clock_sec();
    judge(NULL);
    printf("# judged in %.3f s\n", clock_sec() - since);
    OK(says(500, "libraries", CHECK_WARN, "library 7: none; node1 has 0123456789abcdef") &&
           says(700, "libraries", CHECK_WARN, "library 8: different; node1 has 0123456789abcdef") &&
           says(0, "libraries", CHECK_OK, "100 as they should be"),
       "one of a thousand");
    end();
}

int main(void)
{
    if (!folder_begin()) tap_skip_all("no folder can be made in /tmp");
    tap_plan(55);
    test_texts();
    test_values();
    test_speeds();
    test_items();
    test_profile();
    test_profile_speeds();
    test_malformed();
    test_many();
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
