/* SPDX-License-Identifier: MIT */
/* The records of dptrain train. */
#include "records/tables.h"

static const record_field_t data_fields[] = {
    {TEXT("kind")},
    {TEXT("source")},
    {HEX("xxh3")},
    {COUNT("n_train")},
    {COUNT("n_val")},
    {POSITIVE("n_classes")},
    {TEXT("transform"), .nullable = true, .was = "views"},
    {POSITIVE("shuffle_block")},
    {0},
};

static const record_field_t measured_fields[] = {
    {COUNT("bytes")}, {REAL("host_sec")}, {REAL("mpi_sec")}, {TEXT("chosen")}, {0},
};

static const record_field_t allreduce_fields[] = {
    {TEXT("gradients"), .nullable = true},
    {COUNT("bucket_bytes"), .optional = true},
    {ARRAY("measured"), .of = measured_fields},
    {0},
};

static const record_field_t gpu_fields[] = {
    {COUNT("rank")}, {TEXT("host")}, {TEXT("name")}, {TEXT("pci")}, {TEXT("uuid")}, {0},
};

static const record_field_t topology_fields[] = {
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
    {OBJECT("allreduce"), .of = allreduce_fields},
    {TEXT("gpu_unavailable"), .nullable = true, .was = "no_gpu_why"},
    {POSITIVE("gpu_memory_bytes"), .optional = true},
    {REAL("compute_capability"), .optional = true},
    {TEXT("cuda_graph"), .optional = true},
    {ARRAY("gpus"), .optional = true, .of = gpu_fields},
    {FLAG("gpus_differ"), .optional = true},
    {0},
};

static const char *const units[] = {"number", "fraction", NULL};
static const char *const directions[] = {"higher", "lower", "neither", NULL};

static const record_field_t metric_fields[] = {
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

const record_field_t record_run[] = {
    {VERSION("schema")},
    {TEXT("time")},
    {OBJECT("options")},
    {OBJECT("data"), .of = data_fields},
    {ARRAY("metrics"), .optional = true, .of = metric_fields},
    {OBJECT("software")},
    {HEX("hardware_id"), .optional = true},
    {OBJECT("hardware"), .optional = true},
    {OBJECT("topology"), .of = topology_fields},
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

static const record_field_t image_fields[] = {
    {COUNT("image")},
    {TEXT("canvas")},
    {COUNT("objects")},
    {COUNT("positives")},
    {REAL("sec")},
    {COUNT("rank")},
    {0},
};

/* Losses are null if training diverged, accuracies also if samples have several labels. A detector's batch without objects has
 * no recall. */
const record_field_t record_step[] = {
    {COUNT("step")},
    {COUNT("epoch")},
    {REAL("loss"), .nullable = true},
    {REAL("accuracy"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("recall"), .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("loss_objectness"), .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("loss_rpn_box_reg"), .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("loss_classifier"), .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("loss_box_reg"), .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("loss_mask"), .nullable = true, .optional = true, .variant = RECORD_DETECTOR},
    {REAL("positives"), .variant = RECORD_DETECTOR},
    {REAL("lr")},
    {REAL("gradient_norm"), .nullable = true, .optional = true},
    {REAL("step_sec")},
    {REAL("data_wait_sec")},
    {REAL("forward_sec")},
    {REAL("backward_sec")},
    {REAL("exposed_comm_sec")},
    {REAL("optimizer_sec")},
    {REAL("cpu_sec"), .optional = true}, /* not in older records */
    {ARRAY("gradients"), .optional = true},
    {ARRAY("images"), .of = image_fields, .optional = true, .variant = RECORD_DETECTOR},
    {0},
};

/* The rest of a run's metrics. */
#define METRICS(prefix)                                                                                      \
    {                                                                                                        \
        REAL(prefix), .nullable = true, .is_prefix = true                                                    \
    }

const record_field_t record_epoch[] = {
    {COUNT("epoch")},
    {COUNT("step")},
    {REAL("train_loss"), .nullable = true},
    {REAL("train_accuracy"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("train_recall"), .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("val_loss"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("val_accuracy"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("val_ap_box"), .nullable = true, .variant = RECORD_DETECTOR},
    METRICS("train_"),
    METRICS("val_"),
    {REAL("images_per_sec")},
    {REAL("train_sec")},
    {REAL("eval_sec"), .optional = true},
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
const record_field_t record_evaluation[] = {
    {COUNT("step")},
    {COUNT("epoch")},
    {REAL("val_loss"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("val_accuracy"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("val_ap_box"), .nullable = true, .variant = RECORD_DETECTOR},
    METRICS("val_"),
    {REAL("eval_sec")},
    {0},
};

const record_field_t record_checkpoint[] = {
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

static const record_field_t differing_fields[] = {
    {COUNT("rank")},
    {TEXT("host")},
    {ARRAY("tensors")},
    {0},
};

const record_field_t record_replicas[] = {
    {COUNT("step")},
    {FLAG("equal")},
    {FLAG("with_states"), .optional = true},
    {HEX("hash"), .optional = true},
    {ARRAY("hashes"), .optional = true},
    {ARRAY("rank_states"), .optional = true},
    {COUNT("every")},
    {COUNT("n_checks")},
    {REAL("check_sec")},
    {ARRAY("ranks"), .of = differing_fields},
    {0},
};

static const char *const phases[] = {"compute", "data", "communication", NULL};

#define STRAGGLER                                                                                            \
    {COUNT("rank")}, {POSITIVE("n_ranks")}, {TEXT("host")}, {TEXT("phase"), .words = phases}, {REAL("sec")}, \
        {REAL("usual_sec")}, {COUNT("first_step")},                                                          \
    {                                                                                                        \
        COUNT("last_step")                                                                                   \
    }

const record_field_t record_straggler[] = {
    {COUNT("step")},
    STRAGGLER,
    {0},
};

static const record_field_t named_fields[] = {
    STRAGGLER,
    {0},
};

static const record_field_t slowest_fields[] = {
    {TEXT("phase"), .words = phases},
    {COUNT("rank")},
    {TEXT("host")},
    {REAL("sec")},
    {REAL("usual_sec")},
    {0},
};

static const char *const verdicts[] = {"equal", "close", "differs", "not compared", NULL};

const record_field_t record_resume[] = {
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

static const record_field_t algorithm_fields[] = {
    {TEXT("forward"), .optional = true},
    {TEXT("backward_data"), .optional = true},
    {TEXT("backward_weights"), .optional = true},
    {0},
};

static const char *const bounds[] = {"products", "bytes", NULL};

static const record_field_t layer_fields[] = {
    {TEXT("name")},
    {TEXT("operator")},
    {OBJECT("algorithms"), .of = algorithm_fields, .optional = true},
    {REAL("forward_sec")},
    {REAL("backward_sec")},
    {REAL("share"), .nullable = true},
    {REAL("gflops"), .nullable = true},
    {REAL("share_of_peak"), .was = "of_peak", .nullable = true, .optional = true},
    {REAL("forward_least_sec"), .optional = true},
    {REAL("backward_least_sec"), .optional = true},
    {TEXT("bound"), .words = bounds, .optional = true},
    {REAL("share_of_bound"), .optional = true},
    {0},
};

/* Of detectors, by rank. */
static const record_field_t part_fields[] = {
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

const record_field_t record_profile[] = {
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
    {ARRAY("layers"), .of = layer_fields},
    {ARRAY("parts"), .of = part_fields, .optional = true},
    {REAL("allreduce_sec"), .optional = true},
    {REAL("cpu_wait_share"), .optional = true},
    {REAL("involuntary_switches_per_sec"), .optional = true},
    {REAL("load"), .optional = true},
    {ARRAY("rank_samples"), .optional = true}, /* of earlier versions */
    {ARRAY("slowest_ranks"), .of = slowest_fields, .optional = true},
    {ARRAY("stragglers"), .of = named_fields, .optional = true},
    {ARRAY("hints")},
    {0},
};

static const record_field_t safety_fields[] = {
    {REAL("replicas")},        {REAL("stragglers")}, {REAL("watchdog_calls")},
    {REAL("watchdog_thread")}, {REAL("steps")},      {0},
};

const record_field_t record_end[] = {
    {TEXT("reason"), .was = "why"},
    {TEXT("gradients"), .optional = true},
    {COUNT("step")},
    {REAL("images_per_sec"), .nullable = true},
    {REAL("median_images_per_sec"), .nullable = true, .optional = true},
    {COUNT("steady_steps")},
    {COUNT("steady_allocations")},
    {COUNT("steady_page_faults")},
    {REAL("steady_cpu_sec")},
    {COUNT("corrupt_samples"), .was = "bad_pictures"},
    {OBJECT("safety_sec"), .of = safety_fields, .optional = true},
    {ARRAY("peak_memory_bytes")},
    {0},
};
