/* SPDX-License-Identifier: MIT */
/* The records of dptrain train. */
#include "records/tables.h"

static const record_field_t data_fields[] = {
    {TEXT("kind", "what reads it, as `idx` or `images`")},
    {TEXT("source", "path")},
    {HEX("xxh3", "hash of names, sizes, labels and annotations")},
    {COUNT("n_train", "samples to train with")},
    {COUNT("n_val", "samples to validate with")},
    {POSITIVE("n_classes", "number of classes")},
    {ARRAY("classes", "their names, if they have some; up to 20"), .optional = true},
    {TEXT("transform", "what is done to a folder's images; null: nothing"), .nullable = true, .was = "views"},
    {POSITIVE("shuffle_block", "samples per block that is shuffled as a unit")},
    {0},
};

static const record_field_t measured_fields[] = {
    {COUNT("bytes", "size of the gradients")},
    {REAL("host_sec", "through the host's shared memory")},
    {REAL("mpi_sec", "through MPI")},
    {TEXT("chosen", "`host` or `mpi`")},
    {0},
};

static const record_field_t allreduce_fields[] = {
    {TEXT("gradients", "how they are summed; null: on one rank"), .nullable = true},
    {COUNT("bucket_bytes", "size of a piece that is summed at once"), .optional = true},
    {ARRAY("measured", "the times behind the choice"), .of = measured_fields},
    {0},
};

static const record_field_t gpu_fields[] = {
    {COUNT("rank", "number of the rank")}, {TEXT("host", "its host")}, {TEXT("name", "the GPU")},
    {TEXT("pci", "its PCI id")},           {TEXT("uuid", "its UUID")}, {0},
};

static const record_field_t topology_fields[] = {
    {POSITIVE("ranks", "processes that train")},
    {POSITIVE("hosts", "machines that they are on")},
    {TEXT("host_of_rank_0", "host of rank 0")},
    {ARRAY("host_of_rank", "host of each rank"), .optional = true},
    {POSITIVE("threads", "threads of a rank, to compute with")},
    {TEXT(
         "threads_from",
         "`option`, `fixed` (one with `--reproducible`), `checkpoint`, `share` of the CPUs, `measured`, `cache`"),
     .optional = true},
    {COUNT("loader_threads", "threads of rank 0, to load with")},
    {COUNT("cpus", "CPUs that the ranks of the fullest host may use"), .optional = true},
    {REAL("cpu_wait_share", "largest share of the start for which a rank had no CPU"), .optional = true},
    {REAL("involuntary_switches_per_sec", "during the start, of all ranks together"), .optional = true},
    {REAL("load", "highest load average (1 minute) of a host at the start"), .optional = true},
    {TEXT("device", "`cpu` or `cuda`")},
    {TEXT("comm", "communicator")},
    {FLAG("gradients_shared", "gradients lie in memory that a host's ranks share")},
    {COUNT("optimizer_bytes", "optimizer state of the rank that has most"), .optional = true},
    {OBJECT("allreduce", "how gradients are summed"), .of = allreduce_fields},
    {TEXT("gpu_unavailable", "why `--device auto` chose the CPU"), .nullable = true, .was = "no_gpu_why"},
    {POSITIVE("gpu_memory_bytes", "memory of rank 0's GPU"), .optional = true},
    {REAL("compute_capability", "of rank 0's GPU"), .optional = true},
    {TEXT("cuda_graph", "`recorded`, or the reason why not"), .optional = true},
    {ARRAY("gpus", "the GPU of each rank"), .optional = true, .of = gpu_fields},
    {FLAG("gpus_differ", "not all are of one model"), .optional = true},
    {0},
};

static const char *const units[] = {"number", "fraction", NULL};
static const char *const directions[] = {"higher", "lower", "neither", NULL};

static const record_field_t metric_fields[] = {
    {TEXT("name", "of the fields `train_NAME` and `val_NAME`")},
    {TEXT("label", "in tables and charts")},
    {TEXT("unit", "fractions are shown as percentages"), .words = units},
    {TEXT("better", "which values are better"), .words = directions},
    {FLAG("main", "judges the model")},
    {FLAG("training", "also measured in training")},
    {FLAG("training_only", "not in evaluations"), .optional = true},
    {FLAG("detail", "not on consoles and in tables"), .optional = true},
    {0},
};

const record_field_t record_run[] = {
    {VERSION("schema", "newer ones are skipped")},
    {TEXT("time", "start, UTC")},
    {OBJECT("options", "all of them, resolved")},
    {OBJECT("data", "what it trains on"), .of = data_fields},
    {ARRAY("metrics", "what the task measures"), .optional = true, .of = metric_fields},
    {OBJECT("software", "versions of dptrain, git, compiler, flags, MPI, HDF5, backend")},
    {HEX("hardware_id", "hash of `hardware`"), .optional = true},
    {OBJECT("hardware", "the machine, as in `bench_run`"), .optional = true},
    {OBJECT("topology", "ranks, threads, devices"), .of = topology_fields},
    {TEXT(
        "algorithms_from",
        "`fixed`, `measured`, `cache`, `checkpoint`, `file`; `rule`: of detectors, then those of the largest canvas")},
    {REAL("algorithms_sec", "time spent measuring them")},
    {COUNT("algorithms_by_rule", "choices that `--measure-time` left to the rule"), .optional = true},
    {TEXT("algorithm_libraries",
          "libraries loaded for some algorithms only, as `cuDNN 9.19.0`, also if it is missing"),
     .optional = true},
    {OBJECT(
        "algorithms",
        "of each layer with a choice, the names of `forward`, `backward_data`, `backward_weights`, at rank 0's share of a whole batch; the first layer's data gradient is listed but never computed")},
    {POSITIVE("n_parameters", "parameters of the model")},
    {POSITIVE("global_batch", "samples of a step, of all ranks")},
    {POSITIVE("micro_batch", "of detectors: images computed at a time, at most"), .optional = true},
    {COUNT("n_steps", "steps of the whole run")},
    {COUNT("activation_bytes", "activations of rank 0")},
    {COUNT("first_step", "first step of this process")},
    {REAL("start_sec", "from loading the program to this record, on rank 0"), .optional = true},
    {TEXT("resumed_from", "checkpoint; null: a new run"), .nullable = true},
    {0},
};

static const record_field_t image_fields[] = {
    {COUNT("image", "its number in the training set")},
    {TEXT("canvas", "height × width")},
    {COUNT("objects", "those that are targets")},
    {COUNT("positives", "sampled regions with an object")},
    {REAL("sec", "its pass; of a micro-batch an equal part of it")},
    {COUNT("rank", "rank that computed it")},
    {0},
};

/* Losses are null if training diverged, accuracies also if samples have several labels. A detector's batch without objects has
 * no recall. */
const record_field_t record_step[] = {
    {COUNT("step", "number of the step, from 0")},
    {COUNT("epoch", "number of the epoch, from 0; consoles and pages count from 1")},
    {REAL(
         "loss",
         "mean over the global batch; of detectors the sum of the next losses, means over images; null: not finite"),
     .nullable = true},
    {REAL("accuracy", "over the global batch; null if samples have several labels"), .nullable = true,
     .variant = RECORD_CLASSIFIER},
    {REAL(
         "recall",
         "objects that a proposal overlaps with an IoU of at least 0.5, divided by the objects of the same images; null without objects"),
     .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("loss_objectness", "of proposals: cross-entropy of the sampled anchors"), .nullable = true,
     .variant = RECORD_DETECTOR},
    {REAL("loss_rpn_box_reg", "of proposals: smooth L1 of their boxes"), .nullable = true,
     .variant = RECORD_DETECTOR},
    {REAL("loss_classifier", "of regions: cross-entropy of their classes"), .nullable = true,
     .variant = RECORD_DETECTOR},
    {REAL("loss_box_reg", "of regions: smooth L1 of their boxes"), .nullable = true,
     .variant = RECORD_DETECTOR},
    {REAL("loss_mask", "Mask R-CNN: cross-entropy of the masks' pixels"), .nullable = true, .optional = true,
     .variant = RECORD_DETECTOR},
    {REAL("positives", "sampled regions with an object, per image"), .variant = RECORD_DETECTOR},
    {REAL("lr", "learning rate")},
    {REAL("gradient_norm", "before clipping; only with `--clip-norm` or LARS"), .nullable = true,
     .optional = true},
    {REAL("step_sec", "from requesting data to the end of the optimizer")},
    {REAL("data_wait_sec", "time of waiting for the batch")},
    {REAL("forward_sec", "time of the forward pass")},
    {REAL("backward_sec", "time of the backward pass")},
    {REAL(
        "exposed_comm_sec",
        "from the end of backward to the end of the gradient allreduce; with `--shard-optimizer` the reduce-scatter, and `allgather_sec`")},
    {REAL("allgather_sec", "with `--shard-optimizer`: of the weights, after the update"), .optional = true},
    {REAL("optimizer_sec", "time of the update of the weights")},
    {REAL("cpu_sec", "rank 0's CPU time"), .optional = true}, /* not in older records */
    {ARRAY(
         "gradients",
         "with `--reproducible`: a hash (32 bits, hexadecimal) of those that each rank computed, before they were summed"),
     .optional = true},
    {ARRAY("images", "those of the global batch, in every step that is a multiple of `--log-every`"),
     .of = image_fields, .optional = true, .variant = RECORD_DETECTOR},
    {0},
};

/* The rest of a run's metrics. */
#define METRICS(prefix, about)                                                                               \
    {                                                                                                        \
        REAL(prefix, about), .nullable = true, .is_prefix = true                                             \
    }

const record_field_t record_epoch[] = {
    {COUNT("epoch", "number of the epoch, from 0; consoles and pages count from 1")},
    {COUNT("step", "last step done")},
    {REAL("train_loss", "mean over the epoch's samples, as trained"), .nullable = true},
    {REAL("train_accuracy", "the same"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("train_recall", "the same"), .nullable = true, .variant = RECORD_DETECTOR},
    {REAL("val_loss", "mean over the evaluation; null without one"), .nullable = true,
     .variant = RECORD_CLASSIFIER},
    {REAL("val_accuracy", "the same; null also if samples have several labels"), .nullable = true,
     .variant = RECORD_CLASSIFIER},
    {REAL("val_ap_box", "average precision of boxes; null without an evaluation"), .nullable = true,
     .variant = RECORD_DETECTOR},
    METRICS("train_", "another metric of training"),
    METRICS("val_", "another metric of the evaluation"),
    {REAL("images_per_sec", "samples trained / `train_sec`")},
    {REAL("train_sec", "time of the steps")},
    {REAL("eval_sec", "time of the evaluation, if there was one"), .optional = true},
    {ARRAY("confusion", "of the evaluation; rows: label, columns: prediction; up to 20 classes"),
     .optional = true, .variant = RECORD_CLASSIFIER},
    {ARRAY("average_precision", "of the evaluation, of each class of samples with several labels"),
     .optional = true, .variant = RECORD_CLASSIFIER},
    {REAL("data_wait_share",
          "sum of `data_wait_sec` / sum of `step_sec`, over the epoch's steps and all ranks"),
     .optional = true},
    {REAL("load_read_sec", "loaders: waiting for the bytes of images"), .optional = true},
    {REAL("load_decode_sec", "loaders: CPU time of decoding and cropping"), .optional = true},
    {REAL("load_resize_sec", "loaders: CPU time of resizing and jitter"), .optional = true},
    {REAL("load_copy_sec", "loaders: everything else"), .optional = true},
    {REAL("load_cpu_wait_sec", "loaders: waiting for a CPU while decoding and resizing"), .optional = true},
    {REAL("load_busy_sec", "loaders: all time with a batch to fill"), .optional = true},
    {0},
};

/* Inside an epoch, with --eval-every in steps. */
const record_field_t record_evaluation[] = {
    {COUNT("step", "last step done")},
    {COUNT("epoch", "number of the epoch, from 0; consoles and pages count from 1")},
    {REAL("val_loss", "as in `epoch`"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("val_accuracy", "as in `epoch`"), .nullable = true, .variant = RECORD_CLASSIFIER},
    {REAL("val_ap_box", "as in `epoch`"), .nullable = true, .variant = RECORD_DETECTOR},
    METRICS("val_", "another metric"),
    {REAL("eval_sec", "time of the evaluation")},
    {ARRAY("confusion", "as in `epoch`; rows: label, columns: prediction; up to 20 classes"),
     .optional = true, .variant = RECORD_CLASSIFIER},
    {ARRAY("average_precision", "as in `epoch`, of each class of samples with several labels"),
     .optional = true, .variant = RECORD_CLASSIFIER},
    {0},
};

const record_field_t record_checkpoint[] = {
    {COUNT("step", "steps done")},
    {COUNT("n_bytes", "size of the arrays")},
    {REAL(
        "stall_sec",
        "time that training waited: for an earlier write, the copy, and without `--checkpoint-async` the disk")},
    {REAL("cost_sec",
          "time that training stood still: `stall_sec`, averaging running statistics, comparing replicas"),
     .optional = true},
    {REAL("interval_sec", "time to the next one, with `--checkpoint-every auto`"), .optional = true},
    {REAL("copy_sec", "copy of the arrays")},
    {REAL("write_sec", "write and flush")},
    {REAL("verify_sec", "reading it back, deleting older ones"), .optional = true},
    {TEXT("error", "the message; null: none"), .nullable = true},
    {0},
};

static const record_field_t differing_fields[] = {
    {COUNT("rank", "one that differs")},
    {TEXT("host", "its host")},
    {ARRAY("tensors", "names of the tensors that differ")},
    {0},
};

const record_field_t record_replicas[] = {
    {COUNT("step", "steps done")},
    {FLAG("equal", "all ranks hold the same")},
    {FLAG("with_states", "batch norm's running statistics were compared, too"), .optional = true},
    {FLAG("weights_only",
          "with `--shard-optimizer`: each rank has an optimizer state of its own, which is not in the hash"),
     .optional = true},
    {HEX("hash",
         "of weights and optimizer state, 64 bits; missing before `end` if no check followed the last step"),
     .optional = true},
    {ARRAY("hashes", "of each rank, if they differ"), .optional = true},
    {ARRAY(
         "rank_states",
         "with `--reproducible` and batch norm: a hash of each rank's running statistics before they were averaged"),
     .optional = true},
    {COUNT("every", "steps between checks; 0: `auto` had not chosen")},
    {COUNT("n_checks", "checks so far")},
    {REAL("check_sec", "time of all checks so far, on rank 0")},
    {ARRAY("ranks", "those that differ"), .of = differing_fields},
    {0},
};

static const char *const phases[] = {"compute", "data", "communication", NULL};

#define STRAGGLER                                                                                            \
    {COUNT("rank", "the slow one, or the lowest of a slow host")},                                           \
        {POSITIVE("n_ranks", "1, or all ranks of the host")}, {TEXT("host", "its host")},                    \
        {TEXT("phase", "phase of a step in which it is slow"), .words = phases},                             \
        {REAL("sec", "its time per step")}, {REAL("usual_sec", "median of the ranks")},                      \
        {COUNT("first_step", "first of the slow steps")},                                                    \
    {                                                                                                        \
        COUNT("last_step", "last of the slow steps so far")                                                  \
    }

const record_field_t record_straggler[] = {
    {COUNT("step", "steps done")},
    STRAGGLER,
    {0},
};

static const record_field_t named_fields[] = {
    STRAGGLER,
    {0},
};

static const record_field_t slowest_fields[] = {
    {TEXT("phase", "phase of a step"), .words = phases},
    {COUNT("rank", "number of the rank")},
    {TEXT("host", "its host")},
    {REAL("sec", "its time per step")},
    {REAL("usual_sec", "median of the ranks")},
    {0},
};

static const char *const verdicts[] = {"equal", "close", "differs", "not compared", NULL};

const record_field_t record_resume[] = {
    {COUNT("step", "the first after the resume")},
    {TEXT("checkpoint", "path")},
    {TEXT("verdict", "of the step's [loss](checkpoints.md#resume)"), .words = verdicts},
    {TEXT("reason", "why it was not compared"), .nullable = true},
    {REAL("loss", "loss of this process"), .nullable = true},
    {REAL("recorded_loss", "loss of the earlier one"), .nullable = true},
    {REAL("tolerance", "0: the same bits are expected"), .nullable = true},
    {POSITIVE("ranks", "ranks of this process")},
    {COUNT("recorded_ranks", "ranks of the earlier one; 0: unknown")},
    {0},
};

static const record_field_t algorithm_fields[] = {
    {TEXT("forward", "name"), .optional = true},
    {TEXT("backward_data", "name"), .optional = true},
    {TEXT("backward_weights", "name"), .optional = true},
    {0},
};

static const char *const bounds[] = {"products", "bytes", NULL};

static const record_field_t layer_fields[] = {
    {TEXT("name", "name of the layer")},
    {TEXT("operator", "what it computes")},
    {OBJECT("algorithms", "of the passes with a choice, on rank 0"), .of = algorithm_fields,
     .optional = true},
    {REAL("forward_sec", "time of the forward pass")},
    {REAL("backward_sec", "time of the backward pass")},
    {REAL("share", "share of the step"), .nullable = true},
    {REAL("gflops", "2 · multiply-adds, including the padding's zeros, / time of both passes"),
     .nullable = true},
    {REAL("share_of_peak", "2 · products that the algorithms need / time / `peak_gflops`"), .was = "of_peak",
     .nullable = true, .optional = true},
    {REAL("forward_least_sec", "the least that this machine could take"), .optional = true},
    {REAL("backward_least_sec", "the least that this machine could take"), .optional = true},
    {TEXT("bound", "what most of the least time is due to"), .words = bounds, .optional = true},
    {REAL("share_of_bound", "least time / time"), .optional = true},
    {0},
};

/* Of detectors, by rank. */
static const record_field_t part_fields[] = {
    {COUNT("rank", "number of the rank")},
    {REAL("trunk_sec", "layers of the trunk, both passes")},
    {REAL("pyramid_sec", "layers of the pyramid")},
    {REAL("proposals_sec", "layers of proposals, with their part of `host_sec`")},
    {REAL("boxes_sec", "layers of boxes")},
    {REAL("masks_sec", "layers of masks, with their part of `host_sec`")},
    {REAL("host_sec", "on the host: proposals, targets of boxes, targets of masks")},
    {REAL("exposed_comm_sec", "as in `step`")},
    {REAL("other_sec", "data, copies, sums over images, optimizer")},
    {REAL("step_sec", "as in `step`")},
    {0},
};

const record_field_t record_profile[] = {
    {POSITIVE("steps", "number of these steps")},
    {POSITIVE("ranks", "number of ranks")},
    {REAL("step_sec", "as in `step`")},
    {REAL("data_wait_sec", "as in `step`")},
    {REAL("forward_sec", "as in `step`")},
    {REAL("backward_sec", "as in `step`")},
    {REAL("exposed_comm_sec", "as in `step`")},
    {REAL("allgather_sec", "as in `step`"), .optional = true},
    {REAL("optimizer_sec", "as in `step`")},
    {REAL("other_sec", "rest of the step")},
    {REAL("peak_gflops", "products that a rank's hardware does at most"), .optional = true},
    {TEXT("peak_from", "what measured them"), .optional = true},
    {REAL("measured_peak_gflops", "`peak_gflops` before a faster layer raised it"), .optional = true},
    {REAL("memory_gbs", "rate of memory beyond `cache_bytes`, at most"), .optional = true},
    {REAL("cache_bytes", "bytes that caches can hold"), .optional = true},
    {REAL("measured_memory_gbs", "`memory_gbs` before a faster layer raised it"), .optional = true},
    {ARRAY("layers", "the most costly layer first"), .of = layer_fields},
    {ARRAY("parts", "of detectors, by rank: seconds per step"), .of = part_fields, .optional = true},
    {REAL("allreduce_sec", "at most the part of `exposed_comm_sec` that is not waiting for slower ranks"),
     .optional = true},
    {REAL("cpu_wait_share",
          "largest share of the time for which a rank's main thread was ready and had no CPU"),
     .optional = true},
    {REAL("involuntary_switches_per_sec", "of all ranks together"), .optional = true},
    {REAL("load", "highest load average (1 minute) of a host"), .optional = true},
    {ARRAY("rank_samples", "only in records of earlier versions"),
     .optional = true}, /* of earlier versions */
    {ARRAY("slowest_ranks", "the slowest rank of each phase, over the whole run"), .of = slowest_fields,
     .optional = true},
    {ARRAY("stragglers", "as in `straggler`"), .of = named_fields, .optional = true},
    {ARRAY("hints", "what to do about it")},
    {0},
};

static const record_field_t safety_fields[] = {
    {REAL("replicas", "comparing replicas")},
    {REAL("stragglers", "looking for stragglers")},
    {REAL("watchdog_calls", "the watchdog, in steps")},
    {REAL("watchdog_thread", "CPU time of the watchdog's thread")},
    {REAL("steps", "all steps, to compare with")},
    {0},
};

const record_field_t record_end[] = {
    {TEXT(
         "reason",
         "`finished`, `target reached`, `stopped early` and why (`--patience`), `time limit reached`; `stopped by` and the signal that the program or, before it, run.sh got; `stopped on request` if rank 0 cannot know it; or `interrupted by` and a signal"),
     .was = "why"},
    {TEXT("gradients", "how they were summed, where NCCL did it"), .optional = true},
    {COUNT("step", "steps done")},
    {REAL("images_per_sec", "samples / time of the steps after the first 10"), .nullable = true},
    {REAL("median_images_per_sec", "the same of the median step"), .nullable = true, .optional = true},
    {COUNT("steady_steps", "steps after the first 10")},
    {COUNT("steady_allocations", "blocks allocated in these steps, on rank 0")},
    {COUNT("steady_page_faults", "pages touched for the first time in these steps, on rank 0")},
    {REAL("steady_cpu_sec", "CPU time of rank 0's threads in these steps")},
    {COUNT("corrupt_samples", "images that could not be read, of all ranks, each once"),
     .was = "bad_pictures"},
    {OBJECT("safety_sec", "what guards against faults took, on rank 0"), .of = safety_fields,
     .optional = true},
    {ARRAY("peak_memory_bytes", "memory of rank 0 and, with several ranks, the greatest of a rank")},
    {0},
};
