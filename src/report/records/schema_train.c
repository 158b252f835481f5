/* SPDX-License-Identifier: MIT */
/* Rules for the records of dptrain train; those of `run` are in schema_run.c. */
#include <string.h>

#include "report/records/schema_rules.h"

/* The rest of a run's metrics. */
#define METRICS(prefix)                                                                                      \
    {                                                                                                        \
        REAL(prefix), .nullable = true, .is_prefix = true                                                    \
    }

#define STEP_TIMES                                                                                           \
    {REAL("step_sec")}, {REAL("data_wait_sec")}, {REAL("forward_sec")}, {REAL("backward_sec")},              \
        {REAL("exposed_comm_sec")},                                                                          \
    {                                                                                                        \
        REAL("optimizer_sec")                                                                                \
    }

/* Losses are null if training diverged, accuracies also if samples have several labels. */
static const schema_rule_t step_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {COUNT("epoch")},
    {REAL("loss"), .nullable = true},
    {REAL("accuracy"), .nullable = true},
    {REAL("lr")},
    {REAL("gradient_norm"), .nullable = true, .optional = true},
    STEP_TIMES,
    {REAL("cpu_sec"), .optional = true}, /* not in older records */
    {ARRAY("gradients"), .optional = true},
    {0},
};

static const schema_rule_t image_rules[] = {
    {COUNT("image")},
    {TEXT("canvas")},
    {COUNT("objects")},
    {COUNT("positives")},
    {REAL("sec")},
    {COUNT("rank")},
    {0},
};

/* Of detectors. A batch without objects has no recall. */
static const schema_rule_t detector_step_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {COUNT("epoch")},
    {REAL("loss"), .nullable = true},
    {REAL("recall"), .nullable = true},
    {REAL("loss_objectness"), .nullable = true},
    {REAL("loss_rpn_box_reg"), .nullable = true},
    {REAL("loss_classifier"), .nullable = true},
    {REAL("loss_box_reg"), .nullable = true},
    {REAL("loss_mask"), .nullable = true, .optional = true},
    {REAL("positives")},
    {REAL("lr")},
    {REAL("gradient_norm"), .nullable = true, .optional = true},
    {ARRAY("images"), .inside = image_rules, .optional = true},
    STEP_TIMES,
    {REAL("cpu_sec"), .optional = true},
    {ARRAY("gradients"), .optional = true},
    {0},
};

#define EPOCH_TIMES                                                                                          \
    {REAL("images_per_sec")}, {REAL("train_sec")}, {REAL("eval_sec"), .optional = true},                     \
        {REAL("data_wait_share"), .optional = true}, {REAL("load_read_sec"), .optional = true},              \
        {REAL("load_decode_sec"), .optional = true}, {REAL("load_resize_sec"), .optional = true},            \
        {REAL("load_copy_sec"), .optional = true}, {REAL("load_cpu_wait_sec"), .optional = true},            \
    {                                                                                                        \
        REAL("load_busy_sec"), .optional = true                                                              \
    }

static const schema_rule_t epoch_rules[] = {
    {TEXT("record")},
    {COUNT("epoch")},
    {COUNT("step")},
    {REAL("train_loss"), .nullable = true},
    {REAL("train_accuracy"), .nullable = true},
    {REAL("val_loss"), .nullable = true},
    {REAL("val_accuracy"), .nullable = true},
    METRICS("train_"),
    METRICS("val_"),
    EPOCH_TIMES,
    {0},
};

static const schema_rule_t detector_epoch_rules[] = {
    {TEXT("record")},
    {COUNT("epoch")},
    {COUNT("step")},
    {REAL("train_loss"), .nullable = true},
    {REAL("train_recall"), .nullable = true},
    {REAL("val_ap_box"), .nullable = true},
    METRICS("train_"),
    METRICS("val_"),
    EPOCH_TIMES,
    {0},
};

/* Inside an epoch, with --eval-every in steps. */
static const schema_rule_t evaluation_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {COUNT("epoch")},
    {REAL("val_loss"), .nullable = true},
    {REAL("val_accuracy"), .nullable = true},
    METRICS("val_"),
    {REAL("eval_sec")},
    {0},
};

static const schema_rule_t detector_evaluation_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {COUNT("epoch")},
    {REAL("val_ap_box"), .nullable = true},
    METRICS("val_"),
    {REAL("eval_sec")},
    {0},
};

static const schema_rule_t checkpoint_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {COUNT("n_bytes")},
    {REAL("stall_sec")},
    {REAL("cost_sec"), .optional = true},
    {REAL("interval_sec"), .optional = true},
    {REAL("copy_sec")},
    {REAL("write_sec")},
    {REAL("verify_sec"), .optional = true},
    {TEXT("error"), .nullable = true},
    {0},
};

static const schema_rule_t differing_rules[] = {
    {COUNT("rank")},
    {TEXT("host")},
    {ARRAY("tensors")},
    {0},
};

static const schema_rule_t replicas_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {FLAG("equal")},
    {FLAG("with_states"), .optional = true},
    {HEX("hash"), .optional = true},
    {ARRAY("hashes"), .optional = true},
    {ARRAY("rank_states"), .optional = true},
    {COUNT("every")},
    {COUNT("n_checks")},
    {REAL("check_sec")},
    {ARRAY("ranks"), .inside = differing_rules},
    {0},
};

static const char *const phases[] = {"compute", "data", "communication", NULL};

#define STRAGGLER                                                                                            \
    {COUNT("rank")}, {POSITIVE("n_ranks")}, {TEXT("host")}, {TEXT("phase"), .words = phases}, {REAL("sec")}, \
        {REAL("usual_sec")}, {COUNT("first_step")},                                                          \
    {                                                                                                        \
        COUNT("last_step")                                                                                   \
    }

static const schema_rule_t straggler_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    STRAGGLER,
    {0},
};

static const schema_rule_t named_rules[] = {
    STRAGGLER,
    {0},
};

static const schema_rule_t slowest_rules[] = {
    {TEXT("phase"), .words = phases},
    {COUNT("rank")},
    {TEXT("host")},
    {REAL("sec")},
    {REAL("usual_sec")},
    {0},
};

static const char *const verdicts[] = {"equal", "close", "differs", "not compared", NULL};

static const schema_rule_t resume_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {TEXT("checkpoint")},
    {TEXT("verdict"), .words = verdicts},
    {TEXT("reason"), .nullable = true},
    {REAL("loss"), .nullable = true},
    {REAL("recorded_loss"), .nullable = true},
    {REAL("tolerance"), .nullable = true},
    {POSITIVE("ranks")},
    {COUNT("recorded_ranks")},
    {0},
};

static const schema_rule_t algorithm_rules[] = {
    {TEXT("forward"), .optional = true},
    {TEXT("backward_data"), .optional = true},
    {TEXT("backward_weights"), .optional = true},
    {0},
};

static const char *const bounds[] = {"products", "bytes", NULL};

static const schema_rule_t layer_rules[] = {
    {TEXT("name")},
    {TEXT("operator")},
    {OBJECT("algorithms"), .inside = algorithm_rules, .optional = true},
    {REAL("forward_sec")},
    {REAL("backward_sec")},
    {REAL("share"), .nullable = true},
    {REAL("gflops"), .nullable = true},
    {REAL("share_of_peak"), .nullable = true, .optional = true},
    {REAL("forward_least_sec"), .optional = true},
    {REAL("backward_least_sec"), .optional = true},
    {TEXT("bound"), .words = bounds, .optional = true},
    {REAL("share_of_bound"), .optional = true},
    {0},
};

/* Of detectors, by rank. */
static const schema_rule_t part_rules[] = {
    {COUNT("rank")},
    {REAL("trunk_sec")},
    {REAL("pyramid_sec")},
    {REAL("proposals_sec")},
    {REAL("boxes_sec")},
    {REAL("masks_sec")},
    {REAL("host_sec")},
    {REAL("exposed_comm_sec")},
    {REAL("other_sec")},
    {REAL("step_sec")},
    {0},
};

static const schema_rule_t profile_rules[] = {
    {TEXT("record")},
    {POSITIVE("steps")},
    {POSITIVE("ranks")},
    {REAL("step_sec")},
    {REAL("data_wait_sec")},
    {REAL("forward_sec")},
    {REAL("backward_sec")},
    {REAL("exposed_comm_sec")},
    {REAL("optimizer_sec")},
    {REAL("other_sec")},
    {REAL("peak_gflops"), .optional = true},
    {TEXT("peak_from"), .optional = true},
    {REAL("measured_peak_gflops"), .optional = true},
    {REAL("memory_gbs"), .optional = true},
    {REAL("cache_bytes"), .optional = true},
    {REAL("measured_memory_gbs"), .optional = true},
    {ARRAY("layers"), .inside = layer_rules},
    {ARRAY("parts"), .inside = part_rules, .optional = true},
    {REAL("allreduce_sec"), .optional = true},
    {REAL("cpu_wait_share"), .optional = true},
    {REAL("involuntary_switches_per_sec"), .optional = true},
    {REAL("load"), .optional = true},
    {ARRAY("rank_samples"), .optional = true}, /* of earlier versions */
    {ARRAY("slowest_ranks"), .inside = slowest_rules, .optional = true},
    {ARRAY("stragglers"), .inside = named_rules, .optional = true},
    {ARRAY("hints")},
    {0},
};

static const schema_rule_t safety_rules[] = {
    {REAL("replicas")},        {REAL("stragglers")}, {REAL("watchdog_calls")},
    {REAL("watchdog_thread")}, {REAL("steps")},      {0},
};

static const schema_rule_t end_rules[] = {
    {TEXT("record")},
    {TEXT("reason")},
    {TEXT("gradients"), .optional = true},
    {COUNT("step")},
    {REAL("images_per_sec"), .nullable = true},
    {REAL("median_images_per_sec"), .nullable = true, .optional = true},
    {COUNT("steady_steps")},
    {COUNT("steady_allocations")},
    {COUNT("steady_page_faults")},
    {REAL("steady_cpu_sec")},
    {COUNT("corrupt_samples")},
    {OBJECT("safety_sec"), .inside = safety_rules, .optional = true},
    {ARRAY("peak_memory_bytes")},
    {0},
};

/* With `of_detectors`, records that have this field follow the second table. */
static const struct {
    const char *kind;
    const schema_rule_t *rules;
    const char *of_detectors;
    const schema_rule_t *detector_rules;
} train_kinds[] = {
    {"run", schema_run_rules, NULL, NULL},
    {"step", step_rules, "recall", detector_step_rules},
    {"epoch", epoch_rules, "train_recall", detector_epoch_rules},
    {"checkpoint", checkpoint_rules, NULL, NULL},
    {"replicas", replicas_rules, NULL, NULL},
    {"straggler", straggler_rules, NULL, NULL},
    {"resume", resume_rules, NULL, NULL},
    {"profile", profile_rules, NULL, NULL},
    {"end", end_rules, NULL, NULL},
    {"evaluation", evaluation_rules, "val_ap_box", detector_evaluation_rules},
};
enum { N_KINDS = sizeof train_kinds / sizeof *train_kinds };

static int find_kind(const char *kind)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kind, train_kinds[i].kind) == 0) return i;
    return -1;
}

static err_t check_train_record(const json_value_t *record)
{
    const char *kind = "";
    json_get_text(record, "record", &kind);
    const int k = find_kind(kind);
    const char *mark = train_kinds[k].of_detectors;
    return schema_check_object(record, mark && json_get(record, mark) ? train_kinds[k].detector_rules
                                                                      : train_kinds[k].rules);
}

schema_checker_t schema_train_checker(const char *kind)
{
    return find_kind(kind) >= 0 ? check_train_record : NULL;
}
