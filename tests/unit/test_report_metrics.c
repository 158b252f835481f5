/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * The samples of a report's points where they are kept, and its metrics: which runs measured the same, which
 * of them count, and what is left of samples that are no times. */
#include "tests/tap.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "report/records/metrics.h"

#define HEAD(id, turn)                                                                                       \
    "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"" id "\",\"time\":\"t\",\"interleaved_with\":" turn "}\n"
#define POINT(id, test, key, more)                                                                           \
    "{\"record\":\"bench\",\"schema\":1,\"run\":\"" id "\",\"case\":\"comm\",\"test\":\"" test               \
    "\",\"key\":{" key "},\"metrics\":{}" more "}\n"
#define TIMES(p50, more) ",\"unit\":\"s\",\"verdict\":\"ok\",\"p50\":" p50 more
#define END(id, why)     "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"" id "\",\"reason\":\"" why "\"}\n"

static report_t report;
static metrics_t metrics;

static void read_text(bool keep, const char *text)
{
    size_t n = strlen(text);
    metrics_free(&metrics);
    report_free(&report);
    report.keep_samples = keep;
    int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0) exit(4);
    OK_CALL(report_read(&report, fd, "a"), "records are read");
    close(fd);
    OK_CALL(metrics_list(&report, &metrics), "their metrics are listed");
}

static bool is(double value, double expected)
{
    return fabs(value - expected) < 1e-12;
}

static const char samples_text[] = HEAD("aa", "\"bb\"") POINT(
    "aa", "x", "\"bytes\":8",
    TIMES("2",
          ",\"clock_sec\":0.5,\"samples\":[1,2,null,3],\"batch_n\":[2,0,2],\"forward_samples\":[5,6,7,8],"
          "\"odd_samples\":[1],\"comm_samples\":[1,null,3,4]"))
    POINT("aa", "x", "\"bytes\":16", TIMES("3", ",\"samples\":[3,3],\"batch_n\":[1,2]"))
        POINT("aa", "y", "", TIMES("null", ",\"samples\":[4,1,5]")) END("aa", "finished");

static void check_samples(void)
{
    read_text(true, samples_text);
    const report_point_t *point = report.runs->groups->first;
    OK(strcmp(report.runs->interleaved_with, "bb") == 0 && is(point->timing->clock_sec, 0.5),
       "partner and clock");
    OK(point->timing->n_missing == 1 && point->n_samples == 3 && point->samples[0].n == 4 &&
           isnan(point->samples[0].sec[2]),
       "a sample that is null is none");
    OK(strcmp(point->samples[1].part, "forward") == 0 && is(point->samples[1].sec[3], 8) &&
           strcmp(point->samples[2].part, "comm") == 0,
       "parts are kept, one of another length is not");
    OK(point->n_batches == 3 && point->batch_n[0] == 2 && point->batch_n[1] == 0, "and batches");
    OK(!point->next->batch_n && point->next->n_samples == 1, "batches that do not add up are none");
    const metric_start_t *start = metrics.first->starts;
    OK(start->samples[0].n == 3 && start->n_invalid == 1 && is(start->samples[0].sec[2], 3) &&
           is(start->samples[1].sec[2], 8) && isnan(start->samples[2].sec[1]),
       "what is no time is left out, and what the parts were then");
    OK(start->batch_n[0] == 2 && start->batch_n[1] == 0 && start->batch_n[2] == 1, "and of its batch");
    OK(is(metrics.last->starts->p50, 4), "where the median is missing, samples give it");
    read_text(false, samples_text);
    OK(!report.runs->groups->first->samples && report.runs->groups->first->timing->n_missing == 1,
       "samples that are not asked for are counted, and not kept");
    OK(metrics.n == 2 && !metrics.first->starts->samples && is(metrics.first->starts->p50, 2),
       "medians are listed without them");
}

static void check_metrics(void)
{
    read_text(true,
              HEAD("a1", "null") POINT("a1", "x", "\"n\":8", TIMES("1", ""))
                  POINT("a1", "x", "\"n\":16", TIMES("2", "")) POINT("a1", "x", "\"n\":8", TIMES("3", ""))
                      POINT("a1", "z", "", "") END("a1", "finished") HEAD("a2", "null") POINT(
                          "a2", "x", "\"n\":16", TIMES("4", "")) POINT("a2", "x", "\"n\":8", TIMES("5", ""))
                          POINT("a2", "y", "\"n\":8", TIMES("0", "")) END("a2", "finished") HEAD("a3", "null")
                              POINT("a3", "x", "\"n\":8", TIMES("6", "")) END("a3", "interrupted")
                                  HEAD("a4", "null") POINT("a4", "x", "\"n\":8", TIMES("7", ""))
                                      POINT("a5", "x", "\"n\":8", TIMES("8", "")) END("a5", "finished"));
    OK(metrics.n == 2 && metrics.n_complete == 2 && metrics.n_left_out == 3, "two metrics of two whole runs");
    const metric_t *metric = metrics_find(&metrics, "comm", "x", "n=8");
    OK(metric == metrics.first && metric->n_starts == 2 && is(metric->starts->p50, 3) &&
           is(metric->starts->next->p50, 5) && !metric->starts->next->next,
       "a point that a run has twice counts as it was the last time");
    OK(metric->starts->run == report.runs && !report.runs->interleaved_with[0], "the runs are named");
    OK(!metrics_find(&metrics, "comm", "y", "n=8") && !metrics_find(&metrics, "comm", "z", ""),
       "what has no time is no metric");
    static const char *const why[] = {NULL, NULL, "interrupted", "no end record", "no first record"};
    bool same = true;
    int i = 0;
    for (const report_run_t *run = report.runs; run; run = run->next, i++) {
        const char *left_out = metrics_incomplete(run);
        same = same && (why[i] ? left_out && strcmp(left_out, why[i]) == 0 : !left_out);
    }
    OK(same && i == 5, "why others are left out");
}

/* Fields that all have, and those that say nothing more, are not in a label. */
static void check_labels(void)
{
    static const char *const wanted[] = {"comm x bytes 8 float", "comm x bytes 8 half",
                                         "comm x bytes 16 KiB",  "comm y",
                                         "comm ranks 1",         "comm ranks 2"};
    read_text(false,
              HEAD("aa", "null") POINT("aa", "x", "\"bytes\":8,\"count\":2,\"type\":\"float\",\"ranks\":2",
                                       TIMES("1", ""))
                  POINT("aa", "x", "\"bytes\":8,\"count\":2,\"type\":\"half\",\"ranks\":2", TIMES("1", ""))
                      POINT("aa", "x", "\"bytes\":16384,\"count\":4,\"type\":\"half\",\"ranks\":2",
                            TIMES("1", "")) POINT("aa", "y", "\"bytes\":8", TIMES("1", ""))
                          POINT("aa", "comm", "\"ranks\":1", TIMES("1", ""))
                              POINT("aa", "comm", "\"ranks\":2", TIMES("1", "")) END("aa", "finished"));
    bool same = metrics.n == 6;
    int i = 0;
    for (const metric_t *metric = metrics.first; same && metric; metric = metric->next, i++) {
        same = strcmp(metric->label, wanted[i]) == 0;
        if (!same) printf("# %s, not %s\n", metric->label, wanted[i]);
    }
    OK(same, "labels");
}

#define STEP(n, sec)                                                                                         \
    "{\"record\":\"step\",\"step\":" #n ",\"step_sec\":" #sec ",\"data_wait_sec\":0.25,\"forward_sec\":1,"   \
    "\"backward_sec\":2,\"exposed_comm_sec\":0}\n"
#define TRAIN                                                                                                \
    "{\"record\":\"run\",\"schema\":1,\"options\":{\"model\":\"lenet5\",\"precision\":\"fp32\"},"            \
    "\"topology\":{\"ranks\":2,\"device\":\"cpu\"},\"global_batch\":64,\"first_step\":0}\n"
#define TRAIN_END "{\"record\":\"end\",\"reason\":\"finished\"}\n"

static void check_train(void)
{
    read_text(true, TRAIN STEP(9, 99) STEP(10, 4) STEP(11, 5) STEP(12, 6) TRAIN_END TRAIN STEP(0, 7));
    const metric_start_t *start = metrics.n == 1 ? metrics.first->starts : NULL;
    OK(start && metrics.n_left_out == 1 && strcmp(metrics.first->case_name, "train") == 0 &&
           strcmp(metrics.first->test, "lenet5") == 0 &&
           strcmp(metrics.first->key, "batch=64;ranks=2;precision=fp32;device=cpu") == 0,
       "a training run that ended has one metric");
    if (!start) return;
    OK(start->samples[0].n == 3 && is(start->samples[0].sec[1], 5) && is(start->p50, 5) && !start->point,
       "its steady steps");
    OK(start->n_samples == STEP_PARTS && strcmp(start->samples[4].part, "allreduce") == 0 &&
           isnan(start->samples[5].sec[0]) && is(start->samples[1].sec[2], 0.25),
       "and their parts");
    read_text(false, TRAIN STEP(10, 4) STEP(11, 5) TRAIN_END);
    OK(metrics.n == 1 && !metrics.first->starts->samples, "unless they are not asked for");
    read_text(false, TRAIN TRAIN_END);
    OK(metrics.n == 0 && metrics.n_complete == 1, "a run without steady steps has none");
}

int main(void)
{
    tap_plan(36);
    check_samples();
    check_metrics();
    check_labels();
    check_train();
    metrics_free(&metrics);
    report_free(&report);
    OK(mem_live() == 0, "all memory is given back");
    return tap_done();
}
