/* SPDX-License-Identifier: MIT */
/* `dptrain data pack`: converts a source of images to shards. Collective. The work is done by tools/pack. */
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"
#include "cmd/data.h"
#include "data/image/image.h"
#include "tools/pack/open.h"
#include "tools/pack/pack.h"
#include "tools/pack/work.h"

static const char usage[] =
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

typedef struct options {
    const char *from;
    pack_options_t pack;
    list_rule_options_t list;
    int64_t threads, max_image_pixels;
    double timeout_sec;
} options_t;

#define FIELD(name) offsetof(options_t, name)
static const opt_t table[] = {
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
    LIST_RULE_ROWS(FIELD(list)),
    DATA_THREADS_ROW(FIELD(threads)),
    IMAGE_PIXELS_ROW(FIELD(max_image_pixels)),
    DATA_TIMEOUT_ROW(FIELD(timeout_sec)),
};

static err_t check_options(const options_t *options, const opt_group_t *group)
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

static const opt_when_t whens[] = {
    {"threads", "decode", NULL, NULL},
    {"max-image-pixels", "decoding", "yes", "images that are decoded: --decode or --resize"},
    {NULL, NULL, NULL, NULL},
};

/* Collective. */
static err_t pack_source(comm_t *comm, const options_t *options)
{
    static const char opening[] = "opening the source";
    source_t *source = NULL;
    pack_result_t result;
    const list_rules_t rules = list_rules(&options->list, options->pack.max_bad);
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

err_t cmd_data_pack(const cmd_context_t *context)
{
    options_t options = {0};
    console_options_t console;
    opt_group_t groups[] = {{"Options", table, sizeof table / sizeof table[0], &options, 0},
                            {"Output", console_option_table, n_console_options, &console, 0}};
    runtime_t runtime = {0};
    err_t err = opt_defaults(groups, 2);
    if (cmd_wants_help(context, usage, groups, 2, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, 2, context->argc, context->argv, NULL, 0, NULL);
    if (err == ERR_OK) err = console_apply(&console);
    if (err == ERR_OK) err = check_options(&options, groups);
    if (err != ERR_OK) return cmd_fail(err);
    const bool decodes = options.pack.decode || options.pack.resize > 0;
    const opt_fact_t facts[] = {{"decoding", decodes ? "yes" : "no"}, {NULL, NULL}};
    opt_warn_idle(groups, 2, whens, facts, NULL);
    if (cmd_only_checks()) return ERR_OK;
    options.pack.n_threads = (int)options.threads;
    image_set_max_pixels(options.max_image_pixels);
    err = data_open_comm(context, options.timeout_sec, &runtime);
    if (err == ERR_OK) err = pack_source(runtime.comm, &options);
    return runtime_close(&runtime, err);
}
