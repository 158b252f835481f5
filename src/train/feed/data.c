/* SPDX-License-Identifier: MIT */
/* Exchanges hashes of image files and newly found corrupt samples between all ranks, opens datasets on rank 0 and
 * shares them, so that folders are listed once, and tries an image of each kind. All other images are left to the
 * loader. */
#include "train/feed/data.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "data/dataset/content.h"
#include "text/progress.h"

static const char comparing[] = "comparing the contents of files";

enum { CHUNK = 8192, N_PROBES = 64 };

err_t content_name_hosts(comm_t *comm, content_t *content)
{
    const topo_t *topo = &comm->topo;
    content->who = topo->host < CONTENT_MAX_HOST ? topo->host + 1 : CONTENT_MAX_HOST;
    TRY(comm_agree(comm, mem_new_array(topo->n_hosts, CONTENT_HOST_MAX, comparing, &content->hosts),
                   comparing));
    for (int r = 0; r < comm->size; r++)
        memcpy(content->hosts[comm->places[r].host_index], comm->places[r].host, CONTENT_HOST_MAX - 1);
    content->n_hosts = topo->n_hosts;
    return ERR_OK;
}

err_t content_probe(comm_t *comm, const dataset_t *dataset, corrupt_samples_t *bad)
{
    bool any;
    if (!dataset->content || comm->topo.n_hosts < 2) return ERR_OK;
    /* Local ranks share the work. */
    const content_t *content = dataset->content;
    const int64_t n = content->n[SPLIT_TRAIN] + content->n[SPLIT_VAL];
    dataset_reader_t reader = {0};
    err_t err = dataset_reader_open(dataset, &reader);
    for (int64_t i = comm->topo.local_rank; err == ERR_OK && i < N_PROBES && i < n;
         i += comm->topo.local_size) {
        int64_t index;
        const int64_t at = n < N_PROBES ? i : (int64_t)((double)n / N_PROBES * (double)i);
        const split_t split = content_place(content, at, &index);
        err = dataset_note(&reader, split, index);
        if (err == ERR_DATA) err = bad_add(bad, split, index, CORRUPT_REPLACED);
    }
    dataset_reader_close(&reader);
    TRY(comm_agree(comm, err, comparing));
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
    TRY(comm_allreduce(comm, both, 2 * CHUNK, DTYPE_I64, COMM_MAX, comparing));
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
    TRY(comm_allreduce(comm, &n_new, 1, DTYPE_I64, COMM_SUM, comparing));
    *any = n_new > 0;
    content->n_differ = 0;
    for (split_t split = 0; n_new > 0 && comm->size > 1 && split < SPLIT_COUNT; split++)
        for (int64_t from = 0; from < content->n[split]; from += CHUNK)
            TRY(merge_chunk(comm, content, split, from, &first));
    return comm_agree(comm, err_put(&first), comparing);
}

void content_keep(const comm_t *comm, const dataset_t *dataset)
{
    char path[FS_PATH_MAX];
    if (!dataset->content || comm->rank != 0 || content_cache_path(dataset->info.source, path) != ERR_OK)
        return;
    if (content_file_write(dataset->content, path, CONTENT_CACHE) != ERR_OK)
        log_warn("hashes of files are not kept: %s", err_message());
}

static const char sharing[] = "sharing corrupt samples";

/* Adds one rank's sample. *error keeps the first error. */
static void add_sample(corrupt_samples_t *bad, const corrupt_sample_t *sample, err_info_t *error)
{
    bool is_new = false;
    err_t err = bad_take(bad, sample, &is_new);
    if (err != ERR_OK && error->code == ERR_OK) err_take(err, error);
    if (!is_new || err != ERR_OK) return;
    progress_clear_line();
    log_warn("%s; %s", sample->reason, corrupt_fates[sample->fate]);
}

err_t corrupt_samples_share(comm_t *comm, corrupt_samples_t *bad)
{
    corrupt_sample_t *all = NULL;
    err_info_t error = {.code = ERR_OK};
    err_t err = ERR_OK;
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, sharing, &all), sharing));
    /* Exchanges one sample per rank at a time until no rank has more; they are few. */
    for (bool more = true; more;) {
        const corrupt_sample_t mine = bad_offer(bad);
        TRY_OUT(err, comm_allgather(comm, &mine, sizeof mine, all, sharing));
        more = false;
        for (int r = 0; r < comm->size; r++) {
            if (all[r].index < 0) continue;
            add_sample(bad, &all[r], &error);
            more = true;
        }
    }
out:
    mem_free(&all);
    TRY(err);
    return comm_agree(comm, err_put(&error), sharing);
}

static const char opening_data[] = "opening data";

typedef struct opening {
    const char *where;
    const transform_settings_t *settings;
    dataset_t *dataset;
} opening_t;

static err_t data_find(void *context, comm_alive_t alive, void *alive_context)
{
    opening_t *o = context;
    return dataset_open_watched(o->where, o->settings, &(open_watch_t){alive, alive_context}, &o->dataset);
}

static err_t data_save(void *context, void **bytes, int64_t *n_bytes)
{
    const opening_t *o = context;
    return dataset_save(o->dataset, bytes, n_bytes);
}

static err_t data_restore(void *context, void **bytes, int64_t n_bytes)
{
    opening_t *o = context;
    return dataset_restore(o->settings, bytes, n_bytes, &o->dataset);
}

err_t train_open_data(comm_t *comm, const char *where, const transform_settings_t *settings, dataset_t **out)
{
    opening_t opening = {where, settings, NULL};
    const comm_finding_t finding = {opening_data, &opening, data_find, data_save, data_restore};
    bool shared = comm->size > 1 && comm->rank == 0 && dataset_is_shared(where);
    TRY(comm_broadcast(comm, &shared, sizeof shared, 0, opening_data));
    err_t err;
    TRY_OUT(err, shared ? comm_share(comm, &finding)
                        : comm_agree(comm, dataset_open(where, settings, &opening.dataset), opening_data));
    const dataset_t *dataset = opening.dataset;
    if (dataset->content) { /* names the hosts, then adds the hashes that rank 0's cache holds */
        char path[FS_PATH_MAX];
        bool any;
        TRY_OUT(err, content_name_hosts(comm, dataset->content));
        if (comm->rank == 0 && content_cache_path(dataset->info.source, path) == ERR_OK &&
            content_file_read(dataset->content, path, CONTENT_CACHE) != ERR_OK)
            log_warn("hashes of files are ignored: %s", err_message());
        TRY_OUT(err, content_merge(comm, dataset->content, &any));
    }
    *out = opening.dataset;
    return ERR_OK;
out:
    dataset_close(&opening.dataset);
    return err;
}

enum { MAX_LOOKS = 64, MAX_FORMATS = 8 };

typedef struct formats {
    char name[MAX_FORMATS][DATASET_FORMAT_MAX];
    int n;
} formats_t;

static bool is_known(const formats_t *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->name[i], name) == 0) return true;
    return false;
}

/* Reads a sample unless its format is known. A corrupt one leaves its format unknown. */
static err_t probe_sample(dataset_reader_t *reader, dataset_request_t *request, formats_t *known,
                          corrupt_samples_t *bad)
{
    char format[DATASET_FORMAT_MAX] = "";
    dataset_sample_t sample;
    TRY(dataset_format(reader, request->split, request->index, format));
    if (known->n == MAX_FORMATS || is_known(known, format)) return ERR_OK;
    err_t err = dataset_read(reader, request, &sample);
    if (err == ERR_DATA) return bad_add(bad, request->split, reader->image, CORRUPT_REPLACED);
    if (err == ERR_OK) memcpy(known->name[known->n++], format, sizeof format);
    return err;
}

err_t probe_images(const dataset_t *dataset, corrupt_samples_t *bad)
{
    dataset_reader_t reader = {0};
    err_t err = ERR_OK;
    if (!dataset->read) return ERR_OK;
    TRY_OUT(err, dataset_reader_open(dataset, &reader));
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const int64_t n = reader.dataset->info.n_samples[split], looks = n < MAX_LOOKS ? n : MAX_LOOKS;
        formats_t known = {.n = 0};
        for (int64_t i = 0; i < looks; i++) {
            dataset_request_t request = {.split = split, .index = i * n / looks};
            TRY_OUT(err, probe_sample(&reader, &request, &known, bad));
        }
    }
out:
    dataset_reader_close(&reader);
    return err;
}
