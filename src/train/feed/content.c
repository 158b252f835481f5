/* SPDX-License-Identifier: MIT */
/* Exchanges hashes of image files between all ranks. One reduction finds the largest and the smallest hash of a
 * file, which differ if two ranks read different bytes. */
#include "train/feed/content.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/dataset/content_file.h"

static const char what[] = "comparing the contents of files";

enum { CHUNK = 8192, N_PROBES = 64 };

err_t content_name_hosts(comm_t *comm, content_t *content)
{
    const topo_t *topo = &comm->topo;
    content->who = topo->host < CONTENT_MAX_HOST ? topo->host + 1 : CONTENT_MAX_HOST;
    TRY(comm_agree(comm, mem_new_array(topo->n_hosts, CONTENT_HOST_MAX, what, &content->hosts), what));
    for (int r = 0; r < comm->size; r++)
        memcpy(content->hosts[comm->places[r].host_index], comm->places[r].host, CONTENT_HOST_MAX - 1);
    content->n_hosts = topo->n_hosts;
    return ERR_OK;
}

static void take_cache(const dataset_t *dataset)
{
    char path[FS_PATH_MAX];
    if (content_cache_path(dataset->info.source, path) != ERR_OK) return;
    if (content_file_read(dataset->content, path, CONTENT_CACHE) != ERR_OK)
        log_warn("hashes of files are ignored: %s", err_message());
}

err_t content_begin(comm_t *comm, const dataset_t *dataset)
{
    bool any;
    if (!dataset->content) return ERR_OK;
    TRY(content_name_hosts(comm, dataset->content));
    if (comm->rank == 0) take_cache(dataset);
    return content_merge(comm, dataset->content, &any);
}

/* Local ranks share the work. */
static err_t probe_files(const comm_t *comm, const dataset_t *dataset, corrupt_samples_t *bad)
{
    const content_t *content = dataset->content;
    const int64_t n = content->n[SPLIT_TRAIN] + content->n[SPLIT_VAL];
    dataset_reader_t reader = {0};
    err_t err = dataset_reader_open(dataset, &reader);
    for (int64_t i = comm->topo.local_rank; err == ERR_OK && i < N_PROBES && i < n;
         i += comm->topo.local_size) {
        int64_t index;
        const int64_t at = n < N_PROBES ? i : (int64_t)((double)n / N_PROBES * (double)i);
        const split_t split = content_place(content, at, &index);
        err = dataset->ops->note(&reader, split, index);
        if (err == ERR_DATA) err = bad_add(bad, split, index, CORRUPT_REPLACED);
    }
    dataset_reader_close(&reader);
    return err;
}

err_t content_probe(comm_t *comm, const dataset_t *dataset, corrupt_samples_t *bad)
{
    bool any;
    if (!dataset->content || comm->topo.n_hosts < 2) return ERR_OK;
    TRY(comm_agree(comm, probe_files(comm, dataset, bad), what));
    return content_merge(comm, dataset->content, &any);
}

/* The order of hashes is the opposite one. */
static content_entry_t inverse(content_entry_t entry)
{
    return entry ? (content_entry_t)(~content_hash(entry) << (CONTENT_WHO_BITS + 1) >> 1) | content_who(entry)
                 : 0;
}

/* *first keeps the first difference as an error. */
static err_t merge_chunk(comm_t *comm, content_t *content, split_t split, int64_t from, err_info_t *first)
{
    content_entry_t both[2][CHUNK];
    const int64_t n_left = content->n[split] - from, n = n_left < CHUNK ? n_left : CHUNK;
    for (int64_t i = 0; i < CHUNK; i++) {
        both[0][i] = i < n ? content_get(content, split, from + i) : 0;
        both[1][i] = inverse(both[0][i]);
    }
    TRY(comm_allreduce(comm, both, 2 * CHUNK, DTYPE_I64, COMM_MAX, what));
    for (int64_t i = 0; i < n; i++) {
        const content_entry_t high = both[0][i], low = inverse(both[1][i]);
        if (!high) continue;
        if (content_hash(high) == content_hash(low))
            content_learn(content, split, from + i, high);
        else if (content->n_differ++ == 0)
            err_take(content_raise(content, split, from + i, high, low), first);
    }
    return ERR_OK;
}

err_t content_merge(comm_t *comm, content_t *content, bool *any)
{
    err_info_t first = {.code = ERR_OK};
    *any = false;
    if (!content) return ERR_OK;
    int64_t n_new = atomic_exchange(&content->n_new, 0);
    TRY(comm_allreduce(comm, &n_new, 1, DTYPE_I64, COMM_SUM, what));
    *any = n_new > 0;
    content->n_differ = 0;
    for (split_t split = 0; n_new > 0 && comm->size > 1 && split < SPLIT_COUNT; split++)
        for (int64_t from = 0; from < content->n[split]; from += CHUNK)
            TRY(merge_chunk(comm, content, split, from, &first));
    return comm_agree(comm, err_put(&first), what);
}

void content_keep(const comm_t *comm, const dataset_t *dataset)
{
    char path[FS_PATH_MAX];
    if (!dataset->content || comm->rank != 0 || content_cache_path(dataset->info.source, path) != ERR_OK)
        return;
    if (content_file_write(dataset->content, path, CONTENT_CACHE) != ERR_OK)
        log_warn("hashes of files are not kept: %s", err_message());
}
