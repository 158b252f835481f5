/* SPDX-License-Identifier: MIT */
/* Collective driver of `dptrain data pack`: each rank writes its own shards, and rank 0 gathers the index.
 * shard_plan.c chooses the shards' boundaries; data/shard defines the file format. */
#include "tools/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/shard/shard.h"
#include "tools/pack/interrupt.h"
#include "tools/pack/leave_out.h"
#include "tools/pack/resize.h"
#include "tools/pack/scan.h"
#include "tools/pack/work.h"

/* A shard's part of the index. */
typedef struct done {
    shard_file_t file;
    shard_entry_t *entries; /* [file.n_samples]; NULL for shards of other ranks */
} done_t;

typedef struct packer {
    comm_t *comm;
    const source_t *source;
    const pack_options_t *options;
    pack_plan_t plan;
    done_t *done; /* [plan.n_shards] */
    pack_resizer_t *resizer;
    source_buffer_t buffer;
    int64_t now, at, n_kept; /* current shard, its next sample; shards kept */
    shard_writer_t *writer;  /* of the current shard; NULL: not begun */
} packer_t;

static err_t compare_sources(comm_t *comm, const pack_plan_t *plan, const source_t *source)
{
    uint64_t first = plan->hash;
    TRY(comm_broadcast(comm, &first, sizeof first, 0, "comparing the data to pack"));
    err_t err = ERR_OK;
    if (first != plan->hash)
        err = err_raise(ERR_DATA, __FILE__, __LINE__, "%s on this host differs from rank 0's", source->path);
    return comm_agree(comm, err, "comparing the data to pack");
}

static err_t make_token(const char *path)
{
    interrupt_removes(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        interrupt_removes(NULL);
        RAISE(ERR_SYSTEM, "cannot create %s: %s", path, strerror(errno));
    }
    close(fd);
    return ERR_OK;
}

/* Verifies that all hosts share the folder: rank 0 briefly creates a file that every rank must see. Its name
 * is new, so that no mount's cache can answer, and looks like a writer's leftover, so that an interrupted run
 * is cleaned up. Collective. */
static err_t compare_folders(comm_t *comm, const char *folder)
{
    static const char what[] = "comparing the folders of the shards";
    char path[FS_PATH_MAX], name[64];
    int64_t id = (int64_t)(1e6 * clock_unix_sec());
    if (comm->size == 1) return ERR_OK;
    TRY(comm_broadcast(comm, &id, sizeof id, 0, what));
    snprintf(name, sizeof name, "." SHARD_INDEX_NAME ".tmp-%" PRId64, id);
    err_t err = fs_join(path, folder, name);
    if (err == ERR_OK && comm->rank == 0) err = make_token(path);
    TRY(comm_agree(comm, err, what));
    if (!fs_exists(path))
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "the folder %s on this host is not rank 0's; choose one that all hosts share, or pack on "
            "one host",
            folder);
    err = comm_agree(comm, err, what);
    if (comm->rank == 0) {
        unlink(path);
        interrupt_removes(NULL);
    }
    return err;
}

static err_t open_packer(packer_t *p)
{
    TRY(mem_new_array(p->plan.n_shards, sizeof *p->done, "packed shards", &p->done));
    p->now = p->comm->rank;
    if (p->options->resize == 0) return ERR_OK;
    return pack_resizer_new(p->options->resize, p->options->quality, &p->resizer);
}

static void close_packer(packer_t *p)
{
    shard_discard(&p->writer);
    interrupt_removes(NULL);
    for (int64_t k = 0; p->done && k < p->plan.n_shards; k++) mem_free(&p->done[k].entries);
    mem_free(&p->done);
    pack_resizer_free(&p->resizer);
    source_free_buffer(p->source, &p->buffer);
    pack_plan_free(&p->plan);
}

/* Keeps the current shard if an earlier run completed it. A damaged one is written again. */
static err_t keep_shard(packer_t *p, bool *kept)
{
    const shard_plan_t *plan = &p->plan.shards[p->now];
    done_t *done = &p->done[p->now];
    *kept = false;
    if (!shard_is_done(plan)) return ERR_OK;
    TRY(mem_new_array(plan->n_samples, sizeof *done->entries, "the records of a shard", &done->entries));
    err_t err = shard_load(plan, &done->file, done->entries);
    *kept = err == ERR_OK;
    p->n_kept += *kept;
    if (err != ERR_DATA) return err;
    mem_free(&done->entries);
    log_warn("rewriting a shard: %s", err_message());
    return ERR_OK;
}

static err_t begin_shard(packer_t *p)
{
    char temp[FS_PATH_MAX];
    TRY(shard_temp_path(&p->plan.shards[p->now], temp));
    interrupt_removes(temp);
    TRY(shard_create(&p->plan.shards[p->now], &p->writer));
    p->at = 0;
    return ERR_OK;
}

static err_t end_shard(packer_t *p)
{
    done_t *done = &p->done[p->now];
    TRY(shard_commit(p->writer));
    interrupt_removes(NULL);
    done->file = *shard_written_file(p->writer);
    int64_t n = done->file.n_samples;
    TRY(mem_new_array(n, sizeof *done->entries, "the records of a shard", &done->entries));
    memcpy(done->entries, shard_written_entries(p->writer), (size_t)n * sizeof *done->entries);
    shard_discard(&p->writer);
    p->now += p->comm->size;
    return ERR_OK;
}

static err_t add_sample(packer_t *p, int64_t *n_done)
{
    const shard_plan_t *plan = &p->plan.shards[p->now];
    split_t split = plan->split;
    int64_t number = plan->first + p->at;
    sample_t sample, small;
    TRY(source_read(p->source, split, number, &p->buffer, &sample));
    if (p->resizer) TRY(pack_resize(p->resizer, &sample, &small));
    TRY(shard_add(p->writer, p->resizer ? &small : &sample));
    *n_done = p->source->entries[split][number].n_bytes;
    p->at++;
    return p->at == plan->n_samples ? end_shard(p) : ERR_OK;
}

/* pack_work_t's step: keeps a whole shard, or packs one sample. */
static err_t pack_step(void *context, int64_t *n_done, bool *finished)
{
    packer_t *p = context;
    bool kept = false;
    *finished = p->now >= p->plan.n_shards;
    if (*finished) return ERR_OK;
    if (p->writer) return add_sample(p, n_done);
    TRY(keep_shard(p, &kept));
    if (!kept) return begin_shard(p);
    *n_done = p->plan.shard_bytes[p->now];
    p->now += p->comm->size;
    return ERR_OK;
}

/* Sends a shard's entries to rank 0, which stores them in the index. Other ranks receive them in `scratch`.
 * Collective. */
static err_t gather_shard(packer_t *p, int64_t k, shard_index_t *index, shard_entry_t *scratch)
{
    const shard_plan_t *plan = &p->plan.shards[k];
    int owner = (int)(k % p->comm->size);
    shard_file_t *file = index ? &index->files[plan->split][plan->number] : &p->done[k].file;
    shard_entry_t *entries = index ? &index->entries[plan->split][plan->first] : scratch;
    int64_t n_bytes = plan->n_samples * (int64_t)sizeof *entries;
    if (owner == p->comm->rank) {
        *file = p->done[k].file;
        memcpy(entries, p->done[k].entries, (size_t)n_bytes);
    }
    TRY(comm_broadcast(p->comm, file, sizeof *file, owner, "gathering the index"));
    return comm_broadcast(p->comm, entries, n_bytes, owner, "gathering the index");
}

static err_t new_index(packer_t *p, shard_index_t **out)
{
    shard_head_t head;
    TRY(pack_plan_head(p->source, p->options, &p->plan, &head));
    TRY(shard_index_new(&head, out));
    for (int32_t c = 0; c < p->source->n_categories; c++) {
        const category_t *from = &p->source->categories[c];
        shard_category_t *to = &(*out)->categories[c];
        to->id = from->id;
        snprintf(to->name, sizeof to->name, "%s", from->name);
        snprintf(to->supergroup, sizeof to->supergroup, "%s", from->supergroup);
    }
    return ERR_OK;
}

static err_t write_index(const shard_index_t *index, const char *folder)
{
    seal_t seal;
    TRY(shard_index_check(index, folder));
    TRY(shard_index_write(index, folder, &seal));
    return shard_manifest_write(index, &seal, folder);
}

/* Collective. */
static err_t gather_index(packer_t *p)
{
    shard_index_t *index = NULL;
    shard_entry_t *scratch = NULL;
    int64_t most = 0;
    for (int64_t k = 0; k < p->plan.n_shards; k++)
        if (p->plan.shards[k].n_samples > most) most = p->plan.shards[k].n_samples;
    err_t err = p->comm->rank == 0 ? new_index(p, &index)
                                   : mem_new_array(most, sizeof *scratch, "the records of a shard", &scratch);
    TRY_OUT(err, comm_agree(p->comm, err, "gathering the index"));
    for (int64_t k = 0; k < p->plan.n_shards; k++) TRY_OUT(err, gather_shard(p, k, index, scratch));
    err = comm_agree(p->comm, index ? write_index(index, p->options->out) : ERR_OK, "writing the index");
out:
    shard_index_free(&index);
    mem_free(&scratch);
    return err;
}

/* Sums the ranks' results. Collective. */
static err_t sum_up(packer_t *p, pack_result_t *out)
{
    int64_t sums[3] = {p->n_kept, 0, 0};
    for (int64_t k = p->comm->rank; k < p->plan.n_shards; k += p->comm->size) {
        sums[1] += p->done[k].file.n_bytes;
        for (int64_t i = 0; i < p->done[k].file.n_samples; i++) sums[2] += p->done[k].entries[i].n_bytes;
    }
    TRY(comm_allreduce(p->comm, sums, 3, DTYPE_I64, COMM_SUM, "summing up the packed shards"));
    *out = (pack_result_t){
        .n_image_bytes = sums[2], .n_shards = p->plan.n_shards, .n_kept = sums[0], .n_bytes = sums[1]};
    for (int s = 0; s < SPLIT_COUNT; s++) out->n_samples += p->source->n_samples[s];
    return ERR_OK;
}

static void warn_bad(void *context, const char *what)
{
    (void)context;
    log_warn("%s", what);
}

static err_t judge_bad(const source_t *source, const pack_options_t *options, int64_t n_bad)
{
    if (n_bad <= options->max_bad) return ERR_OK;
    RAISE(
        ERR_DATA,
        "%s: %lld image%s cannot be used, see above; repair or remove them, leave them out with --max-bad %lld, "
        "or pack them unchecked with --no-decode",
        source->path, (long long)n_bad, n_bad == 1 ? "" : "s", (long long)n_bad);
}

/* Decodes every image. Sets *rest to the source without the unusable ones, NULL if there are none.
 * Collective. */
static err_t find_bad(comm_t *comm, const source_t *source, const pack_options_t *options, source_t **rest)
{
    findings_t findings = {NULL};
    int64_t *samples = NULL, n_bad;
    scan_options_t scan = {.label = "decoding",
                           .source = source,
                           .path = source->path,
                           .n_samples = source->n_samples,
                           .decode = true,
                           .n_threads = options->n_threads};
    err_t err;
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int64_t i = 0; i < source->n_samples[s]; i++) scan.n_bytes += source->entries[s][i].n_bytes;
    TRY_OUT(err, scan_run(comm, &scan, &findings));
    TRY_OUT(err, findings_tell(comm, &findings, warn_bad, NULL, &n_bad));
    TRY_OUT(err, comm_agree(comm, judge_bad(source, options, n_bad), "the verdict"));
    if (n_bad == 0) goto out;
    TRY_OUT(err, findings_samples(comm, &findings, &samples, &n_bad));
    err = comm_agree(comm, leave_out_open(source, samples, n_bad, rest), "leaving out images");
out:
    findings_free(&findings);
    mem_free(&samples);
    return err;
}

static int64_t count_samples(const source_t *source)
{
    return source->n_samples[SPLIT_TRAIN] + source->n_samples[SPLIT_VAL];
}

static err_t pack_all(comm_t *comm, const source_t *source, const pack_options_t *options, pack_result_t *out)
{
    packer_t p = {.comm = comm, .source = source, .options = options};
    err_t err;
    TRY_OUT(err, comm_agree(comm, pack_plan_make(source, options, &p.plan), "planning the shards"));
    TRY_OUT(err, compare_sources(comm, &p.plan, source));
    err = comm->rank == 0 ? pack_prepare(source, options, &p.plan) : ERR_OK;
    TRY_OUT(err, comm_agree(comm, err, "preparing the folder"));
    TRY_OUT(err, comm_agree(comm, open_packer(&p), "start-up"));
    const pack_work_t work = {"packing", p.plan.n_bytes, &p, pack_step};
    TRY_OUT(err, pack_work_run(comm, &work));
    TRY_OUT(err, sum_up(&p, out));
    err = gather_index(&p);
out:
    close_packer(&p);
    return err;
}

/* On rank 0. Refuses a folder before the images are decoded, where it is known what will be packed. */
static err_t prepare_early(const source_t *source, const pack_options_t *options)
{
    pack_plan_t plan;
    TRY(pack_prepare_folder(source, options));
    if (options->max_bad > 0 || options->force) return ERR_OK;
    err_t err = pack_plan_make(source, options, &plan);
    if (err == ERR_OK) err = pack_prepare(source, options, &plan);
    pack_plan_free(&plan);
    return err;
}

err_t pack_run(comm_t *comm, const source_t *source, const pack_options_t *options, pack_result_t *out)
{
    source_t *rest = NULL;
    int n_line;
    for (const char *next = source->about, *line; (line = print_next_line(&next, &n_line));)
        log_info("packing %s: %.*s", source->path, n_line, line);
    source_warn_notes(source);
    err_t err = comm->rank == 0 ? prepare_early(source, options) : ERR_OK;
    TRY(comm_agree(comm, err, "preparing the folder"));
    TRY(compare_folders(comm, options->out));
    if (options->decode && scan_can_decode(source)) TRY(find_bad(comm, source, options, &rest));
    err = pack_all(comm, rest ? rest : source, options, out);
    if (rest) out->n_left_out = count_samples(source) - count_samples(rest);
    source_close(&rest);
    return err;
}
