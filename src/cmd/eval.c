/* SPDX-License-Identifier: MIT */
/* `dptrain eval`: options of an evaluation, which is left to train/inference. */
#include <string.h>

#include "cmd/cmd.h"
#include "data/dataset/dataset.h"
#include "text/progress.h"
#include "train/inference/inference.h"

typedef struct eval_options {
    inference_options_t inference;
    const char *split, *score, *results; /* results: to score */
    runtime_options_t runtime;
    console_options_t console;
} eval_options_t;

#define FIELD(name) offsetof(eval_options_t, name)
static const opt_t table[] = {
    {"data", OPT_STRING, FIELD(inference.data), NULL, 0, 0, NULL, "DIR",
     "dataset: image folder, shards, MNIST's IDX files or digits [what it was trained on]", OPT_COMMON},
    {"split", OPT_CHOICE, FIELD(split), "val", 0, 0, split_names, NULL,
     "samples to evaluate; training samples are not augmented", OPT_COMMON},
    {"png", OPT_STRING, FIELD(inference.png), NULL, 0, 0, NULL, "FILE",
     "write an image of the worst mistakes to FILE; detectors: annotations beside detections", OPT_COMMON},
    {"worst", OPT_INT, FIELD(inference.n_worst), "40", 1, 400, NULL, "N",
     "number of mistakes in the image; detectors: of images", OPT_COMMON},
    {"json", OPT_STRING, FIELD(inference.json), NULL, 0, 0, NULL, "FILE",
     "also write the result to FILE, in full precision", OPT_COMMON},
    {"results", OPT_STRING, FIELD(results), NULL, 0, 0, NULL, "FILE",
     "score the boxes or masks in FILE, in COCO's results format, against the annotations of --data; a "
     "second FILE may follow",
     OPT_COMMON},
    {"per-category", OPT_FLAG, FIELD(inference.per_category), NULL, 0, 0, NULL, NULL,
     "with --results and detectors: also the numbers of each category", OPT_COMMON},
};

static const char *const scores[] = {"auto", "bbox", "segm", NULL};

static const opt_t detector_table[] = {
    {"score", OPT_CHOICE, FIELD(score), "auto", 0, 0, scores, NULL,
     "what to score; auto: boxes, and masks if the model or FILE has them", OPT_COMMON},
    {"skip-unmasked", OPT_FLAG, FIELD(inference.skip_unmasked), NULL, 0, 0, NULL, NULL,
     "leave out annotated objects without a segmentation", OPT_MORE},
    {"write-results", OPT_STRING, FIELD(inference.write_results), NULL, 0, 0, NULL, "DIR",
     "write the detections to DIR/bbox.json and DIR/segm.json, in COCO's results format", OPT_COMMON},
};

static const char usage[] =
    "usage: [mpirun -np N] dptrain eval CHECKPOINT|FOLDER|WEIGHTS [options]\n"
    "       dptrain eval --results FILE.json [FILE2.json] --data SRC [--split S]\n"
    "                    [--score bbox|segm] [--per-category] [--json FILE]\n"
    "\n"
    "Evaluates a checkpoint, the newest one in a folder, the best one (FOLDER/best),\n"
    "or weights of another program (with --model): loss, and accuracy or average\n"
    "precision. Detectors, such as --model maskrcnn_resnet50_fpn: COCO's average\n"
    "precision and recall.\n"
    "\f\n"
    "With --results: COCO's average precision and recall of detections that any\n"
    "program wrote, equal to pycocotools'. SRC is COCO's folder (its images are not\n"
    "read), shards of it, or a file like instances_val2017.json.\n";

enum {
    GROUP_EVALUATION,
    GROUP_WEIGHTS,
    GROUP_DETECTORS,
    GROUP_CANVAS,
    GROUP_DETECTIONS,
    GROUP_LOADING,
    GROUP_RUNTIME,
    GROUP_GPU,
    GROUP_OUTPUT,
    N_GROUPS
};

/* Options of a checkpoint's evaluation do not apply to results, nor the other way round. */
static err_t check_results(const inference_options_t *options, const opt_group_t *groups)
{
    static const char *const others[] = {"png", "worst"}, *const scoring[] = {"score", "skip-unmasked", NULL};
    if (!options->data)
        RAISE(ERR_USAGE, "--results requires --data SRC: COCO's folder, shards, or a file of annotations");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (opt_given(groups, N_GROUPS, others[i]))
            RAISE(ERR_USAGE, "--%s does not apply to --results", others[i]);
    for (int g = GROUP_WEIGHTS; g <= GROUP_LOADING; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (groups[g].given >> i & 1 && !opt_listed(scoring, groups[g].table[i].key))
                RAISE(ERR_USAGE, "--%s does not apply to --results", groups[g].table[i].key);
    return ERR_OK;
}

/* What a checkpoint holds is not known yet. */
static err_t check_options(const eval_options_t *options, const opt_group_t *groups)
{
    const inference_options_t *o = &options->inference;
    if (options->results) return check_results(o, groups);
    if (!o->where)
        RAISE(ERR_USAGE,
              "dptrain eval: expected a checkpoint, a run folder or weights (.npz, .safetensors), or "
              "--results FILE");
    TRY(dataset_check_name(o->data));
    TRY(weights_options_check(o, &groups[GROUP_WEIGHTS]));
    if (!o->png && opt_given(groups, N_GROUPS, "worst")) RAISE(ERR_USAGE, "--worst requires --png FILE");
    return inference_check(o, groups, N_GROUPS);
}

err_t cmd_eval(const cmd_context_t *context)
{
    eval_options_t options = {.results = NULL};
    inference_options_t *o = &options.inference;
    opt_group_t groups[N_GROUPS] = {
        {"Evaluation", table, sizeof table / sizeof table[0], &options, 0},
        {"Weights (.npz, .safetensors)", weights_option_table, n_weights_options, &o->weights, 0},
        {"Detectors", detector_table, sizeof detector_table / sizeof detector_table[0], &options, 0},
        {"Detectors: images", canvas_option_table, n_canvas_options, &o->canvas, 0},
        {"Detectors: inference", detections_option_table, n_detections_options, &o->detections, 0},
        {"Loading images", loader_option_table, n_loader_options, &o->loader, 0},
        {"Runtime", runtime_option_table, n_runtime_options, &options.runtime, 0},
        {"GPU", gpu_option_table, n_gpu_options, &options.runtime, 0},
        {"Output", console_option_table, n_console_options, &options.console, 0},
    };
    err_t err = opt_defaults(groups, N_GROUPS);
    if (cmd_wants_help(context, usage, groups, N_GROUPS, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, N_GROUPS, context->argc, context->argv, &o->where, 1, NULL);
    if (err == ERR_OK) err = console_apply(&options.console);
    if (err == ERR_OK) err = check_options(&options, groups);
    if (err != ERR_OK || cmd_only_checks()) return cmd_fail(err);
    o->split = strcmp(options.split, split_names[SPLIT_TRAIN]) == 0 ? SPLIT_TRAIN : SPLIT_VAL;
    o->score = 0; /* SCORE_TYPE_COUNT: "auto" */
    while (o->score < SCORE_TYPE_COUNT && strcmp(options.score, score_type_names[o->score]) != 0) o->score++;
    o->canvas_given = groups[GROUP_CANVAS].given;
    o->timeout_sec = options.runtime.timeout_sec;
    o->threads_given = options.runtime.threads > 0;
    loader_apply_limits(&o->loader);
    runtime_t runtime = {0};
    if (options.results) { /* needs no device */
        const char *const files[] = {options.results, o->where};
        err = runtime_open_comm(&options.runtime, context->abort_job, &runtime);
        if (err == ERR_OK) err = evaluate_results(runtime.comm, files, o);
        return runtime_close(&runtime, err);
    }
    err = progress_watch();
    if (err == ERR_OK) err = runtime_open(&options.runtime, context->abort_job, &runtime);
    if (err == ERR_OK) err = inference_run(&runtime, o, groups, N_GROUPS);
    progress_unwatch();
    return runtime_close(&runtime, err);
}
