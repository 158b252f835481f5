/* SPDX-License-Identifier: MIT */
/* `dptrain checkpoint`: show, verify, compare and export. One process does the work, without MPI. */
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "store/checkpoint/show.h"
#include "train/weights/model_file.h"

static const char usage[] =
    "usage: dptrain checkpoint show CHECKPOINT|FOLDER\n"
    "       dptrain checkpoint verify CHECKPOINT|FOLDER…\n"
    "       dptrain checkpoint compare CHECKPOINT|FOLDER CHECKPOINT|FOLDER\n"
    "                                                   [--within X]\n"
    "       dptrain checkpoint export CHECKPOINT|FOLDER --out FILE [--names TABLE]\n"
    "\n"
    "  show     prints the contents of a checkpoint, or of the newest one of FOLDER;\n"
    "           FOLDER/best: the one with the best validation\n"
    "  verify   reads every byte of files and folders; exit code 3 if one is damaged\n"
    "  compare  prints the arrays in which two checkpoints of a step differ most;\n"
    "           exit code 1 beyond --within\n"
    "  export   writes the weights for other programs, with the names of classes\n";

typedef struct checkpoint_options {
    const char *out, *names;
    double within;
} checkpoint_options_t;

#define FIELD(name) offsetof(checkpoint_options_t, name)
static const opt_t table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE",
     "export: output file: .npz, .safetensors, .h5, or .onnx for the network, too", OPT_COMMON},
    {"names", OPT_STRING, FIELD(names), "torchvision", 0, 0, NULL, "TABLE",
     "export: parameter names and layout: torchvision, detectron2, tensorpack, huggingface, dptrain, or a file of rules",
     OPT_COMMON},
    {"within", OPT_REAL, FIELD(within), "1e-5", 0, 1e300, NULL, "X",
     "compare: largest difference allowed, relative to the largest element of an array; 0: equal",
     OPT_COMMON},
};

static const char *const verbs[] = {"show", "verify", "compare", "export", NULL};

static err_t run_verb(const char *const *args, int n, const opt_group_t *group)
{
    const checkpoint_options_t *options = group->values;
    const char *verb = n > 0 ? args[0] : "";
    const bool is_export = strcmp(verb, "export") == 0, is_compare = strcmp(verb, "compare") == 0;
    if (!is_export && (opt_given(group, 1, "out") || opt_given(group, 1, "names")))
        RAISE(ERR_USAGE, "--out and --names apply only to dptrain checkpoint export");
    if (!is_compare && opt_given(group, 1, "within"))
        RAISE(ERR_USAGE, "--within applies only to dptrain checkpoint compare");
    if (is_export) {
        if (n != 2 || !options->out)
            RAISE(ERR_USAGE,
                  "dptrain checkpoint export: expected one checkpoint or run folder, and --out FILE");
        return model_file_export(args[1], options->out, options->names);
    }
    if (is_compare) {
        if (n != 3) RAISE(ERR_USAGE, "dptrain checkpoint compare: expected two checkpoints or run folders");
        char a[FS_PATH_MAX], b[FS_PATH_MAX];
        TRY(model_file_locate(args[1], a, NULL));
        TRY(model_file_locate(args[2], b, NULL));
        return checkpoint_compare(a, b, options->within);
    }
    if (strcmp(verb, "show") == 0) {
        if (n != 2) RAISE(ERR_USAGE, "dptrain checkpoint show: expected one checkpoint or run folder");
        char path[FS_PATH_MAX];
        TRY(model_file_locate(args[1], path, NULL));
        return checkpoint_show(path);
    }
    if (strcmp(verb, "verify") == 0) {
        if (n < 2) RAISE(ERR_USAGE, "dptrain checkpoint verify: expected checkpoints or run folders");
        return checkpoint_verify_all(args + 1, n - 1);
    }
    return cmd_unknown_verb("checkpoint", verb, verbs);
}

err_t cmd_checkpoint(const cmd_context_t *context)
{
    const char **args = NULL;
    int n = 0;
    checkpoint_options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    err_t err = opt_defaults(&group, 1);
    for (int i = 0; verbs[i]; i++) cmd_tell_word(context, "word", verbs[i], "");
    if (cmd_wants_help(context, usage, &group, 1, &err)) return err;
    if (err == ERR_OK)
        err = mem_new_array(context->argc + 1, sizeof *args, "words of the command line", &args);
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, args, context->argc, &n);
    if (err == ERR_OK && log_speaks()) err = run_verb(args, n, &group);
    mem_free(&args);
    return cmd_fail(err);
}
