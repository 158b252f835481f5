/* SPDX-License-Identifier: MIT */
/* `dptrain data synth`: writes the built-in digits as IDX files. Runs without MPI. */
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "cmd/data.h"
#include "data/dataset/dataset.h"
#include "data/dataset/digits.h"

static const char usage[] = "usage: dptrain data synth digits --out DIR [options]\n"
                            "\n"
                            "Writes synthetic digits (distorted strokes, blur, noise) in MNIST's format.\n";

typedef struct synth_options {
    const char *out;
    int64_t n_train, n_val, seed;
} synth_options_t;

#define FIELD(name) offsetof(synth_options_t, name)
static const opt_t table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "DIR", "output directory of the four IDX files",
     OPT_COMMON},
    {"train", OPT_INT, FIELD(n_train), "60000", 1, 10000000, NULL, "N", "training samples", OPT_COMMON},
    {"val", OPT_INT, FIELD(n_val), "10000", 1, 10000000, NULL, "N", "validation samples", OPT_COMMON},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N", "random seed", OPT_COMMON},
};

static err_t synth_digits(const synth_options_t *options, const char *const *words, int n_words)
{
    if (n_words != 1 || strcmp(words[0], "digits") != 0)
        RAISE(ERR_USAGE, "dptrain data synth: expected the word digits");
    if (!options->out) RAISE(ERR_USAGE, "dptrain data synth: --out DIR is required");
    if (cmd_only_checks()) return ERR_OK;
    TRY(digits_write(options->out, (uint64_t)options->seed, options->n_train, options->n_val));
    char quoted[FS_PATH_MAX];
    fs_quote(options->out, quoted, sizeof quoted);
    log_info("wrote %lld training and %lld validation digits to %s; train on them with --data %s%s",
             (long long)options->n_train, (long long)options->n_val, options->out,
             dataset_is_built_in(options->out) ? "./" : "", quoted);
    return ERR_OK;
}

err_t cmd_data_synth(const cmd_context_t *context)
{
    synth_options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    const char *words[1];
    int n_words = 0;
    cmd_tell_word(context, "word", "digits", "digits drawn as distorted strokes, with blur and noise");
    err_t err = opt_defaults(&group, 1);
    if (cmd_wants_help(context, usage, &group, 1, &err)) return err;
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, words, 1, &n_words);
    if (err == ERR_OK && log_speaks()) err = synth_digits(&options, words, n_words);
    return cmd_fail(err);
}
