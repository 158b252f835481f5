/* SPDX-License-Identifier: MIT */
/* `dptrain eval`: options of an evaluation. Rebuilding the model and running it are left to
 * train/run/evaluate_checkpoint.c. */
#include <string.h>

#include "base/console.h"
#include "cmd/cmd.h"
#include "train/run/evaluate_checkpoint.h"

typedef struct eval_options {
    evaluate_options_t evaluate;
    const char *split;
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
     "write an image of the worst mistakes to FILE", OPT_COMMON},
    {"worst", OPT_INT, FIELD(evaluate.n_worst), "40", 1, 400, NULL, "N", "number of mistakes in the image",
     OPT_COMMON},
    {"json", OPT_STRING, FIELD(evaluate.json), NULL, 0, 0, NULL, "FILE",
     "also write the result to FILE, in full precision", OPT_COMMON},
};

static const char usage[] = "usage: [mpirun -np N] dptrain eval CHECKPOINT|FOLDER|WEIGHTS.npz [options]\n"
                            "\n"
                            "Evaluates a checkpoint, the newest one in a folder, or weights of another\n"
                            "program (with --model): loss, and accuracy or average precision.\n";

err_t cmd_eval(const cmd_context_t *context)
{
    eval_options_t options = {0};
    opt_group_t groups[] = {
        {"Evaluation", table, sizeof table / sizeof table[0], &options, 0},
        {"Weights (FILE.npz)", weights_option_table, n_weights_options, &options.evaluate.weights, 0},
        {"Data loading", loader_option_table, n_loader_options, &options.evaluate.loader, 0},
        {"Runtime", runtime_option_table, n_runtime_options, &options.runtime, 0},
        {"Output", console_option_table, n_console_options, &options.console, 0},
    };
    enum { N_GROUPS = sizeof groups / sizeof groups[0], GROUP_WEIGHTS = 1 };
    const char *where = NULL;
    int n_words = 0;
    err_t err = opt_defaults(groups, N_GROUPS);
    if (cmd_wants_help(context, usage, groups, N_GROUPS)) return ERR_OK;
    if (err == ERR_OK) err = opt_parse(groups, N_GROUPS, context->argc, context->argv, &where, 1, &n_words);
    if (err == ERR_OK) err = console_apply(&options.console);
    if (err == ERR_OK && n_words == 0)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__,
                        "dptrain eval: expected a checkpoint, a run folder or weights (FILE.npz)");
    if (err == ERR_OK) err = weights_options_check(&options.evaluate.weights, &groups[GROUP_WEIGHTS], where);
    if (err == ERR_OK && !options.evaluate.png && opt_given(groups, N_GROUPS, "worst"))
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "--worst requires --png FILE");
    if (err != ERR_OK) return cmd_fail(err);
    runtime_t runtime;
    err = runtime_open(&options.runtime, context->abort_job, &runtime);
    options.evaluate.split = strcmp(options.split, split_names[SPLIT_TRAIN]) == 0 ? SPLIT_TRAIN : SPLIT_VAL;
    options.evaluate.timeout_sec = options.runtime.timeout_sec;
    options.evaluate.threads_given = options.runtime.threads > 0;
    if (err == ERR_OK) err = evaluate_checkpoint(&runtime, where, &options.evaluate);
    return runtime_close(&runtime, err);
}
