/* SPDX-License-Identifier: MIT */
/* Rules for the record `run`, which opens those of dptrain train. */
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
    {ARRAY("host_of_rank"), .optional = true},
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

static const char *const units[] = {"number", "fraction", NULL};
static const char *const directions[] = {"higher", "lower", "neither", NULL};

static const schema_rule_t metric_rules[] = {
    {TEXT("name")},
    {TEXT("label")},
    {TEXT("unit"), .words = units},
    {TEXT("better"), .words = directions},
    {FLAG("main")},
    {FLAG("training")},
    {FLAG("training_only"), .optional = true},
    {FLAG("detail"), .optional = true},
    {0},
};

const schema_rule_t schema_run_rules[] = {
    {TEXT("record")},
    {VERSION("schema")},
    {TEXT("time")},
    {OBJECT("options")},
    {OBJECT("data"), .inside = data_rules},
    {ARRAY("metrics"), .optional = true, .inside = metric_rules},
    {OBJECT("software")},
    {HEX("hardware_id"), .optional = true},
    {OBJECT("hardware"), .optional = true},
    {OBJECT("topology"), .inside = topology_rules},
    {TEXT("algorithms_from")},
    {REAL("algorithms_sec")},
    {COUNT("algorithms_by_rule"), .optional = true},
    {TEXT("algorithm_libraries"), .optional = true},
    {OBJECT("algorithms")},
    {POSITIVE("n_parameters")},
    {POSITIVE("global_batch")},
    {POSITIVE("micro_batch"), .optional = true},
    {COUNT("n_steps")},
    {COUNT("activation_bytes")},
    {COUNT("first_step")},
    {REAL("start_sec"), .optional = true},
    {TEXT("resumed_from"), .nullable = true},
    {0},
};
