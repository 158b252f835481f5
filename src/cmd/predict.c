/* SPDX-License-Identifier: MIT */
/* `dptrain predict`: options and the list of images. Running the model is left to train/inference. */
#include "base/fs.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "text/progress.h"
#include "train/inference/inference.h"

typedef struct options {
    inference_options_t inference;
    runtime_options_t runtime;
    console_options_t console;
} options_t;

#define FIELD(name) offsetof(options_t, name)
static const opt_t table[] = {
    {"out", OPT_STRING, FIELD(inference.out), NULL, 0, 0, NULL, "DIR",
     "write each image with its classes, or its objects and predictions.json, to DIR", OPT_COMMON},
    {"json", OPT_STRING, FIELD(inference.json), NULL, 0, 0, NULL, "FILE",
     "write one JSON object per image to FILE, one per line", OPT_COMMON},
    {"top", OPT_INT, FIELD(inference.top), "5", 1, 1 << 24, NULL, "N", "classes per image, best first",
     OPT_COMMON},
    {"data", OPT_STRING, FIELD(inference.data), NULL, 0, 0, NULL, "DIR",
     "dataset with the names of the classes, for weights and for checkpoints without names; for weights "
     "also the input's size and normalization",
     OPT_COMMON},
    {"loader-threads", OPT_INT, FIELD(inference.loader.threads), "0", 0, 256, NULL, "N",
     "threads that read and decode images; 0: the CPUs not used by --threads, at least 1", OPT_MORE},
    IMAGE_PIXELS_ROW(FIELD(inference.loader.max_image_pixels)),
};

static const opt_t detector_table[] = {
    {"threshold", OPT_REAL, FIELD(inference.threshold), "0.5", 0, 1, NULL, "X",
     "draw and print objects with at least this score", OPT_COMMON},
};

static const char usage[] =
    "usage: dptrain predict CHECKPOINT|FOLDER|WEIGHTS IMAGE|FOLDER... [options]\n"
    "\n"
    "Prints the best classes of images (.png, .jpg, .jpeg; a folder: all below it)\n"
    "with their probabilities. Of a run's folder the newest checkpoint is taken, of\n"
    "FOLDER/best the one with the best validation. Images are prepared as in\n"
    "evaluation. Exit code 3 if an image cannot be read; the others are predicted all\n"
    "the same.\n"
    "\n"
    "With a detector, a checkpoint or weights (--model maskrcnn_resnet50_fpn): finds\n"
    "objects, with boxes, masks and scores.\n";

/* words: the model, then images. */
static err_t list_images(const char *const *words, int n, image_list_t *list)
{
    if (n < 2)
        RAISE(ERR_USAGE,
              "dptrain predict: expected a checkpoint, a run folder or weights (.npz, .safetensors), then "
              "images or folders of images");
    if (image_is_named(words[0]) && !fs_is_folder(words[0]))
        RAISE(ERR_USAGE,
              "dptrain predict: %s is an image; expected a checkpoint, a run folder or weights first, "
              "then images",
              words[0]);
    for (int i = 1; i < n; i++) TRY(image_list_add(list, words[i]));
    return ERR_OK;
}

enum {
    GROUP_PREDICTION,
    GROUP_WEIGHTS,
    GROUP_DETECTORS,
    GROUP_CANVAS,
    GROUP_DETECTIONS,
    GROUP_RUNTIME,
    GROUP_GPU,
    GROUP_OUTPUT,
    N_GROUPS
};

err_t cmd_predict(const cmd_context_t *context)
{
    image_list_t list = {.n = 0};
    options_t options = {.inference.images = &list};
    inference_options_t *o = &options.inference;
    opt_group_t groups[N_GROUPS] = {
        {"Prediction", table, sizeof table / sizeof table[0], &options, 0},
        {"Weights (.npz, .safetensors)", weights_option_table, n_weights_options, &o->weights, 0},
        {"Detectors", detector_table, sizeof detector_table / sizeof detector_table[0], &options, 0},
        {"Detectors: images", canvas_option_table, n_canvas_options, &o->canvas, 0},
        {"Detectors: inference", detections_option_table, n_detections_options, &o->detections, 0},
        {"Runtime", runtime_option_table, n_runtime_options, &options.runtime, 0},
        {"GPU", gpu_option_table, n_gpu_options, &options.runtime, 0},
        {"Output", console_option_table, n_console_options, &options.console, 0},
    };
    const char **words = NULL;
    int n = 0;
    err_t err = opt_defaults(groups, N_GROUPS);
    if (cmd_wants_help(context, usage, groups, N_GROUPS, &err)) return err;
    if (err == ERR_OK)
        err = mem_new_array(context->argc + 1, sizeof *words, "words of the command line", &words);
    if (err == ERR_OK)
        err = opt_parse(groups, N_GROUPS, context->argc, context->argv, words, context->argc, &n);
    if (err == ERR_OK) err = console_apply(&options.console);
    o->where = n > 0 ? words[0] : NULL;
    if (err == ERR_OK && n > 0) err = dataset_check_name(o->data);
    if (err == ERR_OK && n > 0) err = weights_options_check(o, &groups[GROUP_WEIGHTS]);
    if (err == ERR_OK && n > 0) err = inference_check(o, groups, N_GROUPS);
    if (err == ERR_OK) loader_apply_limits(&o->loader);
    const bool only_checks = err == ERR_OK && n > 1 && cmd_only_checks();
    if (err == ERR_OK && !only_checks) err = list_images(words, n, &list);
    if (err == ERR_OK && !only_checks) {
        runtime_t runtime;
        err = runtime_open(&options.runtime, context->abort_job, &runtime);
        o->timeout_sec = options.runtime.timeout_sec;
        o->canvas_given = groups[GROUP_CANVAS].given;
        if (err == ERR_OK) err = inference_run(&runtime, o, groups, N_GROUPS);
        err = runtime_close(&runtime, err);
    } else {
        cmd_fail(err);
    }
    image_list_free(&list);
    mem_free(&words);
    return err;
}
