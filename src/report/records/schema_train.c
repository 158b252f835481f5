/* SPDX-License-Identifier: MIT */
/* Rules for the records of dptrain train. */
#include <string.h>

#include "report/records/schema_rules.h"

#define TEXT_OR_NULL(field)                                                                                  \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_TEXT, .nullable = true                                                 \
    }
#define REAL_OR_NULL(field)                                                                                  \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_REAL, .nullable = true                                                 \
    }
#define REAL_IF(field)                                                                                       \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_REAL, .optional = true                                                 \
    }
#define OBJECT_OF(field, rules)                                                                              \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_OBJECT, .inside = rules                                                \
    }
#define ARRAY_OF(field, rules)                                                                               \
    {                                                                                                        \
        .name = field, .kind = SCHEMA_ARRAY, .inside = rules                                                 \
    }

static const schema_rule_t data_rules[] = {
    TEXT("kind"),
    TEXT("source"),
    {.name = "xxh3", .kind = SCHEMA_HEX},
    COUNT("n_train"),
    COUNT("n_val"),
    POSITIVE("n_classes"),
    TEXT_OR_NULL("transform"),
    POSITIVE("shuffle_block"),
    END,
};

static const schema_rule_t measured_rules[] = {
    COUNT("bytes"), REAL("host_sec"), REAL("mpi_sec"), TEXT("chosen"), END,
};

static const schema_rule_t allreduce_rules[] = {
    TEXT_OR_NULL("gradients"),
    {.name = "bucket_bytes", .kind = SCHEMA_COUNT, .optional = true},
    ARRAY_OF("measured", measured_rules),
    END,
};

static const schema_rule_t gpu_rules[] = {
    COUNT("rank"), TEXT("host"), TEXT("name"), TEXT("pci"), TEXT("uuid"), END,
};

static const schema_rule_t topology_rules[] = {
    POSITIVE("ranks"),
    POSITIVE("hosts"),
    TEXT("host_of_rank_0"),
    POSITIVE("threads"),
    COUNT("loader_threads"),
    TEXT("device"),
    TEXT("comm"),
    {.name = "gradients_shared", .kind = SCHEMA_FLAG},
    OBJECT_OF("allreduce", allreduce_rules),
    TEXT_OR_NULL("gpu_unavailable"),
    {.name = "gpu_memory_bytes", .kind = SCHEMA_POSITIVE, .optional = true},
    REAL_IF("compute_capability"),
    {.name = "cuda_graph", .kind = SCHEMA_TEXT, .optional = true},
    {.name = "gpus", .kind = SCHEMA_ARRAY, .optional = true, .inside = gpu_rules},
    {.name = "gpus_differ", .kind = SCHEMA_FLAG, .optional = true},
    END,
};

static const schema_rule_t run_rules[] = {
    TEXT("record"),
    {.name = "schema", .kind = SCHEMA_VERSION},
    TEXT("time"),
    OBJECT("options"),
    OBJECT_OF("data", data_rules),
    OBJECT("software"),
    OBJECT_OF("topology", topology_rules),
    TEXT("algorithms_from"),
    REAL("algorithms_sec"),
    OBJECT("algorithms"),
    POSITIVE("n_parameters"),
    POSITIVE("global_batch"),
    COUNT("n_steps"),
    COUNT("activation_bytes"),
    COUNT("first_step"),
    TEXT_OR_NULL("resumed_from"),
    END,
};

/* Losses are null if training diverged, accuracies also if samples have several labels. */
static const schema_rule_t step_rules[] = {
    TEXT("record"),
    COUNT("step"),
    COUNT("epoch"),
    REAL_OR_NULL("loss"),
    REAL_OR_NULL("accuracy"),
    REAL("lr"),
    {.name = "gradient_norm", .kind = SCHEMA_REAL, .nullable = true, .optional = true},
    REAL("step_sec"),
    REAL("data_wait_sec"),
    REAL("forward_sec"),
    REAL("backward_sec"),
    REAL("exposed_comm_sec"),
    REAL("optimizer_sec"),
    END,
};

static const schema_rule_t epoch_rules[] = {
    TEXT("record"),
    COUNT("epoch"),
    COUNT("step"),
    REAL_OR_NULL("train_loss"),
    REAL_OR_NULL("train_accuracy"),
    REAL_OR_NULL("val_loss"),
    REAL_OR_NULL("val_accuracy"),
    {.name = "val_map", .kind = SCHEMA_REAL, .nullable = true, .optional = true},
    REAL_IF("val_top5"),
    REAL("images_per_sec"),
    REAL("train_sec"),
    REAL_IF("data_wait_share"),
    REAL_IF("load_read_sec"),
    REAL_IF("load_decode_sec"),
    REAL_IF("load_resize_sec"),
    REAL_IF("load_copy_sec"),
    REAL_IF("load_cpu_wait_sec"),
    REAL_IF("load_busy_sec"),
    END,
};

static const schema_rule_t checkpoint_rules[] = {
    TEXT("record"),   COUNT("step"),     COUNT("n_bytes"),      REAL("stall_sec"),
    REAL("copy_sec"), REAL("write_sec"), TEXT_OR_NULL("error"), END,
};

static const schema_rule_t layer_rules[] = {
    TEXT("name"),
    TEXT("operator"),
    REAL("forward_sec"),
    REAL("backward_sec"),
    REAL_OR_NULL("share"),
    REAL_OR_NULL("gflops"),
    {.name = "share_of_peak", .kind = SCHEMA_REAL, .nullable = true, .optional = true},
    END,
};

static const schema_rule_t profile_rules[] = {
    TEXT("record"),         POSITIVE("steps"),
    POSITIVE("ranks"),      REAL("step_sec"),
    REAL("data_wait_sec"),  REAL("forward_sec"),
    REAL("backward_sec"),   REAL("exposed_comm_sec"),
    REAL("optimizer_sec"),  REAL("other_sec"),
    REAL_IF("peak_gflops"), ARRAY_OF("layers", layer_rules),
    ARRAY("hints"),         END,
};

static const schema_rule_t end_rules[] = {
    TEXT("record"),
    TEXT("reason"),
    {.name = "gradients", .kind = SCHEMA_TEXT, .optional = true},
    COUNT("step"),
    REAL_OR_NULL("images_per_sec"),
    COUNT("steady_steps"),
    COUNT("steady_allocations"),
    COUNT("steady_page_faults"),
    REAL("steady_cpu_sec"),
    COUNT("corrupt_samples"),
    ARRAY("peak_memory_bytes"),
    END,
};

static const struct {
    const char *kind;
    const schema_rule_t *rules;
} train_kinds[] = {{"run", run_rules},         {"step", step_rules},
                   {"epoch", epoch_rules},     {"checkpoint", checkpoint_rules},
                   {"profile", profile_rules}, {"end", end_rules}};
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
