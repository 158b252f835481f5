/* SPDX-License-Identifier: MIT */
/* The table of a training run's options, and all groups of them. Their meaning is left to options.c. */
#include <assert.h>
#include <string.h>

#include "compute/models/model.h"
#include "train/run/options.h"

static const char *const on_errors[] = {"stop", "continue", NULL};

#define FIELD(name) offsetof(train_options_t, name)
static const opt_t table[] = {
    {"data", OPT_STRING, FIELD(data), NULL, 0, 0, NULL, "DIR",
     "dataset: image folder (one folder per class, or COCO), shards, MNIST's IDX files, digits (built in), synthetic "
     "[$DPTRAIN_DATA/mnist, data/mnist, digits]",
     OPT_COMMON},
    {"model", OPT_STRING, FIELD(model), "lenet5", 0, 0, NULL, "NAME", "model; dptrain info lists them",
     OPT_COMMON},
    {"preview", OPT_STRING, FIELD(preview), NULL, 0, 0, NULL, "FILE.png",
     "draw the first training samples as the model gets them, and exit", OPT_COMMON},
    {"weights", OPT_STRING, FIELD(weights), NULL, 0, 0, NULL, "FILE.npz",
     "initial weights (npz); a classifier for another number of classes is reinitialized", OPT_COMMON},
    {"weights-names", OPT_STRING, FIELD(weights_names), "torchvision", 0, 0, NULL, "TABLE",
     "parameter names in --weights: torchvision, detectron2, tensorpack, huggingface, dptrain, or a file of rules",
     OPT_MORE},
    {"freeze", OPT_STRING, FIELD(freeze), NULL, 0, 0, NULL, "LAYERS",
     "do not train these layers: a list such as conv1,bn1,layer1; batch norm among them uses its running statistics",
     OPT_MORE},
    {"stem", OPT_CHOICE, FIELD(stem), "auto", 0, 0, model_stems, NULL,
     "of ResNets: first layers; imagenet: 7x7, stride 2, max pooling; small: 3x3, stride 1, no pooling; auto: small for "
     "inputs of up to 64 pixels",
     OPT_MORE},
    {"zero-init-residual", OPT_FLAG, FIELD(zero_init_residual), "false", 0, 0, NULL, NULL,
     "of ResNets: start each block as the identity (the scale of its last batch norm is 0 instead of 1), for long runs "
     "with large batches",
     OPT_MORE},
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "DIR",
     "folder for metrics and checkpoints [runs/MODEL-DATE]", OPT_COMMON},
    {"overwrite", OPT_FLAG, FIELD(overwrite), "false", 0, 0, NULL, NULL,
     "delete an earlier run in --out and start over", OPT_COMMON},
    {"resume", OPT_STRING, FIELD(resume), "none", 0, 0, NULL, "auto|none|PATH",
     "continue from the newest checkpoint in --out, or from PATH", OPT_COMMON},
    {"config", OPT_STRING, FIELD(config), NULL, 0, 0, NULL, "FILE",
     "file of KEY = VALUE lines; the command line wins", OPT_COMMON},
    {"print-config", OPT_FLAG, FIELD(print_config), "false", 0, 0, NULL, NULL,
     "print the resolved options in the format of --config and exit", OPT_MORE},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N",
     "random seed of weights, sample order, dropout and augmentation", OPT_MORE},
    {"reproducible", OPT_INT, FIELD(reproducible), NULL, 1, 4096, NULL, "V",
     "sum the gradients of V virtual shards in a fixed order: bitwise-identical results on any number of "
     "ranks that divides V",
     OPT_MORE},
    {"batch", OPT_INT, FIELD(batch), NULL, 1, 1 << 24, NULL, "N",
     "global batch size, in samples [64; detectors 16]", OPT_COMMON},
    {"batch-per-rank", OPT_INT, FIELD(batch_per_rank), NULL, 1, 1 << 24, NULL, "N",
     "batch size per rank, instead of --batch", OPT_MORE},
    {"accumulate", OPT_INT, FIELD(accumulate), "1", 1, 4096, NULL, "N",
     "gradient accumulation: micro-batches per step on each rank; less memory, same update", OPT_MORE},
    {"epochs", OPT_INT, FIELD(epochs), "3", 1, 1000000, NULL, "N", "passes over the training set",
     OPT_COMMON},
    {"steps", OPT_INT, FIELD(steps), NULL, 1, 1e15, NULL, "N", "total optimizer steps, instead of --epochs",
     OPT_MORE},
    {"label-smoothing", OPT_REAL, FIELD(label_smoothing), "0", 0, 0.999, NULL, "X",
     "label smoothing of the training targets", OPT_MORE},
    {"bn-group", OPT_INT, FIELD(bn_group), NULL, 1, 1 << 24, NULL, "N",
     "batch norm over groups of N samples [all samples of a rank]", OPT_MORE},
    {"sync-bn", OPT_FLAG, FIELD(sync_bn), "false", 0, 0, NULL, NULL,
     "batch norm over the samples of all ranks", OPT_MORE},
    {"shuffle-block", OPT_INT, FIELD(shuffle_block), NULL, 1, UINT32_MAX, NULL, "N",
     "consecutive samples that are shuffled, and read from shards, as one block; 1: shuffle all samples "
     "(the default for images in memory) [about 2 MiB of images]",
     OPT_MORE},
    {"shuffle-window", OPT_INT, FIELD(shuffle_window), "256", 1, 65536, NULL, "N",
     "number of blocks, over all ranks, whose samples are mixed; a smaller dataset is shuffled as a whole",
     OPT_MORE},
    {"precision", OPT_CHOICE, FIELD(precision), "fp32", 0, 0, model_precisions, NULL,
     "of matrix products; bf16: of activations too", OPT_COMMON},
    {"algorithms", OPT_STRING, FIELD(algorithms), "measure", 0, 0, NULL, "fixed|measure|rule|FILE",
     "convolution algorithms: the backend's rule, the fastest measured at startup, the rule of detectors (their "
     "default), or those in FILE; with --reproducible the default is fixed",
     OPT_MORE},
    {"measure-time", OPT_REAL, FIELD(measure_sec), "20", 0, 86400, NULL, "SEC",
     "time limit for measuring algorithms, in seconds; the backend's rule chooses the rest, and a later new "
     "run measures them",
     OPT_MORE},
    {"eval", OPT_FLAG, FIELD(eval), "true", 0, 0, NULL, NULL, "evaluate the model during and after training",
     OPT_MORE},
    {"eval-every", OPT_STRING, FIELD(eval_every), NULL, 0, 0, NULL, "N|Ns",
     "evaluation interval: N epochs or N steps; the last step is always evaluated [1]", OPT_MORE},
    {"eval-samples", OPT_INT, FIELD(eval_samples), NULL, 1, 1e15, NULL, "N",
     "validation samples to evaluate, evenly spaced, always the same [all]", OPT_MORE},
    {"target", OPT_STRING, FIELD(target), NULL, 0, 0, NULL, "METRIC=X",
     "stop when a validation reaches a value, such as accuracy=0.99, map=0.5 or loss=0.05; exit code 1 if "
     "none does",
     OPT_MORE},
    {"target-accuracy", OPT_REAL, FIELD(target_accuracy), "0", 0, 1, NULL, "X",
     "--target for the task's main metric: accuracy, or mAP with several labels; 0: off", OPT_MORE},
    {"checkpoint-every", OPT_STRING, FIELD(checkpoint_every), NULL, 0, 0, NULL, "N|Nm|auto",
     "checkpoint interval: N steps, N minutes, or the best one for --mtbf [every epoch]", OPT_COMMON},
    {"mtbf", OPT_STRING, FIELD(mtbf), NULL, 0, 0, NULL, "N(s|m|h|d)",
     "mean time between failures, for --checkpoint-every auto, such as 6h", OPT_MORE},
    {"checkpoint-async", OPT_FLAG, FIELD(checkpoint_async), "true", 0, 0, NULL, NULL,
     "write checkpoints in the background", OPT_MORE},
    {"on-checkpoint-error", OPT_CHOICE, FIELD(on_checkpoint_error), "stop", 0, 0, on_errors, NULL,
     "action when a checkpoint cannot be written; a failure of the last one is always an error", OPT_MORE},
    {"keep", OPT_INT, FIELD(keep), "3", 1, 1000000, NULL, "K", "number of checkpoints to keep", OPT_MORE},
    {"keep-best", OPT_FLAG, FIELD(keep_best), "false", 0, 0, NULL, NULL,
     "also keep the checkpoint with the best validation (accuracy, or mAP with several labels), and write one at each "
     "new best",
     OPT_MORE},
    {"log-every", OPT_INT, FIELD(log_every), "100", 1, 1e15, NULL, "N",
     "interval of lines of progress, in steps; a line also follows 30 s without one", OPT_MORE},
    {"tensorboard", OPT_STRING, FIELD(tensorboard), NULL, 0, 0, NULL, "DIR",
     "also write metrics for TensorBoard to DIR; to DIR/run-2, ... if another run's are there", OPT_MORE},
    {"profile", OPT_FLAG, FIELD(profile), "false", 0, 0, NULL, NULL,
     "print the whole profile at the end: layers, how near they are to their bounds, hints", OPT_MORE},
    {"trace", OPT_STRING, FIELD(trace), NULL, 0, 0, NULL, "FILE",
     "write a timeline of all ranks, for ui.perfetto.dev or chrome://tracing", OPT_MORE},
    {"trace-steps", OPT_INT, FIELD(trace_steps), "1000", 0, 1e15, NULL, "N",
     "steps to trace, from the first, within 64 MiB per rank; 0: as many as fit", OPT_MORE},
    {"check-replicas", OPT_STRING, FIELD(check_replicas), "auto", 0, 0, NULL, "K|auto|off",
     "compare the ranks' weights every K steps, before each checkpoint and before each evaluation; auto: at a cost "
     "below 0.5 % of a step",
     OPT_MORE},
    {"straggler-window", OPT_REAL, FIELD(straggler_sec), "2", 0, 86400, NULL, "SEC",
     "shortest window over which the ranks' times are compared", OPT_HIDDEN},
};
/* The table's parts, each with a heading in --help. */
static const struct {
    const char *title, *first;
} sections[TRAIN_SECTIONS] = {
    {"Data", "data"},
    {"Model", "model"},
    {"Run", "out"},
    {"Batches and length", "batch"},
    {"Precision and algorithms", "precision"},
    {"Evaluation", "eval"},
    {"Checkpoints", "checkpoint-every"},
    {"Monitoring", "log-every"},
};
enum { N_OPTIONS = sizeof table / sizeof table[0] };

static void bind_sections(train_options_t *options)
{
    opt_group_t *groups = options->groups;
    int g = -1;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (g + 1 < TRAIN_SECTIONS && strcmp(table[i].key, sections[g + 1].first) == 0)
            groups[++g] = (opt_group_t){NULL, &table[i], 0, options, 0};
        ASSERT(g >= 0);
        groups[g].title = sections[g].title;
        groups[g].n++;
    }
    ASSERT(g == TRAIN_SECTIONS - 1);
}

err_t train_options_bind(train_options_t *options)
{
    *options = (train_options_t){0};
    bind_sections(options);
    const opt_group_t others[] = {
        {"Learning rate", schedule_option_table, n_schedule_options, &options->schedule, 0},
        {"Optimizer", optim_option_table, n_optim_options, &options->optim, 0},
        {"Augmentation", random_affine_option_table, n_random_affine_options, &options->transform.affine, 0},
        {"Data: images", transform_option_table, n_transform_options, &options->transform, 0},
        {"Data: loading", loader_option_table, n_loader_options, &options->loader, 0},
        {"Runtime", runtime_option_table, n_runtime_options, &options->runtime, 0},
        {"GPU", gpu_option_table, n_gpu_options, &options->runtime, 0},
        {"Output", console_option_table, n_console_options, &options->console, 0},
        {"Detectors", detect_train_option_table, n_detect_train_options, &options->detect, 0},
        {"Detectors: images", canvas_option_table, n_canvas_options, &options->detect.canvas, 0},
    };
    static_assert(sizeof others / sizeof *others == TRAIN_N_GROUPS - TRAIN_SECTIONS, "all groups");
    memcpy(options->groups + TRAIN_SECTIONS, others, sizeof others);
    return opt_defaults(options->groups, TRAIN_N_GROUPS);
}
