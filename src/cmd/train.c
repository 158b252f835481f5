/* SPDX-License-Identifier: MIT */
/* `dptrain train`: parses options and the config file. The run itself is train/start/train.c. */
#include "train/start/train.h"
#include "train/start/options.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "data/dataset/dataset.h"

static err_t parse_options(const cmd_context_t *context, train_options_t *options, char **storage)
{
    TRY(opt_parse(options->groups, TRAIN_N_GROUPS, context->argc, context->argv, NULL, 0, NULL));
    for (int g = 0; g < TRAIN_N_GROUPS; g++) options->typed[g] = options->groups[g].given;
    const bool old_flip = train_options_given(options, "augment-flip");
    if (old_flip && train_options_given(options, "flip"))
        RAISE(ERR_USAGE, "--augment-flip is an earlier name of --flip; give one of them");
    TRY(train_options_read_config(options, storage));
    TRY(console_apply(&options->console));
    TRY(dataset_check_name(options->data));
    if (old_flip)
        log_warn("--augment-flip is an earlier name of --flip, which flips images of any data");
    else if (train_options_given(options, "augment-flip"))
        log_warn(
            "%s: augment-flip is an earlier name of flip; with neither line the data decides: images of any size are "
            "flipped, IDX files and digits are not",
            options->config);
    return train_options_check(options);
}

static err_t print_config(const train_options_t *options)
{
    const char *without[] = {"config", "print-config", "preview", "augment-flip", NULL, NULL};
    char *text;
    /* By default it depends on the data. */
    if (strcmp(transform_flip(&options->transform), "auto") == 0) without[4] = "flip";
    TRY(opt_config_write(options->groups, train_options_groups(options), without, &text));
    if (log_speaks()) fputs(text, stdout);
    mem_free(&text);
    return ERR_OK;
}

static const char usage[] = "usage: [mpirun -np N] dptrain train [options]\n"
                            "\n"
                            "Trains a model, data-parallel over N ranks. Without options: LeNet-5 on MNIST,\n"
                            "or on built-in digits if MNIST is not found.\n"
                            "\f\n"
                            "Exit codes: 1 training diverged, or a --target was not reached; 5 a rank\n"
                            "was lost: continue with --resume auto.\n";

err_t cmd_train(const cmd_context_t *context)
{
    train_options_t options;
    char *storage = NULL;
    err_t err = train_options_bind(&options);
    if (err == ERR_OK && cmd_wants_help(context, usage, options.groups, TRAIN_N_GROUPS, &err)) return err;
    if (err == ERR_OK) err = parse_options(context, &options, &storage);
    if (err == ERR_OK && options.print_config)
        err = print_config(&options);
    else if (err != ERR_OK)
        cmd_fail(err);
    else if (!cmd_only_checks())
        err = train_run(&options, context->abort_job);
    mem_free(&storage);
    return err;
}
