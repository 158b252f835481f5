/* SPDX-License-Identifier: MIT */
/* `dptrain data pack`: converts a source of images to shards. Collective. The work is done by tools/pack. */
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "cmd/data.h"
#include "tools/pack/open.h"
#include "tools/pack/pack.h"
#include "tools/pack/work.h"

static const char usage[] =
    "usage: [mpirun -np N] dptrain data pack --from SRC --out DST [options]\n\n"
    "Packs pictures and their annotations into shards: sealed HDF5 files of about --shard-size each,\n"
    "with index.h5 (all that training reads before the first picture) and manifest.json beside them.\n"
    "SRC is a folder with a folder of pictures for each class (train/ and val/ above them, where\n"
    "there are both), COCO (train2017/, val2017/, annotations/instances_*.json), MNIST's IDX files,\n"
    "or other shards. Pictures keep their bytes, unless --resize says otherwise. Every rank packs its\n"
    "own shards; the files are the same on any number of ranks.\n\n"
    "A packing that was cut off goes on when it is started again: shards of the same packing are\n"
    "verified and kept, others are written. The same packing: the same samples (names, sizes,\n"
    "annotations), and the same --shard-size, --resize and --quality. A picture that was changed\n"
    "without changing its size is not noticed: give --force. A DST with another packing in it is\n"
    "refused without --force. Do not start two packings into one folder at a time.\n\n"
    "--resize N: pictures whose shorter side is longer than N pixels are decoded, reduced so that it\n"
    "is N, and encoded again, JPEG as JPEG and PNG as PNG, turned as EXIF says. Boxes, areas and\n"
    "polygons are scaled, run-length masks sampled anew at the nearest pixel. No picture grows, and\n"
    "those that need not shrink keep their bytes. manifest.json says that it was done.\n\n"
    "Exit codes: 2 options, or DST is not for this packing; 3 SRC is missing or damaged, which the\n"
    "message names; 4 DST cannot be written.\n";

typedef struct options {
    const char *from;
    pack_options_t pack;
    double timeout_sec;
} options_t;

#define FIELD(name) offsetof(options_t, name)
static const opt_t table[] = {
    {"from", OPT_STRING, FIELD(from), NULL, 0, 0, NULL, "SRC", "what to pack", false},
    {"out", OPT_STRING, FIELD(pack.out), NULL, 0, 0, NULL, "DST", "folder for the shards; made where absent",
     false},
    {"shard-size", OPT_SIZE, FIELD(pack.shard_bytes), "256M", 1, 1e15, NULL, "SIZE",
     "of pictures in a shard; one that is larger has its own", false},
    {"resize", OPT_INT, FIELD(pack.resize), "0", 0, 4096, NULL, "N", "shorter side in pixels; 0: as they are",
     false},
    {"quality", OPT_INT, FIELD(pack.quality), "90", 1, 100, NULL, "N", "of JPEGs that --resize makes", false},
    {"force", OPT_FLAG, FIELD(pack.force), NULL, 0, 0, NULL, NULL, "delete the shards in DST and pack anew",
     false},
    DATA_TIMEOUT_ROW(FIELD(timeout_sec)),
};

static err_t check_options(const options_t *options, const opt_group_t *group)
{
    if (!options->from) RAISE(ERR_USAGE, "dptrain data pack wants --from SRC, what to pack");
    if (!options->pack.out) RAISE(ERR_USAGE, "dptrain data pack wants --out DST, the folder for the shards");
    if (opt_given(group, 1, "quality") && options->pack.resize == 0)
        RAISE(ERR_USAGE, "--quality is of what --resize makes; without it pictures keep their bytes");
    return ERR_OK;
}

/* Collective. */
static err_t run(comm_t *comm, const options_t *options)
{
    static const char opening[] = "opening what is to be packed";
    source_t *source = NULL;
    pack_result_t result;
    double begun_sec = clock_sec();
    /* Before the source is opened: a folder that was made for the shards may keep it from being read. */
    err_t err = comm->rank == 0 ? pack_check_apart(options->from, options->pack.out) : ERR_OK;
    err = comm_agree(comm, err, opening);
    if (err == ERR_OK) err = pack_open(comm, options->from, opening, &source);
    if (err == ERR_OK) err = pack_run(comm, source, &options->pack, &result);
    if (err == ERR_OK) {
        log_info("packed %s samples (%s of pictures) into %lld shards (%s) in %s, %s",
                 figure_count(result.n_samples).text, figure_bytes((double)result.n_picture_bytes).text,
                 (long long)result.n_shards, figure_bytes((double)result.n_bytes).text, options->pack.out,
                 figure_time(clock_sec() - begun_sec).text);
        if (result.n_kept > 0)
            log_info("%lld of the shards were there already, and whole", (long long)result.n_kept);
    }
    source_close(&source);
    return err;
}

err_t cmd_data_pack(const cmd_context_t *context)
{
    options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    runtime_t runtime = {0};
    if (cmd_wants_help(context, usage, &group, 1)) return ERR_OK;
    err_t err = opt_defaults(&group, 1);
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, NULL, 0, NULL);
    if (err == ERR_OK) err = check_options(&options, &group);
    if (err != ERR_OK) return cmd_fail(err);
    err = data_open_comm(context, options.timeout_sec, &runtime);
    if (err == ERR_OK) err = run(runtime.comm, &options);
    return runtime_close(&runtime, err);
}
