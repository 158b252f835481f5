/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * From records to the model: runs and their points, what is left out and why, and the check of the records'
 * schema, which must find every single fault. */
#include "tests/tap.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "records/record.h"
#include "report/records/print.h"
#include "report/records/report.h"

#define HEAD(id)                                                                                               \
    "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"" id                                                      \
    "\",\"time\":\"2026-11-21T08:00:00Z\",\"ranks\":2,"                                                        \
    "\"threads\":1,\"interleaved_with\":null,\"options\":{},\"fingerprint\":{\"hardware_id\":\"1a\",\"fabric_" \
    "id\":\"2b\",\"software_"                                                                                  \
    "id\":"                                                                                                    \
    "\"3c\",\"hardware\":{\"cpu\":\"X\",\"cpus\":2},\"fabric\":{\"ports\":[{\"name\":\"eth0\",\"gbit\":25}]"   \
    "},"                                                                                                       \
    "\"software\":{\"git\":\"abc\"}}}\n"
#define POINT(id, test, key, metrics)                                                                        \
    "{\"record\":\"bench\",\"schema\":1,\"run\":\"" id "\",\"case\":\"comm\",\"test\":\"" test               \
    "\",\"key\":{" key "},\"metrics\":{" metrics "}"
#define TIMES(p50, samples)                                                                                        \
    ",\"unit\":\"s\",\"verdict\":\"ok\",\"n\":7,\"per_sample\":1,\"n_disturbed\":3,\"disturbances\":\"\",\"min\":" \
    "1,"                                                                                                           \
    "\"p50\":" p50                                                                                                 \
    ",\"p95\":3,\"p99\":4,\"max\":5,\"mean\":2.5,\"cv\":0.5,\"ci95\":[1.9,2.1],\"slowest_rank\":1"                 \
    ",\"slowest_share\":0.75,\"clock_sec\":1e-3,\"batch_n\":[3,0,4],\"samples\":[" samples "]"
#define SEVEN "1,2,2,2,2,4,5"
#define END(id)                                                                                              \
    "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"" id                                                   \
    "\",\"reason\":\"finished\",\"n_points\":2,\"seconds\":1.5,\"recording_sec\":0.1}\n"

static report_t report;

static err_t read_text(const char *name, const char *text)
{
    size_t n = strlen(text);
    int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0) exit(4);
    err_t err = report_read(&report, fd, name);
    close(fd);
    return err;
}

static void check_bench(void)
{
    OK_CALL(
        read_text(
            "a",
            HEAD("aa") POINT("aa", "all_reduce", "\"bytes\":8,\"t\":\"float\"", "\"busbw_gbs\":3.5")
                TIMES("2", SEVEN) "}\n" POINT("aa", "all_reduce", "\"bytes\":16", "\"busbw_gbs\":null")
                    TIMES("null", SEVEN) "}\n" POINT("aa", "broadcast", "", "\"x\":1e999") "}\n" END("aa")),
        "records are read");
    const report_run_t *run = report.runs;
    const report_group_t *group = run ? run->groups : NULL;
    OK(run && !run->next && run->line == 1 && run->n_points == 3 && strcmp(run->end_reason, "finished") == 0,
       "one run with three points, finished");
    OK(run && run->ranks > 1.5 && run->ranks < 2.5 && strcmp(run->hardware_id, "1a") == 0 &&
           run->hardware.n == 2,
       "what it ran on");
    OK(run && run->fabric.n == 1 && strcmp(run->fabric.at[0].text, "eth0 25") == 0, "a list is joined");
    OK(group && group->n_points == 2 && group->next && group->next->n_points == 1 && !group->next->next,
       "two groups, in order");
    if (!group) return;
    const report_point_t *point = group->first;
    OK(point->line == 2 && point->key.n == 2 && strcmp(point->key.at[0].text, "8") == 0 &&
           point->key.at[1].kind == FIELD_TEXT,
       "the key's values are kept as they were written");
    OK(point->metrics.at[0].kind == FIELD_NUMBER && fabs(point->metrics.at[0].number - 3.5) < 1e-12,
       "a metric");
    OK(point->timing && fabs(point->timing->p50 - 2) < 1e-12 && fabs(point->timing->ci_high - 2.1) < 1e-12 &&
           point->timing->n_missing == 0,
       "its times");
    OK(point->next->timing && isnan(point->next->timing->p50) &&
           point->next->metrics.at[0].kind == FIELD_MISSING,
       "null is a missing number");
    OK(!group->next->first->timing && group->next->first->metrics.at[0].kind == FIELD_MISSING,
       "so is one that no double holds; nothing was timed");
    OK(point->key.at[0].name == point->next->key.at[0].name, "equal names are one");
    OK(report.files[0].n_records == 5 && report.files[0].bad.n == 0, "five records");
}

static void check_trouble(void)
{
    OK_CALL(
        read_text(
            "b",
            HEAD("aa") POINT("aa", "all_reduce", "", "") "}\nnonsense\n" POINT(
                "bb", "x", "",
                "") "}\n"
                    "[1]\n{\"a\":1}\n{\"record\":\"new\"}\n{\"record\":\"bench\",\"schema\":2,\"case\":1}\n"
                    "{\"record\":\"bench\",\"case\":\"a\",\"test\":\"b\"}\n"
                    "{\"record\":\"bench\",\"schema\":1,\"case\":\"a\",\"test\":\"b\"}\n"
                    "{\"record\":\"bench\",\"schema\":1,\"case\":5,\"test\":\"b\"}\n"
                    "{\"record\":\"step\"}\n"),
        "a file with foreign lines");
    const report_file_t *file = &report.files[1];
    OK(file->bad.n == 7 && file->bad.line == 3 && strstr(file->bad.why, "not JSON"),
       "the first bad line is named");
    OK(file->newer.n == 1 && file->newer.line == 8, "a newer schema is left out");
    OK(file->again.n == 1 && file->again.line == 2 && report.runs->n_points == 3,
       "points of a run that is there already are left out");
    const report_run_t *unknown = report.runs->next;
    OK(unknown && unknown->line == 0 && strcmp(unknown->id, "bb") == 0 && unknown->n_points == 1,
       "a point without its head is in an unknown run");
    OK(unknown && unknown->next && unknown->next->id[0] == '\0' && unknown->next->n_points == 1,
       "and so is one that names none");
    OK_CALL(read_text("c", HEAD("bb") POINT("bb", "x", "\"bytes\":8", "") "}\n"), "the head comes later");
    OK(unknown && unknown->line == 1 && unknown->file == 2 && unknown->n_points == 2,
       "then the run is known");
    OK(read_text("d", "\x1f\x8b") == ERR_DATA && report.runs->n_points == 3,
       "a file that is no text is an error");
}

static void check_filters(void)
{
    report_free(&report);
    report.only_test = "x";
    OK_CALL(read_text("a", HEAD("aa") POINT("aa", "x", "", "") "}\n" POINT("aa", "y", "", "") "}\n"),
            "with --test");
    OK(report.runs->n_points == 1 && report.n_filtered == 1, "only its points are kept");
}

#define STEP(n, sec)                                                                                         \
    "{\"record\":\"step\",\"step\":" #n ",\"loss\":1.5,\"step_sec\":" #sec ",\"data_wait_sec\":0.25,"        \
    "\"forward_sec\":1,\"backward_sec\":2,\"exposed_comm_sec\":0,\"optimizer_sec\":null}\n"
#define TRAIN(resumed, first)                                                                                \
    "{\"record\":\"run\",\"schema\":1,\"time\":\"t\",\"options\":{\"model\":\"lenet5\"},\"topology\":{"      \
    "\"ranks\":2},"                                                                                          \
    "\"global_batch\":64,\"n_steps\":20,\"first_step\":" #first ",\"resumed_from\":" resumed "}\n"
#define EPOCH(n, loss) "{\"record\":\"epoch\",\"epoch\":" #n ",\"val_loss\":" #loss "}\n"

static void check_train(void)
{
    report_free(&report);
    OK_CALL(read_text("t",
                      TRAIN("null", 0) STEP(0, 99) STEP(9, 99) STEP(10, 4) STEP(11, 5) STEP(12, 90)
                          EPOCH(0, 2) EPOCH(1, 9) TRAIN("\"ckpt\"", 2) STEP(2, 99) STEP(12, 6) STEP(13, 7)
                              EPOCH(1, 1) "{\"record\":\"end\",\"reason\":\"finished\",\"images_per_sec\":10,"
                                          "\"peak_memory_bytes\":[5,7,6]}\n" TRAIN("null", 0) STEP(0, 1)),
            "two training runs, one of them resumed");
    const report_run_t *run = report.runs;
    const report_train_t *train = run ? run->train : NULL;
    OK(train && run->next && !run->next->next && train->n_resumed == 1 && strcmp(train->model, "lenet5") == 0,
       "are two runs");
    if (!train) return;
    /* Steps 2 … 13 of the second process; its first ten are left out. */
    OK(train->n_steady == 2 && fabs(train->step_sec[STEP_TOTAL] - 6.5) < 1e-12,
       "steps that were repeated count as the later ones did: %g", train->step_sec[STEP_TOTAL]);
    OK(fabs(train->step_sec[STEP_DATA] - 0.25) < 1e-12 && isnan(train->step_sec[STEP_OPTIMIZER]),
       "parts of a step");
    const report_epoch_t *epoch = train->epochs;
    OK(epoch && epoch->next && !epoch->next->next && epoch->next->val[0] < 1.5, "so do epochs");
    const report_rates_t rates = report_rates(train);
    OK(fabs(rates.mean - 64 / 6.5) < 1e-9 && fabs(rates.median - 10) < 1e-9,
       "an earlier version recorded the median rate alone: that over time is taken from the steps");
    OK(train->peak_memory_bytes > 6.5 && strcmp(run->end_reason, "finished") == 0,
       "the end; memory is that of the rank with the most");
    OK(run->next->train->n_steady == 0 && isnan(run->next->train->step_sec[STEP_TOTAL]) &&
           !run->next->end_reason[0],
       "a run without steady steps, or an end");
    OK_CALL(read_text("n", "{\"record\":\"run\",\"schema\":2}\n" STEP(0, 1) EPOCH(0, 1) STEP(1, 1)),
            "a newer run");
    OK(report.files[1].newer.n == 4 && report.files[1].n_records == 0,
       "is left out with all that is its own");
    OK_CALL(read_text("s", STEP(5, 1) EPOCH(3, 1)), "steps without a run");
    OK(report.last->line == 0 && report.last->train && report.last->train->epochs->epoch == 3,
       "an unknown run");
}

/* More steps than are kept: the last ones count. */
static void check_many_steps(void)
{
    static char text[12 << 20];
    size_t n = 0;
    report_free(&report);
    for (int i = 0; i < 150000; i++)
        n += (size_t)sprintf(text + n, "{\"record\":\"step\",\"step\":%d,\"step_sec\":%d}\n", i, i);
    OK_CALL(read_text("many", text), "150,000 steps");
    double expected = 150000 - 65536 + 65535 / 2.0;
    OK(report.runs->train->n_steady == 65536 &&
           fabs(report.runs->train->step_sec[STEP_TOTAL] - expected) < 1e-9,
       "the last 65,536 count: %g", report.runs->train->step_sec[STEP_TOTAL]);
    OK(mem_live_bytes() < 1 << 20, "and are given back when the file ends");
}

static err_t check_record(const char *line)
{
    json_reader_t reader = {0};
    const json_value_t *record = NULL;
    err_t err = json_read(&reader, line, strlen(line), &record);
    if (err == ERR_OK) err = record_check(record);
    json_reader_free(&reader);
    return err;
}

/* A record with `from` replaced by `to`; true: refused. */
static bool is_refused(const char *record, const char *from, const char *to)
{
    char text[2048];
    const char *at = strstr(record, from);
    if (!at) {
        printf("# %s is not in the record\n", from);
        return false;
    }
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - record), record, to, at + strlen(from));
    if (check_record(text) == ERR_DATA) return true;
    printf("# %s for %s was let pass\n", to, from);
    return false;
}

static void check_schema(void)
{
    static const char head[] = HEAD("aa"), end[] = END("aa");
    static const char point[] =
        POINT("aa", "x", "\"bytes\":8", "\"bw\":1.5,\"gone\":null") TIMES("2", SEVEN) "}";
    static const char bare[] = POINT("aa", "x", "", "") "}";
    static const char *const faults[][2] = {
        {"\"schema\":1", "\"schema\":2"},
        {"\"run\":\"aa\"", "\"run\":\"xy\""},
        {"\"run\":\"aa\",", ""},
        {"\"test\":\"x\"", "\"test\":\"\""},
        {"\"bytes\":8", "\"bytes\":[8]"},
        {"\"bytes\":8", "\"bytes\":8,\"bytes\":8"},
        {"\"bw\":1.5", "\"bw\":1e999"},
        {"\"bw\":1.5", "\"bw\":{}"},
        {"\"unit\":\"s\",", ""},
        {"\"n\":7", "\"n\":8"},
        {"\"n\":7", "\"n\":0"},
        {"\"n\":7", "\"n\":7.5"},
        {"\"verdict\":\"ok\"", "\"verdict\":\"good\""},
        {"\"min\":1", "\"min\":2.5"},
        {"\"p50\":2", "\"p50\":null"},
        {"\"p50\":2", "\"p50\":2.2"},
        {"\"p95\":3", "\"p95\":4.5"},
        {"\"max\":5", "\"max\":3.5"},
        {"[1.9,2.1]", "[1.9]"},
        {"[1.9,2.1]", "[null,null]"},
        {"[1.9,2.1]", "[2.1,1.9]"},
        {"\"slowest_share\":0.75", "\"slowest_share\":1.75"},
        {"1,2,2", "1,null,2"},
        {"1,2,2", "1,-2,2"},
        {"1,2,2", "1,NaN,2"},
        {"\"cv\":0.5", "\"cv\":0.5,\"more\":1"},
        {"\"disturbances\":\"\"", "\"disturbances\":null"},
        {"\"samples\":[" SEVEN "]", "\"samples\":7"},
        {"\"n_disturbed\":3", "\"n_disturbed\":-3"},
        {"[3,0,4]", "[3,0,5]"},
        {"[3,0,4]", "[3,-1,5]"},
        {"\"clock_sec\":1e-3", "\"clock_sec\":null"},
        {"\"samples\"", "\"forward_samples\":[1],\"samples\""},
        {"}", "} x"},
    };
    OK_CALL(check_record(head), "a head keeps the schema");
    OK_CALL(check_record(point), "a point does");
    OK_CALL(check_record(bare), "one that is not timed does");
    OK_CALL(check_record(end), "an end does");
    int n_passed = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        n_passed += !is_refused(point, faults[i][0], faults[i][1]);
    OK(n_passed == 0, "each of %zu faults of a point is found", sizeof faults / sizeof *faults);
    OK(is_refused(head, "\"id\":\"aa\"", "\"id\":\"\"") && is_refused(head, "\"ranks\":2", "\"ranks\":0") &&
           is_refused(head, "\"fabric_id\":\"2b\",", "") && is_refused(head, "\"options\":{},", "") &&
           is_refused(head, "\"time\"", "\"date\""),
       "so are those of a head");
    OK(is_refused(end, "finished", "done") && is_refused(end, "\"seconds\":1.5", "\"seconds\":null") &&
           is_refused(end, "bench_end", "end"),
       "and of an end");
}

/* Whatever a disk or a hand does to records: they are read and printed, in every form, without a fault. */
static void check_damage(void)
{
    static const char whole[] = HEAD("aa") POINT("aa", "x", "\"bytes\":8,\"t\":\"a|b\"", "\"bw\":1.5")
        TIMES("2", SEVEN) "}\n" POINT("aa", "x", "\"bytes\":16", "\"bw\":null") "}\n" END("aa")
            TRAIN("null", 0) STEP(0, 1) STEP(10, 2)
                EPOCH(0, 1) "{\"record\":\"end\",\"peak_memory_bytes\":[5]}\n";
    rng_t rng = rng_new(1, RNG_TEST, 0);
    FILE *sink = fopen("/dev/null", "we");
    int n_failed = 0;
    if (!sink) exit(4);
    for (int i = 0; i < 400; i++) {
        char text[sizeof whole];
        memcpy(text, whole, sizeof whole);
        for (int k = 0; k <= i % 4; k++) {
            char *at = &text[1 + rng_u32(&rng) % (sizeof whole - 2)];
            /* Digits and punctuation do more harm than other bytes. */
            *at =
                i % 2 ? "0123456789-+.eE{}[],:\"\\n\n"[rng_u32(&rng) % 25] : (char)(1 + rng_u32(&rng) % 255);
        }
        report_free(&report);
        n_failed += read_text("damaged", text) != ERR_OK;
        n_failed += report_print(&report, &render_text, sink) != ERR_OK;
        n_failed += report_print(&report, &render_markdown, sink) != ERR_OK;
        n_failed += report_print_csv(&report, sink) != ERR_OK;
    }
    fclose(sink);
    OK(n_failed == 0, "400 damaged files are read and printed (%d are not)", n_failed);
}

int main(void)
{
    tap_plan(47);
    check_bench();
    check_trouble();
    check_filters();
    check_train();
    check_many_steps();
    check_schema();
    check_damage();
    report_free(&report);
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
