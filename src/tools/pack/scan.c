/* SPDX-License-Identifier: MIT */
/* What packing and verifying do on all ranks: opening a source, work in time slices, findings, and the scan, whose
 * threads read and decode samples block by block. They live as long as a block: between blocks, the ranks agree on
 * errors. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/hosts/machine.h"
#include "data/image/image.h"
#include "text/figure.h"
#include "text/progress.h"
#include "tools/pack/parts.h"

typedef struct opening {
    const char *path;
    const list_rules_t *rules;
    source_t *source;
} opening_t;

static err_t opening_find(void *context, comm_alive_t alive, void *alive_context)
{
    opening_t *o = context;
    return source_open_watched(o->path, o->rules, &(open_watch_t){alive, alive_context}, &o->source);
}

static err_t opening_save(void *context, void **bytes, int64_t *n_bytes)
{
    const opening_t *o = context;
    return source_save(o->source, bytes, n_bytes);
}

static err_t opening_restore(void *context, void **bytes, int64_t n_bytes)
{
    opening_t *o = context;
    return source_restore(bytes, n_bytes, &o->source);
}

err_t pack_open(comm_t *comm, const char *path, const list_rules_t *rules, const char *what, source_t **out)
{
    opening_t opening = {.path = path, .rules = rules};
    const comm_finding_t finding = {what, &opening, opening_find, opening_save, opening_restore};
    err_t err = comm_share(comm, &finding);
    if (err == ERR_OK)
        *out = opening.source;
    else
        source_close(&opening.source);
    return err;
}

static const double slice_sec = 0.2;

err_t pack_work_run(comm_t *comm, const pack_work_t *work)
{
    const double begun_sec = clock_sec();
    int64_t n_done = 0;
    int n_tenths_shown = 0;
    bool finished = false;
    for (;;) {
        double end = clock_sec() + slice_sec;
        int64_t counts[2] = {0, 0}, n;
        err_t err = ERR_OK;
        while (!finished && err == ERR_OK && clock_sec() < end) {
            n = 0;
            err = work->step(work->context, &n, &finished);
            counts[0] += n;
        }
        counts[1] = !finished;
        err = comm_agree(comm, err, work->label);
        if (err == ERR_OK) err = comm_allreduce(comm, counts, 2, DTYPE_I64, COMM_SUM, work->label);
        n_done += counts[0];
        if (err == ERR_OK) {
            /* Progress is a bar or, without a terminal, a log line per tenth. */
            char text[160];
            figure_t left = {""};
            double sec = clock_sec() - begun_sec;
            if (n_done > 0 && n_done < work->n_total && sec > 2)
                left = figure_duration(sec * (double)(work->n_total - n_done) / (double)n_done);
            snprintf(text, sizeof text, "%s of %s%s%s", figure_bytes((double)n_done).text,
                     figure_bytes((double)work->n_total).text, left.text[0] ? ", left " : "", left.text);
            progress_draw(work->label, n_done, work->n_total, text);
            int n_tenths = work->n_total > 0 ? (int)(10 * n_done / work->n_total) : 10;
            if (progress_wants_lines() && sec > 10 && n_tenths > n_tenths_shown)
                log_note("%s: %s", work->label, text);
            n_tenths_shown = n_tenths;
        }
        if (err != ERR_OK || counts[1] == 0) {
            progress_clear_line();
            return err;
        }
    }
}

void findings_add(findings_t *f, const char *what, int64_t sample)
{
    size_t n = strlen(what) + 1;
    if (f->status != ERR_OK) return;
    f->status = mem_grow(f->n + 1, sizeof *f->samples, "list of findings", &f->samples);
    if (f->status != ERR_OK) return;
    f->samples[f->n++] = sample;
    if (f->n > FINDINGS_MAX) return;
    f->status = mem_grow((int64_t)(f->n_bytes + n), 1, "list of findings", &f->text);
    if (f->status != ERR_OK) return;
    memcpy(f->text + f->n_bytes, what, n);
    f->n_bytes += n;
}

void findings_free(findings_t *f)
{
    mem_free(&f->text);
    mem_free(&f->samples);
    *f = (findings_t){0};
}

/* Broadcasts a rank's block; *out is allocated on all ranks. Collective. */
static err_t share_block(comm_t *comm, int from, const void *mine, int64_t n_bytes, void *out)
{
    static const char what[] = "gathering the findings";
    char *block;
    TRY(comm_agree(comm, mem_new((size_t)n_bytes, "list of findings", &block), what));
    if (from == comm->rank) memcpy(block, mine, (size_t)n_bytes);
    err_t err = comm_broadcast(comm, block, n_bytes, from, what);
    if (err == ERR_OK)
        memcpy(out, &block, sizeof block);
    else
        mem_free(&block);
    return err;
}

err_t findings_tell(comm_t *comm, const findings_t *f, void (*tell)(void *context, const char *what),
                    void *context, int64_t *n)
{
    for (int rank = 0; rank < comm->size; rank++) {
        int64_t counts[2] = {(int64_t)f->n_bytes, f->n};
        char *text = NULL;
        TRY(comm_broadcast(comm, counts, sizeof counts, rank, "gathering the findings"));
        if (counts[0] == 0) continue;
        TRY(share_block(comm, rank, f->text, counts[0], &text));
        for (int64_t at = 0; comm->rank == 0 && at < counts[0]; at += (int64_t)strlen(text + at) + 1)
            tell(context, text + at);
        if (comm->rank == 0 && counts[1] > FINDINGS_MAX) tell(context, "… and more");
        mem_free(&text);
    }
    *n = f->n;
    return comm_allreduce(comm, n, 1, DTYPE_I64, COMM_SUM, "counting the findings");
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

err_t findings_samples(comm_t *comm, const findings_t *f, int64_t **out, int64_t *n)
{
    int64_t *all = NULL;
    err_t err = ERR_OK;
    *n = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        int64_t count = f->n, *samples = NULL;
        TRY_OUT(err, comm_broadcast(comm, &count, sizeof count, rank, "gathering the findings"));
        if (count == 0) continue;
        TRY_OUT(err, share_block(comm, rank, f->samples, count * (int64_t)sizeof *samples, &samples));
        err = mem_grow(*n + count, sizeof *all, "list of findings", &all);
        if (err == ERR_OK) memcpy(all + *n, samples, (size_t)count * sizeof *all);
        mem_free(&samples);
        TRY_OUT(err, comm_agree(comm, err, "gathering the findings"));
        *n += count;
    }
    if (*n > 0) qsort(all, (size_t)*n, sizeof *all, compare_numbers);
    *out = all;
    return ERR_OK;
out:
    mem_free(&all);
    return err;
}

enum { PER_THREAD = 16, NAME_MAX_BYTES = FS_PATH_MAX + 128 };

typedef struct scan_worker {
    struct scan *scan;
    pthread_t thread;
    bool started;
    image_decoder_t *decoder;
    source_buffer_t buffer;
    shard_buffer_t shard_buffer;
    err_info_t failed; /* an error that concerns no image */
} scan_worker_t;

typedef struct scan {
    const scan_options_t *options;
    const comm_t *comm;
    findings_t *findings;
    int n_threads, stride;  /* stride: blocks from one of this rank to the next */
    int64_t block;          /* samples; the same on all ranks */
    scan_worker_t *workers; /* [n_threads]; the first is the calling thread */
    char **why;             /* [block]: what is wrong with each image; NULL: nothing */
    int64_t first, n;       /* the current block */
    atomic_int_fast64_t next, n_bytes;
    atomic_bool stopped;
} scan_t;

/* This rank's share of its host's CPUs. */
static int scan_threads(const comm_t *comm)
{
    cpu_set_t mine;
    int n = machine_cpus() / comm->topo.local_size;
    int allowed = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
    if (n > allowed) n = allowed;
    return n > 1 ? n : 1;
}

bool scan_can_decode(const source_t *source)
{
    return !source->ops->raw;
}

split_t scan_split(const int64_t counts[SPLIT_COUNT], int64_t *number)
{
    if (*number < counts[SPLIT_TRAIN]) return SPLIT_TRAIN;
    *number -= counts[SPLIT_TRAIN];
    return SPLIT_VAL;
}

/* Compares the headers with the source's list, and decodes. */
static err_t check_sample(scan_worker_t *w, int64_t number)
{
    const scan_options_t *o = w->scan->options;
    char name[NAME_MAX_BYTES];
    sample_t sample;
    image_info_t info;
    image_t image;
    split_t split = scan_split(o->n_samples, &number);
    if (o->shards) {
        err_t err = shard_read(o->shards, split, number, &w->shard_buffer, &sample);
        if (err == ERR_DATA) return ERR_OK;
        TRY(err);
    } else {
        err_t err = source_read(o->source, split, number, &w->buffer, &sample);
        const comm_t *comm = w->scan->comm;
        /* A file may be missing on one host only. */
        if (err == ERR_DATA && comm->size > 1)
            return err_context(err, "rank %d on %s", comm->rank, comm->topo.host_name);
        TRY(err);
    }
    atomic_fetch_add(&w->scan->n_bytes, (int64_t)sample.n_bytes);
    /* A name that finds the image again. */
    if (o->shards)
        snprintf(name, NAME_MAX_BYTES, "%s sample %lld of %s (\"%s\", id %lld)", split_words[split],
                 (long long)number, o->path, sample.name, (long long)sample.id);
    else
        snprintf(name, NAME_MAX_BYTES, "%s of the %s split", sample.name, split_names[split]);
    const image_bytes_t bytes = {name, sample.bytes, sample.n_bytes};
    TRY(source_info(&sample, name, &info));
    if (info.stored_width != sample.width || info.stored_height != sample.height)
        RAISE(ERR_DATA, "the image %s is %lld×%lld, but listed as %d×%d", name, (long long)info.stored_width,
              (long long)info.stored_height, sample.width, sample.height);
    return o->decode ? image_decode(w->decoder, bytes, &image) : ERR_OK;
}

/* Checks samples of the block until none is left. */
static void *thread_main(void *context)
{
    scan_worker_t *w = context;
    scan_t *scan = w->scan;
    err_t err = ERR_OK;
    while (err == ERR_OK) {
        int64_t i = atomic_fetch_add(&scan->next, 1);
        if (i >= scan->n || atomic_load(&scan->stopped)) break;
        err = check_sample(w, scan->first + i);
        if (err == ERR_DATA) err = mem_strdup(err_message(), &scan->why[i]);
    }
    if (err != ERR_OK) atomic_store(&scan->stopped, true);
    err_take(err, &w->failed);
    return NULL;
}

/* pack_work_t's step: checks a block. */
static err_t scan_step(void *context, int64_t *n_done, bool *finished)
{
    scan_t *scan = context;
    const int64_t *counts = scan->options->n_samples;
    int64_t left = counts[SPLIT_TRAIN] + counts[SPLIT_VAL] - scan->first;
    *finished = left <= 0;
    if (*finished) return ERR_OK;
    scan->n = left < scan->block ? left : scan->block;
    atomic_store(&scan->next, 0);
    atomic_store(&scan->n_bytes, 0);
    /* Without a thread, the others do its work. */
    for (int i = 1; i < scan->n_threads && i < scan->n; i++) {
        scan_worker_t *w = &scan->workers[i];
        w->started = thread_start(&w->thread, thread_main, w) == 0;
    }
    thread_main(&scan->workers[0]);
    /* The first failure of a thread. */
    const err_info_t *first = NULL;
    for (int i = 0; i < scan->n_threads; i++) {
        scan_worker_t *w = &scan->workers[i];
        if (w->started) pthread_join(w->thread, NULL);
        w->started = false;
        if (!first && w->failed.code != ERR_OK) first = &w->failed;
    }
    err_t err = first ? err_put(first) : ERR_OK;
    for (int64_t i = 0; i < scan->n; i++) {
        if (scan->why[i]) findings_add(scan->findings, scan->why[i], scan->first + i);
        mem_free(&scan->why[i]);
    }
    *n_done = atomic_load(&scan->n_bytes);
    scan->first += scan->stride * scan->block;
    return err == ERR_OK ? scan->findings->status : err;
}

err_t scan_run(comm_t *comm, const scan_options_t *options, findings_t *findings)
{
    const int n_threads = options->n_threads > 0 ? options->n_threads : scan_threads(comm);
    scan_t scan = {.comm = comm,
                   .options = options,
                   .findings = findings,
                   .n_threads = n_threads,
                   .stride = comm->size,
                   .block = PER_THREAD * (int64_t)n_threads};
    const pack_work_t work = {options->label, options->n_bytes, &scan, scan_step};
    TRY(comm_allreduce(comm, &scan.block, 1, DTYPE_I64, COMM_MAX, options->label));
    scan.first = comm->rank * scan.block;
    err_t err = mem_new_array(n_threads, sizeof *scan.workers, "decoding threads", &scan.workers);
    if (err == ERR_OK) err = mem_new_array(scan.block, sizeof *scan.why, "unusable images", &scan.why);
    for (int i = 0; err == ERR_OK && i < n_threads; i++) {
        scan.workers[i].scan = &scan;
        if (options->decode) err = image_decoder_new((image_limits_t){0}, &scan.workers[i].decoder);
    }
    err = comm_agree(comm, err, options->label);
    if (err == ERR_OK) err = pack_work_run(comm, &work);
    for (int i = 0; scan.workers && i < n_threads; i++) {
        image_decoder_free(&scan.workers[i].decoder);
        if (options->source) source_free_buffer(options->source, &scan.workers[i].buffer);
        mem_free(&scan.workers[i].shard_buffer.block);
    }
    mem_free(&scan.workers);
    mem_free(&scan.why);
    return err;
}
