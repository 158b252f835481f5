/* SPDX-License-Identifier: MIT */
/* The results of other commands: eval, predict, check, report compare, report history. */
#include "records/tables.h"

/* COCO's numbers: AP, AP50, … */
#define SCORES(about)                                                                                        \
    {                                                                                                        \
        NUMBER("A", about), .nullable = true, .is_prefix = true                                              \
    }

static const record_field_t category_fields[] = {
    {INTEGER("id", "of the category")},
    {WORDS("name", "of the category")},
    {COUNT("objects", "to find")},
    {COUNT("crowds", "that are not to be found")},
    {COUNT("detections", "of this category")},
    SCORES("the same numbers of this category"),
    {0},
};

static const record_field_t score_fields[] = {
    SCORES("COCO's numbers, as `AP` and `AP50`; null: nothing to find"),
    {ARRAY("categories", "with `--per-category`"), .of = category_fields, .optional = true},
    {0},
};

/* Of classifiers and detectors. */
const record_field_t record_eval[] = {
    {TEXT("checkpoint", "path")},
    {FLAG("averaged", "the weights are the moving average")},
    {TEXT("model", "of detectors"), .optional = true},
    {TEXT("precision", "that it is computed in")},
    {TEXT("data", "path")},
    {FLAG("matches_training_data", "its hash is the training data's; not for weights"), .optional = true},
    {TEXT("split", "`train` or `val`")},
    {COUNT("n_samples", "that were evaluated")},
    {COUNT("n_detections", "of detectors"), .optional = true},
    {REAL("loss", "mean over the samples"), .nullable = true, .optional = true},
    {REAL("accuracy", "of samples with one label"), .nullable = true, .optional = true},
    {REAL("top5", "of more than 20 classes"), .nullable = true, .optional = true},
    {REAL("map", "of samples with several labels"), .nullable = true, .optional = true},
    {ARRAY("average_precision", "of each class; null without a positive sample"), .optional = true},
    {ARRAY("confusion", "rows: label, columns: prediction; up to 20 classes"), .optional = true},
    {OBJECT("bbox", "[scores](detection.md#score-results) of boxes"), .of = score_fields, .optional = true},
    {OBJECT("segm", "the same of masks"), .of = score_fields, .optional = true},
    {0},
};

static const record_field_t class_fields[] = {
    {COUNT("class", "from 0")},
    {WORDS("name", "if known"), .optional = true},
    {REAL("probability", "of the class"), .nullable = true},
    {0},
};

static const record_field_t object_fields[] = {
    {INTEGER("category_id", "of the training data")},
    {WORDS("name", "if known"), .optional = true},
    {REAL("score", "from 0 to 1"), .nullable = true},
    {ARRAY("bbox", "left, top, width, height in pixels")},
    {OBJECT("segmentation", "COCO's compressed RLE"), .optional = true},
    {0},
};

/* `classes` of a classifier, `objects` of a detector, `error` if the image could not be read. */
const record_field_t record_prediction[] = {
    {TEXT("image", "path")},
    {TEXT("error", "why it could not be read; then nothing else"), .optional = true},
    {ARRAY("classes", "of a classifier, the best first"), .of = class_fields, .optional = true},
    {POSITIVE("width", "of the image, of detectors"), .optional = true},
    {POSITIVE("height", "of the image, of detectors"), .optional = true},
    {ARRAY("objects", "of a detector, the best first"), .of = object_fields, .optional = true},
    {0},
};

static const char *const statuses[] = {"ok", "skip", "warn", "fail", NULL};

static const record_field_t line_fields[] = {
    {TEXT("host", "null: of the whole job"), .nullable = true},
    {COUNT("rank", "null: of the host"), .nullable = true},
    {TEXT("check", "what was checked")},
    {WORDS("name", "of what")},
    {TEXT("status", "a `fail` prevents a job"), .words = statuses},
    {WORDS("found", "in words")},
    {NUMBER("value", "if it was measured"), .nullable = true, .optional = true},
    {TEXT("advice", "what to do"), .nullable = true},
    {0},
};

const record_field_t record_check_result[] = {
    {TEXT("time", "UTC")},
    {POSITIVE("hosts", "of the job")},
    {POSITIVE("ranks", "of the job")},
    {FLAG("ready", "nothing prevents a job")},
    {ARRAY("lines", "the findings"), .of = line_fields},
    {0},
};

static const record_field_t fact_fields[] = {
    {TEXT("check", "that found it")},
    {TEXT("name", "of the fact")},
    {TEXT("item", "one of several of this name, such as a library"), .optional = true},
    {WORDS("text", "the value in words; it is compared where there is no `value`")},
    {NUMBER("value", "that is compared"), .optional = true},
    {REAL("tolerance", "relative difference that is allowed"), .optional = true},
    {FLAG("at_least", "more than `value` is allowed"), .optional = true},
    {0},
};

const record_field_t record_check_profile[] = {
    {TEXT("time", "UTC")},
    {POSITIVE("hosts", "that were checked")},
    {POSITIVE("ranks", "of the check")},
    {ARRAY("facts", "that most of them have"), .of = fact_fields},
    {0},
};

static const record_field_t reason_fields[] = {
    {TEXT("check", "that found it")},
    {TEXT("name", "of what")},
    {TEXT("status", "`warn` or `fail`"), .words = statuses},
    {0},
};

static const record_field_t checked_host_fields[] = {
    {TEXT("host", "its name")},
    {TEXT("status", "`ok`, or the worst of its lines"), .words = statuses},
    {ARRAY("lines", "its warnings and failures, each once"), .of = reason_fields},
    {0},
};

const record_field_t record_check_history[] = {
    {TEXT("time", "UTC")},
    {FLAG("ready", "nothing prevented a job")},
    {ARRAY("hosts", "that were checked"), .of = checked_host_fields},
    {0},
};

static const char *const verdicts[] = {"same", "better", "worse", "inconclusive", NULL};

static const record_field_t count_fields[] = {
    {COUNT("same", "metrics")},
    {COUNT("better", "metrics")},
    {COUNT("worse", "metrics")},
    {COUNT("inconclusive", "metrics")},
    {0},
};

static const record_field_t compare_options[] = {
    {REAL("min_effect", "smaller changes are none")},
    {REAL("alpha", "false discovery rate")},
    {REAL("recording_spread", "assumed standard deviation of recordings")},
    {FLAG("force", "although the machines differ")},
    {POSITIVE("resamples", "of the bootstrap")},
    {INTEGER("seed", "of the bootstrap")},
    {TEXT("must_decide", "metrics that must decide"), .nullable = true},
    {0},
};

static const record_field_t side_fields[] = {
    {ARRAY("files", "paths")},
    {COUNT("recordings", "files with a complete run")},
    {COUNT("runs", "complete ones")},
    {COUNT("runs_excluded", "the others")},
    {TEXT("first", "time of its first run"), .nullable = true},
    {TEXT("last", "time of its last run"), .nullable = true},
    {TEXT("git", "revisions; null: unknown"), .nullable = true},
    {0},
};

/* Of the part `other` the times are what is left, which may be below 0. */
#define DIFFERENCE                                                                                           \
    {NUMBER("base_sec", "location of BASE"), .nullable = true},                                              \
        {NUMBER("new_sec", "location of NEW"), .nullable = true},                                            \
        {NUMBER("ratio", "`new_sec` / `base_sec`; above 1 is slower"), .nullable = true},                    \
        {REAL("low", "lower end of the interval of `ratio`"), .nullable = true},                             \
        {REAL("high", "upper end"), .nullable = true},                                                       \
        {REAL("error", "standard error of ln `ratio`"), .nullable = true},                                   \
        {REAL("u", "rank statistic"), .nullable = true},                                                     \
        {REAL("p_rank", "its two-sided p"), .nullable = true},                                               \
        {REAL("p", "largest of `p_rank`, the t test's, the resamples'"), .nullable = true},                  \
        {ARRAY("batches", "used for `u`: of BASE, of NEW")},                                                 \
    {                                                                                                        \
        FLAG("start_spread_assumed", "2 % between starts, as there was one")                                 \
    }

static const record_field_t compare_part_fields[] = {
    {TEXT("name", "of the part")},
    {NUMBER("share", "change of the part / change of the whole"), .nullable = true},
    DIFFERENCE,
    {0},
};

static const char *const deciders[] = {"median", "fastest", NULL};
static const char *const spread_sources[] = {"assumed", "measured", NULL};

static const record_field_t ratio_fields[] = {
    {REAL("ratio", "of NEW to BASE"), .nullable = true},
    {REAL("low", "lower end of its interval"), .nullable = true},
    {REAL("high", "upper end"), .nullable = true},
    {REAL("error", "standard error of ln `ratio`"), .nullable = true},
    {REAL("p", "two-sided"), .nullable = true},
    {0},
};

static const record_field_t compare_metric_fields[] = {
    {TEXT("case", "as in `bench`; `train`: the step of a training run")},
    {WORDS("test", "as in `bench`; or the model")},
    {WORDS("key", "as text")},
    {TEXT("label", "short")},
    {TEXT("verdict", "[by the rule](#comparisons)"), .words = verdicts},
    {TEXT("reason", "what is missing; null: nothing"), .nullable = true},
    {FLAG("tested", "it counts for `q` of all")},
    {FLAG("interleaved", "batches are compared in pairs")},
    {REAL("q", "smallest false discovery rate at which it is significant"), .nullable = true},
    {TEXT("decided_by", "whose figures the next ones are: the fastest samples' on a disturbed machine"),
     .words = deciders},
    DIFFERENCE,
    {OBJECT("median", "of the medians"), .of = ratio_fields},
    {OBJECT("fastest", "of the fastest samples"), .of = ratio_fields},
    {REAL("fastest_quantile", "which samples these are")},
    {TEXT("recording_spread_source", "null: nothing was added"), .words = spread_sources, .nullable = true},
    {REAL("recording_spread", "standard deviation between recordings that was added"), .nullable = true},
    {REAL("detectable", "slowdown that is found with 95 %"), .nullable = true},
    {FLAG("must_decide", "the comparison fails if it is inconclusive")},
    {ARRAY("starts", "compared: of BASE, of NEW")},
    {ARRAY("slowed_starts", "left out: of BASE, of NEW")},
    {ARRAY("samples", "of BASE, of NEW")},
    {ARRAY("invalid_samples", "left out: of BASE, of NEW")},
    {ARRAY("parts", "of the time"), .of = compare_part_fields},
    {TEXT("attributed_to", "part with the largest share of a change; null: none"), .nullable = true},
    {0},
};

const record_field_t record_comparison[] = {
    {VERSION("schema", "newer ones are skipped")},
    {TEXT("verdict", "overall"), .words = verdicts},
    {FLAG("decided", "false with exit code 6")},
    {OBJECT("n", "metrics with each verdict"), .of = count_fields},
    {OBJECT("options", "of the comparison"), .of = compare_options},
    {REAL("detectable", "slowdown that is found with 95 %, median over the metrics"), .nullable = true},
    {COUNT("undecided", "metrics that had to decide, and are inconclusive")},
    {OBJECT("base", "the recording BASE"), .of = side_fields},
    {OBJECT("new", "the recording NEW"), .of = side_fields},
    {ARRAY("metrics", "in the order of BASE"), .of = compare_metric_fields},
    {ARRAY("notes", "in words")},
    {0},
};

static const record_field_t history_options[] = {
    {REAL("min_effect", "smaller changes are not reported")},
    {REAL("alpha", "false discovery rate")},
    {COUNT("last", "recordings that are used; 0: all")},
    {0},
};

static const record_field_t recording_fields[] = {
    {TEXT("file", "path")},
    {TEXT("time", "of its first run, UTC")},
    {TEXT("git", "revision; null: unknown"), .nullable = true},
    {COUNT("starts", "its runs")},
    {FLAG("complete", "every run finished")},
    {OBJECT("software", "as in `bench_run`")},
    {0},
};

static const record_field_t value_fields[] = {
    {COUNT("recording", "index of the recording")},
    {REAL("sec", "median of the starts' `p50`"), .nullable = true},
    {REAL("low_sec", "their minimum"), .nullable = true},
    {REAL("high_sec", "their maximum"), .nullable = true},
    {COUNT("starts", "of the recording")},
    {COUNT("starts_used", "that count")},
    {FLAG("disturbed", "no start counts")},
    {0},
};

static const record_field_t change_fields[] = {
    {COUNT("before", "index of the last recording of the old level")},
    {COUNT("after", "index of the first of the new")},
    {REAL("ratio", "level after / level before; above 1 is slower"), .nullable = true},
    {REAL("p", "by permutation"), .nullable = true},
    {REAL("q", "false discovery rate"), .nullable = true},
    {FLAG("same_revision", "the program did not change")},
    {OBJECT("software", "what differs: before, after")},
    {0},
};

static const record_field_t drift_fields[] = {
    {COUNT("first", "index of the first recording")},
    {COUNT("last", "index of the last")},
    {REAL("from_sec", "the trend's value at the first")},
    {REAL("to_sec", "at the last")},
    {REAL("p", "by Mann and Kendall")},
    {0},
};

static const record_field_t history_metric_fields[] = {
    {TEXT("case", "as in `bench`")},
    {WORDS("test", "as in `bench`")},
    {WORDS("key", "as text")},
    {TEXT("label", "short")},
    {FLAG("too_short", "too few values to show a change")},
    {ARRAY("values", "one for each recording that has it"), .of = value_fields},
    {ARRAY("levels_sec", "medians between changes")},
    {ARRAY("changes", "from the first to the last"), .of = change_fields},
    {OBJECT("drift", "instead of changes"), .of = drift_fields, .optional = true},
    {0},
};

static const record_field_t group_fields[] = {
    {WORDS("hardware_id", "of the machine")},
    {WORDS("fabric_id", "of its network")},
    {REAL("ranks", "that measured"), .nullable = true},
    {REAL("threads", "of a rank"), .nullable = true},
    {REAL("days", "from the first recording to the last"), .nullable = true},
    {ARRAY("recordings", "by time"), .of = recording_fields},
    {ARRAY("metrics", "in the order in which they were measured"), .of = history_metric_fields},
    {0},
};

const record_field_t record_history[] = {
    {VERSION("schema", "newer ones are skipped")},
    {OBJECT("options", "of the history"), .of = history_options},
    {ARRAY("groups", "by machine, the newest recording first"), .of = group_fields},
    {ARRAY("notes", "in words")},
    {0},
};
