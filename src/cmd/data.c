/* SPDX-License-Identifier: MIT */
/* `dptrain data`: synth, pack, verify and show. Options only; the work is done by data/dataset, tools/pack and data/show. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "cluster/session/runtime.h"
#include "cmd/cmd.h"
#include "data/dataset/dataset.h"
#include "data/dataset/synth.h"
#include "data/image/image.h"
#include "data/show/sheet.h"
#include "data/show/show.h"
#include "text/figure.h"
#include "text/progress.h"
#include "tools/pack/pack.h"

/* The option --timeout; offset: of a double. */
#define DATA_TIMEOUT_ROW(offset)                                                                             \
    {                                                                                                        \
        "timeout", OPT_REAL, offset, "300", 1, 86400, NULL, "SEC",                                           \
            "deadline of every wait for another rank, in seconds", OPT_COMMON                                \
    }

/* The option --threads; offset: of an int64_t. */
#define DATA_THREADS_ROW(offset)                                                                             \
    {                                                                                                        \
        "threads", OPT_INT, offset, "0", 0, 1024, NULL, "N",                                                 \
            "threads per rank that decode images; 0: the host's CPUs, divided among its ranks", OPT_MORE     \
    }

/* Collective. Opens a communicator over all ranks. Close it with runtime_close. */
static err_t data_open_comm(const cmd_context_t *context, double timeout_sec, runtime_t *out)
{
    runtime_options_t options = {0};
    opt_group_t groups[] = {{"", runtime_option_table, n_runtime_options, &options, 0},
                            {"", gpu_option_table, n_gpu_options, &options, 0}};
    *out = (runtime_t){0};
    TRY(opt_defaults(groups, 2));
    options.timeout_sec = timeout_sec;
    return runtime_open_comm(&options, context->abort_job, out);
}

/* Digits as IDX files, shapes as a folder of images, or objects with their boxes. Without MPI. */
static const char synth_usage[] =
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
static const opt_t synth_table[] = {
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

static err_t cmd_data_synth(const cmd_context_t *context)
{
    synth_options_t options = {0};
    opt_group_t group = {"Options", synth_table, sizeof synth_table / sizeof synth_table[0], &options, 0};
    const char *words[1];
    int n_words = 0;
    cmd_tell_word(context, "word", "digits", "digits drawn as distorted strokes, with blur and noise");
    cmd_tell_word(context, "word", "shapes", "JPEGs of four shapes, a folder per class");
    cmd_tell_word(context, "word", "objects", "JPEGs with two or three shapes, and a list of their boxes");
    err_t err = opt_defaults(&group, 1);
    if (cmd_wants_help(context, synth_usage, &group, 1, &err)) return err;
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, words, 1, &n_words);
    if (err == ERR_OK && log_speaks()) err = synth(&options, &group, words, n_words);
    return cmd_fail(err);
}

/* Converts a source of images to shards. Collective. */
static const char pack_usage[] =
    "usage: [mpirun -np N] dptrain data pack --from SRC --out DST [options]\n"
    "\n"
    "Packs images and annotations into shards: sealed HDF5 files of about\n"
    "--shard-size each, with index.h5 (all that training reads before the first\n"
    "image) and manifest.json next to them. SRC is a folder with one folder of images\n"
    "per class (optionally below train/ and val/), COCO (train2017/, val2017/,\n"
    "annotations/instances_*.json), MNIST's IDX files, or other shards. Images are\n"
    "copied byte by byte unless --resize is given. Every rank packs its own shards;\n"
    "the files do not depend on the number of ranks.\n"
    "\f\n"
    "To continue an interrupted run, repeat the command: complete shards are verified\n"
    "and kept, the others are written. A DST packed from other samples (names, sizes,\n"
    "annotations), or with another --shard-size, --resize or --quality, is refused\n"
    "without --force. --force is also needed after changing an image without changing\n"
    "its size. Do not run two commands with the same DST at the same time.\n"
    "\n"
    "--resize N: images with a shorter side above N pixels are decoded, scaled down\n"
    "to N, and encoded again in their format (JPEG, PNG), with EXIF orientation\n"
    "applied. Boxes, areas and polygons are scaled, RLE masks resampled (nearest\n"
    "neighbor). Smaller images keep their bytes. manifest.json records the resizing.\n"
    "\n"
    "Before packing, every image is decoded, on all CPUs. Unusable ones (truncated,\n"
    "damaged, missing) are named; with more than --max-bad N of them nothing is\n"
    "packed, otherwise they are left out.\n"
    "\n"
    "Exit codes: 2 usage, or DST holds another packing; 3 SRC is missing or damaged;\n"
    "4 DST cannot be written.\n";

typedef struct pack_command {
    const char *from;
    pack_options_t pack;
    list_rule_options_t list;
    int64_t threads, max_image_pixels, seed;
    double timeout_sec, val_split;
} pack_command_t;

#undef FIELD
#define FIELD(name) offsetof(pack_command_t, name)
static const opt_t pack_table[] = {
    {"from", OPT_STRING, FIELD(from), NULL, 0, 0, NULL, "SRC", "source of the images", OPT_COMMON},
    {"out", OPT_STRING, FIELD(pack.out), NULL, 0, 0, NULL, "DST",
     "output directory of the shards, created if missing", OPT_COMMON},
    {"shard-size", OPT_SIZE, FIELD(pack.shard_bytes), "256M", 1, 1e15, NULL, "SIZE",
     "bytes of images per shard; a larger image gets its own shard", OPT_COMMON},
    {"resize", OPT_INT, FIELD(pack.resize), "0", 0, 4096, NULL, "N",
     "maximum length of the shorter side, in pixels; 0: keep all sizes", OPT_COMMON},
    {"quality", OPT_INT, FIELD(pack.quality), "90", 1, 100, NULL, "N", "JPEG quality of resized images",
     OPT_COMMON},
    {"force", OPT_FLAG, FIELD(pack.force), NULL, 0, 0, NULL, NULL, "delete the shards in DST and pack again",
     OPT_COMMON},
    {"decode", OPT_FLAG, FIELD(pack.decode), "true", 0, 0, NULL, NULL, "decode every image before packing",
     OPT_COMMON},
    {"max-bad", OPT_INT, FIELD(pack.max_bad), "0", 0, 1000000, NULL, "N",
     "maximum number of unusable images to leave out", OPT_COMMON},
    {"val-split", OPT_REAL, FIELD(val_split), "0", 0, HOLDOUT_MAX, NULL, "X",
     "for sources without a validation part: share of each class's images that becomes one, as train --val-split",
     OPT_COMMON},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N", "random seed of --val-split", OPT_COMMON},
    LIST_RULE_ROWS(FIELD(list)),
    DATA_THREADS_ROW(FIELD(threads)),
    IMAGE_PIXELS_ROW(FIELD(max_image_pixels)),
    DATA_TIMEOUT_ROW(FIELD(timeout_sec)),
};

static err_t check_pack_options(const pack_command_t *options, const opt_group_t *group)
{
    if (!options->from) RAISE(ERR_USAGE, "dptrain data pack: --from SRC is required");
    if (!options->pack.out) RAISE(ERR_USAGE, "dptrain data pack: --out DST is required");
    if (opt_given(group, 1, "quality") && options->pack.resize == 0)
        RAISE(ERR_USAGE, "--quality requires --resize: without it images keep their bytes");
    if (!options->pack.decode && options->pack.max_bad > 0)
        RAISE(ERR_USAGE,
              "--max-bad and --no-decode exclude each other: unusable images are found by decoding");
    return ERR_OK;
}

static const opt_when_t pack_whens[] = {
    {"threads", "decode", NULL, NULL},
    {"max-image-pixels", "decoding", "yes", "images that are decoded: --decode or --resize"},
    {"seed", "val-split", NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

/* Collective. */
static err_t pack_source(comm_t *comm, const pack_command_t *options)
{
    static const char opening[] = "opening the source";
    source_t *source = NULL;
    pack_result_t result;
    list_rules_t rules = list_rules(&options->list, options->pack.max_bad);
    rules.holdout = (holdout_t){options->val_split, options->seed, true};
    double begun_sec = clock_sec();
    /* Before the source is opened: a new --out folder inside it would be read as a class. */
    err_t err = comm->rank == 0 ? pack_check_apart(options->from, options->pack.out) : ERR_OK;
    err = comm_agree(comm, err, opening);
    if (err == ERR_OK) err = pack_open(comm, options->from, &rules, opening, &source);
    if (err == ERR_OK) err = pack_run(comm, source, &options->pack, &result);
    if (err == ERR_OK) {
        log_info("packed %s samples (%s of images) into %lld shard%s (%s) in %s, %s",
                 figure_count(result.n_samples).text, figure_bytes((double)result.n_image_bytes).text,
                 (long long)result.n_shards, result.n_shards == 1 ? "" : "s",
                 figure_bytes((double)result.n_bytes).text, options->pack.out,
                 figure_time(clock_sec() - begun_sec).text);
        if (result.n_left_out > 0)
            log_info("%lld image%s left out: see the warnings above", (long long)result.n_left_out,
                     result.n_left_out == 1 ? " was" : "s were");
        if (result.n_kept > 0)
            log_info("%lld of these shards were already complete and were kept", (long long)result.n_kept);
    }
    source_close(&source);
    return err;
}

static err_t cmd_data_pack(const cmd_context_t *context)
{
    pack_command_t options = {0};
    console_options_t console;
    opt_group_t groups[] = {{"Options", pack_table, sizeof pack_table / sizeof pack_table[0], &options, 0},
                            {"Output", console_option_table, n_console_options, &console, 0}};
    runtime_t runtime = {0};
    err_t err = opt_defaults(groups, 2);
    if (cmd_wants_help(context, pack_usage, groups, 2, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, 2, context->argc, context->argv, NULL, 0, NULL);
    if (err == ERR_OK) err = console_apply(&console);
    if (err == ERR_OK) err = check_pack_options(&options, groups);
    if (err != ERR_OK) return cmd_fail(err);
    const bool decodes = options.pack.decode || options.pack.resize > 0;
    const opt_fact_t facts[] = {{"decoding", decodes ? "yes" : "no"}, {NULL, NULL}};
    opt_warn_idle(groups, 2, pack_whens, facts, NULL);
    if (cmd_only_checks()) return ERR_OK;
    options.pack.n_threads = (int)options.threads;
    image_set_max_pixels(options.max_image_pixels);
    err = data_open_comm(context, options.timeout_sec, &runtime);
    if (err == ERR_OK) err = pack_source(runtime.comm, &options);
    return runtime_close(&runtime, err);
}

/* Checks shards or another source for damage and prints each finding. Collective. */
static const char verify_usage[] =
    "usage: [mpirun -np N] dptrain data verify DIR [options]\n"
    "\n"
    "Shards: reads every byte and checks seals, the index against the shards, the\n"
    "hash of every image and annotation, and the manifest against the index. Image\n"
    "folders, COCO, IDX files: reads every image file and checks its headers, with\n"
    "COCO against the annotations. Images of all but IDX files are decoded, on all\n"
    "CPUs, which finds truncated and damaged ones. Ranks share the work. Each\n"
    "defect is printed on one line, which starts with \"not ok\" and names the\n"
    "record, if known.\n"
    "\n"
    "Exit codes: 3 something is damaged or missing; 4 a file could not be read, but\n"
    "trying again may help.\n";

typedef struct verify_command {
    bool decode;
    int64_t threads, max_image_pixels;
    double timeout_sec;
} verify_command_t;

static const opt_t verify_table[] = {
    {"decode", OPT_FLAG, offsetof(verify_command_t, decode), "true", 0, 0, NULL, NULL, "decode every image",
     OPT_COMMON},
    DATA_THREADS_ROW(offsetof(verify_command_t, threads)),
    IMAGE_PIXELS_ROW(offsetof(verify_command_t, max_image_pixels)),
    DATA_TIMEOUT_ROW(offsetof(verify_command_t, timeout_sec)),
};

static const opt_when_t verify_whens[] = {{"max-image-pixels", "decode", NULL, NULL},
                                          {NULL, NULL, NULL, NULL}};

static void print_damage(void *context, const char *what)
{
    (void)context;
    print_out("not ok  %s\n", what);
}

/* Collective. */
static err_t verify_source(comm_t *comm, const char *path, const pack_verify_options_t *options)
{
    pack_verdict_t verdict;
    figure_t size, took;
    double begun_sec = clock_sec();
    log_note("verifying %s", path);
    TRY(pack_verify(comm, path, options, print_damage, NULL, &verdict));
    fflush(stdout);
    size = figure_bytes((double)verdict.n_bytes);
    took = figure_time(clock_sec() - begun_sec);
    if (verdict.n_damaged > 0) {
        const char *advice = "";
        if (verdict.n_unusable == verdict.n_damaged)
            advice =
                "; these images were packed in this state: repair them at the source, or pack again with "
                "--max-bad to leave them out";
        else if (verdict.shards)
            advice =
                "; dptrain data pack from the same source rewrites the damaged shards and keeps the others";
        /* Every rank has the verdict and raises the same error. */
        err_t err = err_raise(ERR_DATA, __FILE__, __LINE__, "%s is damaged: see the %lld line%s above%s",
                              path, (long long)verdict.n_damaged, verdict.n_damaged == 1 ? "" : "s", advice);
        return comm_agree(comm, err, "the verdict");
    }
    const char *decoded = verdict.decoded ? ", every image decoded" : "";
    if (verdict.shards)
        log_info("ok      %s: %s samples in %lld shards, %s: every byte verified%s (%s)", path,
                 figure_count(verdict.n_samples).text, (long long)verdict.n_files, size.text, decoded,
                 took.text);
    else
        log_info(
            "ok      %s: %s images, %s: %s%s (%s)", path, figure_count(verdict.n_samples).text, size.text,
            verdict.annotated ? "all present, with the sizes that the annotations state" : "all readable",
            decoded, took.text);
    return ERR_OK;
}

static err_t cmd_data_verify(const cmd_context_t *context)
{
    verify_command_t options = {0};
    console_options_t console;
    opt_group_t groups[] = {
        {"Options", verify_table, sizeof verify_table / sizeof verify_table[0], &options, 0},
        {"Output", console_option_table, n_console_options, &console, 0}};
    runtime_t runtime = {0};
    const char *words[2];
    int n_words = 0;
    err_t err = opt_defaults(groups, 2);
    if (cmd_wants_help(context, verify_usage, groups, 2, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, 2, context->argc, context->argv, words, 2, &n_words);
    if (err == ERR_OK) err = console_apply(&console);
    if (err == ERR_OK && n_words != 1)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "dptrain data verify: expected one folder");
    if (err != ERR_OK) return cmd_fail(err);
    opt_warn_idle(groups, 2, verify_whens, NULL, NULL);
    if (cmd_only_checks()) return ERR_OK;
    image_set_max_pixels(options.max_image_pixels);
    err = data_open_comm(context, options.timeout_sec, &runtime);
    const pack_verify_options_t verify = {options.decode, (int)options.threads};
    if (err == ERR_OK) err = verify_source(runtime.comm, words[0], &verify);
    return runtime_close(&runtime, err);
}

/* Statistics and a contact sheet of a source of images. Without MPI, in one process. */
static const char show_usage[] =
    "usage: dptrain data show SRC [options]\n"
    "\n"
    "Prints the contents of SRC: images, formats and sizes, objects, crowds,\n"
    "categories. SRC is a folder with one folder of images per class, COCO, IDX\n"
    "files, or shards. Reads the headers of every image; unreadable images are\n"
    "counted and named in warnings (use dptrain data verify to fail on them).\n"
    "--no-read prints only what the index or the annotations contain.\n"
    "\f\n"
    "Widths, heights and bytes refer to the images as stored. Objects are annotations\n"
    "other than crowds: small below an area of 32² pixels, large from 96², as in\n"
    "COCO's evaluation.\n"
    "\n"
    "--out FILE.png draws a contact sheet of --count images chosen by --seed, with\n"
    "EXIF orientation applied, boxes and masks in one color per category (crowds\n"
    "hatched, with dashed boxes), or the class below the image. Images that cannot be\n"
    "decoded get a placeholder. Images appear as stored; dptrain train --preview FILE.png\n"
    "draws them as the model gets them.\n"
    "\n"
    "Exit codes: 2 usage, or no image has --category; 3 SRC is missing, damaged or\n"
    "empty; 4 --out cannot be written, or a file could not be read, but trying again\n"
    "may help.\n";

#undef FIELD
#define FIELD(name) offsetof(show_options_t, name)
static const opt_t show_table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE", "write a contact sheet, a PNG, to FILE",
     OPT_COMMON},
    {"count", OPT_INT, FIELD(count), "24", 1, SHEET_MAX_IMAGES, NULL, "N", "number of images on the sheet",
     OPT_COMMON},
    {"tile", OPT_INT, FIELD(tile), "240", SHEET_MIN_TILE, SHEET_MAX_TILE, NULL, "PIXELS",
     "width of a tile of the sheet", OPT_COMMON},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N", "random seed for choosing images", OPT_COMMON},
    {"category", OPT_STRING, FIELD(category), NULL, 0, 0, NULL, "NAME",
     "draw only images of this class or with an object of it", OPT_COMMON},
    {"top", OPT_INT, FIELD(top), "20", 1, 1e9, NULL, "N", "number of categories in the table", OPT_COMMON},
    {"read", OPT_FLAG, FIELD(read), "true", 0, 0, NULL, NULL, "read every image's headers", OPT_COMMON},
    LIST_RULE_ROWS(FIELD(list)),
};

static err_t check_show_options(const show_options_t *options, const opt_group_t *group, int n_words)
{
    static const char *const of_sheets[] = {"count", "tile", "seed", "category"};
    if (n_words != 1) RAISE(ERR_USAGE, "dptrain data show: expected one folder");
    for (size_t i = 0; !options->out && i < sizeof of_sheets / sizeof *of_sheets; i++)
        if (opt_given(group, 1, of_sheets[i]))
            RAISE(ERR_USAGE, "--%s requires --out FILE.png, the contact sheet", of_sheets[i]);
    if (!options->out) return ERR_OK;
    TRY(sheet_check(options->count, options->tile));
    return fs_check_target(options->out);
}

static err_t cmd_data_show(const cmd_context_t *context)
{
    show_options_t options = {0};
    console_options_t console;
    opt_group_t groups[] = {{"Options", show_table, sizeof show_table / sizeof show_table[0], &options, 0},
                            {"Output", console_option_table, n_console_options, &console, 0}};
    const char *words[2];
    int n_words = 0;
    err_t err = opt_defaults(groups, 2);
    if (cmd_wants_help(context, show_usage, groups, 2, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, 2, context->argc, context->argv, words, 2, &n_words);
    if (err == ERR_OK) err = console_apply(&console);
    if (err == ERR_OK) err = check_show_options(&options, groups, n_words);
    if (err == ERR_OK && log_speaks() && !cmd_only_checks()) err = show_source(words[0], &options);
    return cmd_fail(err);
}

static const cmd_t verbs[] = {
    {"synth", "write digits as IDX files, or shapes as JPEGs", .run = cmd_data_synth},
    {"pack", "pack an image folder, COCO or IDX files into shards", .run = cmd_data_pack},
    {"verify", "verify shards, or images against their annotations", .run = cmd_data_verify},
    {"show", "statistics of images and annotations; a contact sheet", .run = cmd_data_show},
    {.name = NULL},
};

err_t cmd_data(const cmd_context_t *context)
{
    const char *word = context->argc > 0 ? context->argv[0] : "";
    for (const cmd_t *verb = verbs; verb->name; verb++) {
        if (strcmp(word, verb->name) != 0) continue;
        const cmd_context_t rest = cmd_verb(context);
        return verb->run(&rest);
    }
    cmd_context_t first = *context;
    if (!cmd_is_help(word)) first.argc = context->argc > 0;
    char usage[1024];
    size_t used = (size_t)snprintf(usage, sizeof usage, "usage: dptrain data VERB [options]\n\n");
    for (const cmd_t *verb = verbs; verb->name; verb++)
        used += (size_t)snprintf(usage + used, sizeof usage - used, "  %-8s %s\n", verb->name, verb->summary);
    snprintf(usage + used, sizeof usage - used, "\ndptrain data VERB --help lists a verb's options.\n");
    const char *names[sizeof verbs / sizeof verbs[0]];
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) names[i] = verbs[i].name;
    for (int i = 0; names[i]; i++) cmd_tell_word(&first, "verb", names[i], verbs[i].summary);
    err_t err;
    return cmd_wants_help(&first, usage, NULL, 0, &err) ? err
                                                        : cmd_fail(cmd_unknown_verb("data", word, names));
}
