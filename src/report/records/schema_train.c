/* SPDX-License-Identifier: MIT */
/* Rules for the records of dptrain train. */
#include <string.h>

#include "report/records/schema_rules.h"

static const schema_rule_t data_rules[] = {
    {TEXT("kind")},
    {TEXT("source")},
    {HEX("xxh3")},
    {COUNT("n_train")},
    {COUNT("n_val")},
    {POSITIVE("n_classes")},
    {TEXT("transform"), .nullable = true},
    {POSITIVE("shuffle_block")},
    {0},
};

static const schema_rule_t measured_rules[] = {
    {COUNT("bytes")}, {REAL("host_sec")}, {REAL("mpi_sec")}, {TEXT("chosen")}, {0},
};

static const schema_rule_t allreduce_rules[] = {
    {TEXT("gradients"), .nullable = true},
    {COUNT("bucket_bytes"), .optional = true},
    {ARRAY("measured"), .inside = measured_rules},
    {0},
};

static const schema_rule_t gpu_rules[] = {
    {COUNT("rank")}, {TEXT("host")}, {TEXT("name")}, {TEXT("pci")}, {TEXT("uuid")}, {0},
};

static const schema_rule_t topology_rules[] = {
    {POSITIVE("ranks")},
    {POSITIVE("hosts")},
    {TEXT("host_of_rank_0")},
    {POSITIVE("threads")},
    {TEXT("threads_from"), .optional = true},
    {COUNT("loader_threads")},
    {COUNT("cpus"), .optional = true},
    {REAL("cpu_wait_share"), .optional = true},
    {REAL("involuntary_switches_per_sec"), .optional = true},
    {REAL("load"), .optional = true},
    {TEXT("device")},
    {TEXT("comm")},
    {FLAG("gradients_shared")},
    {OBJECT("allreduce"), .inside = allreduce_rules},
    {TEXT("gpu_unavailable"), .nullable = true},
    {POSITIVE("gpu_memory_bytes"), .optional = true},
    {REAL("compute_capability"), .optional = true},
    {TEXT("cuda_graph"), .optional = true},
    {ARRAY("gpus"), .optional = true, .inside = gpu_rules},
    {FLAG("gpus_differ"), .optional = true},
    {0},
};

static const char *const units[] = {"number", "fraction", NULL}, *const directions[] = {"higher", "lower",
                                                                                        NULL};

static const schema_rule_t metric_rules[] = {
    {TEXT("name")},
    {TEXT("label")},
    {TEXT("unit"), .words = units},
    {TEXT("better"), .words = directions},
    {FLAG("main")},
    {FLAG("training")},
    {0},
};

/* The rest of a run's metrics. */
#define METRICS(prefix)                                                                                      \
    {                                                                                                        \
        REAL(prefix), .nullable = true, .is_prefix = true                                                    \
    }

static const schema_rule_t run_rules[] = {
    {TEXT("record")},
    {VERSION("schema")},
    {TEXT("time")},
    {OBJECT("options")},
    {OBJECT("data"), .inside = data_rules},
    {ARRAY("metrics"), .optional = true, .inside = metric_rules},
    {OBJECT("software")},
    {OBJECT("topology"), .inside = topology_rules},
    {TEXT("algorithms_from")},
    {REAL("algorithms_sec")},
    {COUNT("algorithms_by_rule"), .optional = true},
    {OBJECT("algorithms")},
    {POSITIVE("n_parameters")},
    {POSITIVE("global_batch")},
    {COUNT("n_steps")},
    {COUNT("activation_bytes")},
    {COUNT("first_step")},
    {TEXT("resumed_from"), .nullable = true},
    {0},
};

/* Losses are null if training diverged, accuracies also if samples have several labels. */
static const schema_rule_t step_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {COUNT("epoch")},
    {REAL("loss"), .nullable = true},
    {REAL("accuracy"), .nullable = true},
    {REAL("lr")},
    {REAL("gradient_norm"), .nullable = true, .optional = true},
    {REAL("step_sec")},
    {REAL("data_wait_sec")},
    {REAL("forward_sec")},
    {REAL("backward_sec")},
    {REAL("exposed_comm_sec")},
    {REAL("optimizer_sec")},
    {0},
};

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
    {REAL("images_per_sec")},
    {REAL("train_sec")},
    {REAL("data_wait_share"), .optional = true},
    {REAL("load_read_sec"), .optional = true},
    {REAL("load_decode_sec"), .optional = true},
    {REAL("load_resize_sec"), .optional = true},
    {REAL("load_copy_sec"), .optional = true},
    {REAL("load_cpu_wait_sec"), .optional = true},
    {REAL("load_busy_sec"), .optional = true},
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

static const schema_rule_t checkpoint_rules[] = {
    {TEXT("record")},
    {COUNT("step")},
    {COUNT("n_bytes")},
    {REAL("stall_sec")},
    {REAL("copy_sec")},
    {REAL("write_sec")},
    {REAL("verify_sec"), .optional = true},
    {TEXT("error"), .nullable = true},
    {0},
};

static const schema_rule_t layer_rules[] = {
    {TEXT("name")},
    {TEXT("operator")},
    {REAL("forward_sec")},
    {REAL("backward_sec")},
    {REAL("share"), .nullable = true},
    {REAL("gflops"), .nullable = true},
    {REAL("share_of_peak"), .nullable = true, .optional = true},
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
    {ARRAY("layers"), .inside = layer_rules},
    {REAL("allreduce_sec"), .optional = true},
    {REAL("cpu_wait_share"), .optional = true},
    {REAL("involuntary_switches_per_sec"), .optional = true},
    {REAL("load"), .optional = true},
    {ARRAY("hints")},
    {0},
};

static const schema_rule_t end_rules[] = {
    {TEXT("record")},
    {TEXT("reason")},
    {TEXT("gradients"), .optional = true},
    {COUNT("step")},
    {REAL("images_per_sec"), .nullable = true},
    {COUNT("steady_steps")},
    {COUNT("steady_allocations")},
    {COUNT("steady_page_faults")},
    {REAL("steady_cpu_sec")},
    {COUNT("corrupt_samples")},
    {ARRAY("peak_memory_bytes")},
    {0},
};

static const struct {
    const char *kind;
    const schema_rule_t *rules;
} train_kinds[] = {{"run", run_rules},
                   {"step", step_rules},
                   {"epoch", epoch_rules},
                   {"checkpoint", checkpoint_rules},
                   {"profile", profile_rules},
                   {"end", end_rules},
                   {"evaluation", evaluation_rules}};
enum { N_KINDS = sizeof train_kinds / sizeof *train_kinds };

static const schema_rule_t *find_rules(const char *kind)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kind, train_kinds[i].kind) == 0) return train_kinds[i].rules;
    return NULL;
}

static err_t check_train_record(const json_value_t *record)
{
    const char *kind = "";
    json_get_text(record, "record", &kind);
    return schema_check_object(record, find_rules(kind));
}

schema_checker_t schema_train_checker(const char *kind)
{
    return find_rules(kind) ? check_train_record : NULL;
}
