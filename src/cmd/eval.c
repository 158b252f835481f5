/* SPDX-License-Identifier: MIT */
/* `dptrain eval`: options of an evaluation. Rebuilding the model and running it are left to
 * train/inference/evaluate_checkpoint.c, and to evaluate_detector.c for detectors; scoring files of detections to
 * train/inference/evaluate_results.c. */
#include <string.h>

#include "base/progress.h"
#include "cmd/cmd.h"
#include "data/dataset/dataset.h"
#include "train/inference/evaluate_checkpoint.h"
#include "train/inference/evaluate_detector.h"
#include "train/inference/evaluate_results.h"

typedef struct eval_options {
    evaluate_options_t evaluate;
    const char *split, *results, *score, *write_results;
    bool per_category;
    detector_settings_t detector;
    runtime_options_t runtime;
    console_options_t console;
} eval_options_t;

#define FIELD(name) offsetof(eval_options_t, name)
static const opt_t table[] = {
    {"data", OPT_STRING, FIELD(evaluate.data), NULL, 0, 0, NULL, "DIR",
     "dataset: image folder, shards, MNIST's IDX files or digits [what it was trained on]", OPT_COMMON},
    {"split", OPT_CHOICE, FIELD(split), "val", 0, 0, split_names, NULL,
     "samples to evaluate; training samples are not augmented", OPT_COMMON},
    {"png", OPT_STRING, FIELD(evaluate.png), NULL, 0, 0, NULL, "FILE",
     "write an image of the worst mistakes to FILE; detectors: annotations beside detections", OPT_COMMON},
    {"worst", OPT_INT, FIELD(evaluate.n_worst), "40", 1, 400, NULL, "N",
     "number of mistakes in the image; detectors: of images", OPT_COMMON},
    {"json", OPT_STRING, FIELD(evaluate.json), NULL, 0, 0, NULL, "FILE",
     "also write the result to FILE, in full precision", OPT_COMMON},
    {"results", OPT_STRING, FIELD(results), NULL, 0, 0, NULL, "FILE",
     "score the boxes or masks in FILE, in COCO's results format, against the annotations of --data; a "
     "second FILE may follow",
     OPT_COMMON},
    {"per-category", OPT_FLAG, FIELD(per_category), NULL, 0, 0, NULL, NULL,
     "with --results and detectors: also the numbers of each category", OPT_COMMON},
};

static const opt_t detector_table[] = {
    {"score", OPT_CHOICE, FIELD(score), "auto", 0, 0, evaluate_detector_scores, NULL,
     "what to score; auto: boxes, and masks if the model or FILE has them", OPT_COMMON},
    {"write-results", OPT_STRING, FIELD(write_results), NULL, 0, 0, NULL, "DIR",
     "write the detections to DIR/bbox.json and DIR/segm.json, in COCO's results format", OPT_COMMON},
};

static const char usage[] =
    "usage: [mpirun -np N] dptrain eval CHECKPOINT|FOLDER|WEIGHTS.npz [options]\n"
    "       dptrain eval --results FILE.json [FILE2.json] --data SRC [--split S]\n"
    "                    [--score bbox|segm] [--per-category] [--json FILE]\n"
    "\n"
    "Evaluates a checkpoint, the newest one in a folder, or weights of another\n"
    "program (with --model): loss, and accuracy or average precision. Detectors, such\n"
    "as --model maskrcnn_resnet50_fpn: COCO's average precision and recall.\n"
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
static err_t check_results(const eval_options_t *options, opt_group_t *groups)
{
    static const char *const others[] = {"png", "worst"};
    if (!options->evaluate.data)
        RAISE(ERR_USAGE, "--results requires --data SRC: COCO's folder, shards, or a file of annotations");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (opt_given(groups, N_GROUPS, others[i]))
            RAISE(ERR_USAGE, "--%s does not apply to --results", others[i]);
    for (int g = GROUP_WEIGHTS; g <= GROUP_LOADING; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (groups[g].given >> i & 1 && strcmp(groups[g].table[i].key, "score") != 0)
                RAISE(ERR_USAGE, "--%s does not apply to --results", groups[g].table[i].key);
    return ERR_OK;
}

/* Options of the other kind of model.
 *
 *   model  its name; NULL: no weights of a detector are named */
static err_t check_kind(const eval_options_t *options, opt_group_t *groups, const char *model)
{
    static const char *const others[] = {"input-size", "stem", "task", "eval-crop", "loader-threads", NULL};
    if (options->per_category && !model_detects(model))
        RAISE(ERR_USAGE, "--per-category requires --results FILE or a detector");
    return detector_check_options(model, &groups[GROUP_DETECTORS], GROUP_LOADING - GROUP_DETECTORS, groups,
                                  N_GROUPS, others);
}

/* What a checkpoint holds is not known yet. */
static err_t check_options(eval_options_t *options, opt_group_t *groups, const char *where)
{
    const weights_options_t *weights = &options->evaluate.weights;
    if (options->results) return check_results(options, groups);
    if (!where)
        RAISE(ERR_USAGE, "dptrain eval: expected a checkpoint, a run folder or weights (FILE.npz), or "
                         "--results FILE");
    TRY(dataset_check_name(options->evaluate.data));
    TRY(weights_options_check(weights, &groups[GROUP_WEIGHTS], where));
    if (!options->evaluate.png && opt_given(groups, N_GROUPS, "worst"))
        RAISE(ERR_USAGE, "--worst requires --png FILE");
    if (!trained_is_weights(where)) return ERR_OK;
    if (model_detects(weights->model) && !options->evaluate.data)
        RAISE(ERR_USAGE, "%s requires --data SRC: COCO's folder, or shards of one", weights->model);
    return check_kind(options, groups, weights->model);
}

static err_t evaluate(runtime_t *runtime, const char *where, const eval_options_t *o, opt_group_t *groups)
{
    const evaluate_options_t *e = &o->evaluate;
    const bool weights = trained_is_weights(where);
    trained_model_t model = {0};
    err_t err = trained_open(runtime->comm, where, runtime->backend, &model);
    const char *name = weights ? e->weights.model : model.about.model;
    if (err == ERR_OK && !weights)
        err = comm_agree(runtime->comm, check_kind(o, groups, name), "loading the checkpoint");
    if (err == ERR_OK && model_detects(name)) {
        evaluate_detector_options_t detector = {.data = e->data,
                                                .split = e->split,
                                                .score = o->score,
                                                .json = e->json,
                                                .results = o->write_results,
                                                .png = e->png,
                                                .n_worst = e->n_worst,
                                                .max_bad = e->loader.max_bad,
                                                .list = list_rules(&e->loader.list, e->loader.max_bad),
                                                .per_category = o->per_category,
                                                .threads_given = e->threads_given,
                                                .weights = e->weights,
                                                .detector = o->detector};
        detector.detector.canvas_given = groups[GROUP_CANVAS].given;
        loader_apply_limits(&e->loader);
        err = evaluate_detector(runtime, where, &model, &detector);
    } else if (err == ERR_OK) {
        err = evaluate_checkpoint(runtime, where, &model, e);
    }
    trained_free(&model);
    return err;
}

err_t cmd_eval(const cmd_context_t *context)
{
    eval_options_t options = {0};
    opt_group_t groups[N_GROUPS] = {
        {"Evaluation", table, sizeof table / sizeof table[0], &options, 0},
        {"Weights (FILE.npz)", weights_option_table, n_weights_options, &options.evaluate.weights, 0},
        {"Detectors", detector_table, sizeof detector_table / sizeof detector_table[0], &options, 0},
        {"Detectors: images", canvas_option_table, n_canvas_options, &options.detector.canvas, 0},
        {"Detectors: objects", detections_option_table, n_detections_options, &options.detector.detections,
         0},
        {"Loading images", loader_option_table, n_loader_options, &options.evaluate.loader, 0},
        {"Runtime", runtime_option_table, n_runtime_options, &options.runtime, 0},
        {"GPU", gpu_option_table, n_gpu_options, &options.runtime, 0},
        {"Output", console_option_table, n_console_options, &options.console, 0},
    };
    const char *where = NULL;
    err_t err = opt_defaults(groups, N_GROUPS);
    if (cmd_wants_help(context, usage, groups, N_GROUPS, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, N_GROUPS, context->argc, context->argv, &where, 1, NULL);
    if (err == ERR_OK) err = console_apply(&options.console);
    if (err == ERR_OK) err = check_options(&options, groups, where);
    if (err != ERR_OK || cmd_only_checks()) return cmd_fail(err);
    options.evaluate.split = strcmp(options.split, split_names[SPLIT_TRAIN]) == 0 ? SPLIT_TRAIN : SPLIT_VAL;
    runtime_t runtime = {0};
    if (options.results) {     /* needs no device */
        score_type_t want = 0; /* SCORE_TYPE_COUNT: "auto" */
        while (want < SCORE_TYPE_COUNT && strcmp(options.score, score_type_names[want]) != 0) want++;
        const results_options_t results = {.files = {options.results, where},
                                           .data = options.evaluate.data,
                                           .split = options.evaluate.split,
                                           .want = want,
                                           .json = options.evaluate.json,
                                           .per_category = options.per_category};
        err = runtime_open_comm(&options.runtime, context->abort_job, &runtime);
        if (err == ERR_OK) err = evaluate_results(runtime.comm, &results);
        return runtime_close(&runtime, err);
    }
    err = progress_watch();
    if (err == ERR_OK) err = runtime_open(&options.runtime, context->abort_job, &runtime);
    options.evaluate.timeout_sec = options.runtime.timeout_sec;
    options.evaluate.threads_given = options.runtime.threads > 0;
    if (err == ERR_OK) err = evaluate(&runtime, where, &options, groups);
    progress_unwatch();
    return runtime_close(&runtime, err);
}
