/* SPDX-License-Identifier: MIT */
/* `dptrain data synth`: writes the built-in digits as IDX files, shapes as a folder of images, or objects with their
 * boxes. Runs without MPI. */
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "cmd/data.h"
#include "data/dataset/dataset.h"
#include "data/dataset/synth.h"

static const char usage[] =
    "usage: dptrain data synth digits|shapes|objects --out DIR [options]\n"
    "\n"
    "Writes synthetic images.\n"
    "\n"
    "  digits   distorted strokes, blur, noise, in MNIST's format\n"
    "  shapes   circles, crosses, squares and triangles as JPEGs of several sizes, a\n"
    "           folder per class: stand-ins for photographs. In train/ and val/; with\n"
    "           --val 0 the folders of classes are directly in DIR\n"
    "  objects  two or three of these in an image, with their boxes and polygons as a\n"
    "           labelling tool exports them: images/ and result.json. No --val\n";

typedef struct synth_options {
    const char *out;
    int64_t n_train, n_val, seed;
} synth_options_t;

#define FIELD(name) offsetof(synth_options_t, name)
static const opt_t table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "DIR", "output directory", OPT_COMMON},
    {"train", OPT_INT, FIELD(n_train), "60000", 1, 10000000, NULL, "N",
     "training samples; default for shapes: 400, for objects: 10", OPT_COMMON},
    {"val", OPT_INT, FIELD(n_val), "10000", 0, 10000000, NULL, "N",
     "validation samples; default for shapes: 100, for objects: 0", OPT_COMMON},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N", "random seed", OPT_COMMON},
};

static err_t synth(synth_options_t *o, const opt_group_t *group, const char *const *words, int n_words)
{
    const bool shapes = n_words == 1 && strcmp(words[0], "shapes") == 0,
               objects = n_words == 1 && strcmp(words[0], "objects") == 0;
    if (n_words != 1 || (!shapes && !objects && strcmp(words[0], "digits") != 0))
        RAISE(ERR_USAGE, "dptrain data synth: expected one of the words digits, shapes, objects");
    if (!o->out) RAISE(ERR_USAGE, "dptrain data synth: --out DIR is required");
    if (shapes && !opt_given(group, 1, "train")) o->n_train = SHAPES_TRAIN;
    if (shapes && !opt_given(group, 1, "val")) o->n_val = SHAPES_VAL;
    if (objects && !opt_given(group, 1, "train")) o->n_train = OBJECTS_TRAIN;
    if (objects && !opt_given(group, 1, "val")) o->n_val = 0;
    if (objects && o->n_val > 0)
        RAISE(ERR_USAGE, "--val %lld: objects have no validation images; write a second folder with --seed 2",
              (long long)o->n_val);
    if (cmd_only_checks()) return ERR_OK;
    if (objects)
        TRY(objects_write(o->out, (uint64_t)o->seed, o->n_train));
    else
        TRY((shapes ? shapes_write : digits_write)(o->out, (uint64_t)o->seed, o->n_train, o->n_val));
    char quoted[FS_PATH_MAX];
    fs_quote(o->out, quoted, sizeof quoted);
    log_info("wrote %lld training and %lld validation %s to %s; train on them with --data %s%s",
             (long long)o->n_train, (long long)o->n_val, words[0], o->out,
             dataset_is_built_in(o->out) ? "./" : "", quoted);
    return ERR_OK;
}

err_t cmd_data_synth(const cmd_context_t *context)
{
    synth_options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    const char *words[1];
    int n_words = 0;
    cmd_tell_word(context, "word", "digits", "digits drawn as distorted strokes, with blur and noise");
    cmd_tell_word(context, "word", "shapes", "JPEGs of four shapes, a folder per class");
    cmd_tell_word(context, "word", "objects", "JPEGs with two or three shapes, and a list of their boxes");
    err_t err = opt_defaults(&group, 1);
    if (cmd_wants_help(context, usage, &group, 1, &err)) return err;
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, words, 1, &n_words);
    if (err == ERR_OK && log_speaks()) err = synth(&options, &group, words, n_words);
    return cmd_fail(err);
}
