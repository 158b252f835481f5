/* SPDX-License-Identifier: MIT */
/* The records of dptrain bench, and how the times of a point agree. */
#include <math.h>

#include "records/tables.h"

/* interleaved_with, clock_sec and batch_n are optional: early recordings of this schema lack them. */
static const record_field_t fingerprint_fields[] = {
    {HEX("hardware_id", "hash of `hardware`")},
    {HEX("fabric_id", "hash of `fabric`")},
    {HEX("software_id", "hash of `software`")},
    {OBJECT("hardware", "the machine")},
    {OBJECT("fabric", "network ports and links")},
    {OBJECT("software", "versions")},
    {0},
};

const record_field_t record_bench_run[] = {
    {VERSION("schema", "newer ones are skipped")},
    {HEX("id", "ties the points to this record")},
    {TEXT("time", "start, UTC")},
    {POSITIVE("ranks", "processes that measure")},
    {POSITIVE("threads", "threads of a rank")},
    {OBJECT("options", "all of them, resolved")},
    {OBJECT("fingerprint", "what the figures depend on"), .of = fingerprint_fields},
    {HEX("interleaved_with", "the `id` of the run that this one took turns with"), .nullable = true,
     .optional = true, .was = "in_turn_with"},
    {0},
};

static const char *const verdicts[] = {"ok", "inconclusive", "disturbed", NULL};
static const char *const ends[] = {"finished", "interrupted", "failed", NULL};

static const record_field_t key_fields[] = {
    {.name = "",
     .type = RECORD_SCALAR,
     .help =
         "sizes in bytes or elements, types, ranks: what tells the point from others of its case and test",
     .nullable = true,
     .is_prefix = true},
    {0}};

static const record_field_t metric_fields[] = {
    {REAL("active_ranks", "ranks that did it"), .nullable = true, .optional = true, .was = "ranks_at_it"},
    {REAL("resident_pages", "pages still cached after dropping"), .nullable = true, .optional = true,
     .was = "pages_left"},
    {.name = "",
     .type = RECORD_SCALAR,
     .help = "figures derived from the times, and other results; null: unknown or not checked",
     .nullable = true,
     .is_prefix = true},
    {0},
};

const record_field_t record_bench[] = {
    {VERSION("schema", "newer ones are skipped")},
    {HEX("run", "`id` of its `bench_run`")},
    {TEXT("case", "`comm`, `gemm`, `conv`, `mem`, `io`, `step`")},
    {TEXT("test", "what of the case is measured")},
    {OBJECT("key", "what tells the point from others of its case and test"), .of = key_fields},
    {OBJECT("metrics", "figures"), .of = metric_fields},
    {TEXT("unit", "unit of the times: `s`"), .variant = RECORD_TIMED},
    {TEXT("verdict", "verdict on the [measurement](#times)"), .words = verdicts, .variant = RECORD_TIMED},
    {POSITIVE("n", "samples that count"), .variant = RECORD_TIMED},
    {POSITIVE("per_sample", "iterations in a sample"), .variant = RECORD_TIMED},
    {COUNT("n_disturbed", "samples under foreign load"), .variant = RECORD_TIMED},
    {WORDS("disturbances", "sources of the load: `steal`, `preempted`, `throttle`, `clock`"), .was = "loads",
     .variant = RECORD_TIMED},
    {REAL("min", "least sample"), .variant = RECORD_TIMED},
    {REAL("p50", "median of the samples"), .variant = RECORD_TIMED},
    {REAL("p95", "95 % quantile"), .variant = RECORD_TIMED},
    {REAL("p99", "99 % quantile"), .variant = RECORD_TIMED},
    {REAL("max", "greatest sample"), .variant = RECORD_TIMED},
    {REAL("mean", "mean of the samples"), .variant = RECORD_TIMED},
    {REAL("cv", "standard deviation / mean; null for one sample"), .nullable = true,
     .variant = RECORD_TIMED}, /* of a single sample */
    {ARRAY("ci95", "interval that contains the true median; two nulls below 6 samples"),
     .variant = RECORD_TIMED},
    {COUNT("slowest_rank", "rank that was slowest most often"), .variant = RECORD_TIMED},
    {REAL("slowest_share", "share of the samples in which it was"), .variant = RECORD_TIMED},
    {REAL("clock_sec", "time of a fixed arithmetic loop, on the slowest rank"), .optional = true,
     .variant = RECORD_TIMED},
    {ARRAY("batch_n", "samples that count in each batch; 0: disturbed"), .optional = true,
     .variant = RECORD_TIMED},
    {ARRAY("samples", "all samples that count, in order"), .variant = RECORD_TIMED},
    {ARRAY("data_samples", "of steps: waiting for data"), .optional = true, .variant = RECORD_TIMED},
    {ARRAY("forward_samples", "of steps: forward pass"), .optional = true, .variant = RECORD_TIMED},
    {ARRAY("backward_samples", "of steps: backward pass"), .optional = true, .variant = RECORD_TIMED},
    {ARRAY("allreduce_samples", "of steps: exposed communication"), .optional = true,
     .variant = RECORD_TIMED},
    {ARRAY("optimizer_samples", "of steps: update of the weights"), .optional = true,
     .variant = RECORD_TIMED},
    {0},
};

const record_field_t record_bench_end[] = {
    {VERSION("schema", "newer ones are skipped")},
    {HEX("run", "`id` of its `bench_run`")},
    {TEXT("reason", "how it ended"), .words = ends, .was = "why"},
    {COUNT("n_points", "`bench` records of this run")},
    {REAL("seconds", "duration of the run")},
    {REAL("recording_sec", "part of it spent on making and writing records")},
    {0},
};

static double real_of(const json_value_t *record, const char *name)
{
    double value = NAN;
    json_get_real(record, name, &value);
    return value;
}

/* Below 6 samples both ends are null. */
static err_t check_interval(const json_value_t *record, int64_t n)
{
    const json_value_t *ci = json_get(record, "ci95");
    double low = NAN, high = NAN, p50 = real_of(record, "p50");
    if (ci->n != 2) RAISE(ERR_DATA, "\"ci95\" does not have two values");
    bool known = json_as_real(ci->first, &low) && json_as_real(ci->first->next, &high);
    bool null = ci->first->kind == JSON_NULL && ci->first->next->kind == JSON_NULL;
    if (n >= 6 ? !known : !known && !null) RAISE(ERR_DATA, "\"ci95\" is not an interval");
    if (known && !(low <= p50 && p50 <= high)) RAISE(ERR_DATA, "\"p50\" is outside \"ci95\"");
    return ERR_OK;
}

/* n times each; parts are optional. */
static err_t check_samples(const json_value_t *record, const char *name, int64_t n)
{
    double sec;
    const json_value_t *samples = json_get(record, name);
    if (!samples) return ERR_OK;
    if (samples->n != n)
        RAISE(ERR_DATA, "\"%s\" has %lld values, expected %lld", name, (long long)samples->n, (long long)n);
    for (const json_value_t *at = samples->first; at; at = at->next)
        if (!json_as_real(at, &sec) || sec < 0)
            RAISE(ERR_DATA, "\"%s\" has a value that is not a time", name);
    return ERR_OK;
}

/* The batches must add up to the samples. */
static err_t check_batches(const json_value_t *record, int64_t n)
{
    int64_t sum = 0, count;
    if (!json_get(record, "batch_n")) return ERR_OK;
    for (const json_value_t *at = json_get(record, "batch_n")->first; at; at = at->next) {
        if (!json_as_int(at, &count) || count < 0)
            RAISE(ERR_DATA, "\"batch_n\" has a value that is not a count");
        sum += count;
    }
    if (sum != n) RAISE(ERR_DATA, "\"batch_n\" sums to %lld, expected %lld", (long long)sum, (long long)n);
    return ERR_OK;
}

err_t record_check_times(const json_value_t *record)
{
    static const char *const ascending[] = {"min", "p50", "p95", "p99", "max"};
    static const char *const parts[] = {"samples",          "data_samples",      "forward_samples",
                                        "backward_samples", "allreduce_samples", "optimizer_samples"};
    int64_t n = 0;
    if (!json_get_int(record, "n", &n)) return ERR_OK; /* not timed */
    for (int i = 0; i + 1 < 5; i++)
        if (real_of(record, ascending[i]) > real_of(record, ascending[i + 1]))
            RAISE(ERR_DATA, "\"%s\" is above \"%s\"", ascending[i], ascending[i + 1]);
    if (real_of(record, "slowest_share") > 1) RAISE(ERR_DATA, "\"slowest_share\" is above 1");
    TRY(check_interval(record, n));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) TRY(check_samples(record, parts[i], n));
    return check_batches(record, n);
}
