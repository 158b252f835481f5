/* SPDX-License-Identifier: MIT */
/* Merges the ranks' spans onto rank 0's clock and writes the trace, one rank after another in bounded memory.
 * Recording spans is left to base/clock.c. */
#include "train/output/trace_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "cluster/session/disk_wait.h"
#include "text/json.h"

enum { MAX_BYTES = 64 << 20, CHUNK_BYTES = 1 << 20 };

/* Spans per step: step, data wait, allreduce, optimizer, evaluation, checkpoint, plus forward and backward
 * with their layers for each part; one batch loaded; a checkpoint copied, written and read back. */
enum { PHASES = 6, FILLS = 1, WRITES = 3 };

static const char *const track_names[TRACE_N_TRACKS] = {"training", "loader", "checkpoint"};

/* Streams text from the current rank to rank 0 in fixed-size chunks. */
typedef struct pipe {
    comm_t *comm;
    int from;
    FILE *file; /* rank 0 only */
    const char *path;
    char *chunk;
    int64_t n_used;
    bool began; /* some rank has sent an event */
    err_t err;  /* this rank's own; the collectives continue */
} pipe_t;

/* Maps a rank's times to rank 0's clock. */
typedef struct timeline {
    comm_clock_mark_t start, end;
    double origin_sec; /* start of the earliest span of all ranks */
} timeline_t;

err_t trace_file_check(const char *path)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    if (!path) return ERR_OK;
    err_t err = fs_temp_path(path, folder, temp);
    if (err == ERR_OK) err = fs_check_writable(folder);
    return err == ERR_OK ? err : err_context(err, "--trace %s", path);
}

/* Ranks on rank 0's host share its clock. */
static err_t mark_clock(comm_t *comm, comm_clock_mark_t *mark, double *error_sec)
{
    double offset, error;
    TRY(comm_clock_offset(comm, clock_sec, &offset, &error));
    bool same = comm->topo.host == 0;
    *mark = (comm_clock_mark_t){clock_sec(), same ? 0 : offset};
    if (!same && error > *error_sec) *error_sec = error;
    return ERR_OK;
}

err_t trace_file_begin(comm_t *comm, const trace_file_options_t *options, trace_file_t *out)
{
    *out = (trace_file_t){.comm = comm, .options = *options};
    if (!options->path) return ERR_OK;
    int64_t per_step = PHASES + options->n_parts * (2 + 2 * (int64_t)options->n_layers), n = options->n_steps;
    int64_t fit = MAX_BYTES / ((per_step + FILLS + WRITES) * (int64_t)sizeof(trace_span_t));
    if (options->n_traced > 0 && options->n_traced < n) n = options->n_traced;
    int64_t end_step = options->first_step + n;
    if (n > fit) n = fit;
    const int64_t capacity[TRACE_N_TRACKS] = {n * per_step, n * FILLS, n * WRITES};
    TRY(comm_agree(comm, trace_open(capacity, end_step), "starting the trace"));
    return mark_clock(comm, &out->start, &out->error_sec);
}

/* Rank 0. A full disk does not stop the other ranks; finish_file reports it. */
static void pipe_store(pipe_t *pipe, const char *text, int64_t n_bytes)
{
    if (!pipe->file || pipe->err != ERR_OK) return;
    disk_wait_begin("writing", pipe->path);
    bool ok = fwrite(text, 1, (size_t)n_bytes, pipe->file) == (size_t)n_bytes;
    disk_wait_end();
    if (!ok) pipe->err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s", strerror(errno));
}

/* Collective. Transfers one chunk; an empty one ends the rank's part. */
static err_t pipe_transfer(pipe_t *pipe)
{
    TRY(comm_broadcast(pipe->comm, &pipe->n_used, sizeof pipe->n_used, pipe->from, "gathering the trace"));
    TRY(comm_broadcast(pipe->comm, pipe->chunk, pipe->n_used, pipe->from, "gathering the trace"));
    pipe_store(pipe, pipe->chunk, pipe->n_used);
    return ERR_OK;
}

/* Appends a finished event. */
static err_t pipe_push(pipe_t *pipe, const json_t *event)
{
    if (pipe->err == ERR_OK) pipe->err = event->status;
    if (event->status != ERR_OK) return ERR_OK;
    int64_t n_bytes = (int64_t)event->n_bytes;
    ASSERT(n_bytes + 2 <= CHUNK_BYTES);
    if (pipe->n_used + n_bytes + 2 > CHUNK_BYTES) {
        TRY(pipe_transfer(pipe));
        pipe->n_used = 0;
    }
    if (pipe->began) {
        memcpy(pipe->chunk + pipe->n_used, ",\n", 2);
        pipe->n_used += 2;
    }
    memcpy(pipe->chunk + pipe->n_used, event->text, event->n_bytes);
    pipe->n_used += n_bytes;
    pipe->began = true;
    return ERR_OK;
}

/* Name or sort index of a process (track −1) or a thread. */
static err_t push_label(pipe_t *pipe, json_t *j, int track, const char *what, const char *text,
                        int sort_index)
{
    json_reset(j);
    json_object_begin(j, NULL);
    json_string(j, "name", what);
    json_string(j, "ph", "M");
    json_int(j, "pid", pipe->comm->rank);
    if (track >= 0) json_int(j, "tid", track + 1);
    json_object_begin(j, "args");
    if (text)
        json_string(j, "name", text);
    else
        json_int(j, "sort_index", sort_index);
    json_object_end(j);
    json_object_end(j);
    return pipe_push(pipe, j);
}

static int64_t nsec_since_origin(const timeline_t *line, double sec)
{
    return llround(1e9 * (comm_clock_map(line->start, line->end, sec) - line->origin_sec));
}

/* Omits the step in which the track filled up, as it is incomplete. */
static err_t push_track(pipe_t *pipe, json_t *j, const timeline_t *line, int track)
{
    int64_t n, first_dropped;
    bool full = trace_dropped(track, &first_dropped) > 0;
    const trace_span_t *spans = trace_spans(track, &n);
    if (n == 0) return ERR_OK;
    TRY(push_label(pipe, j, track, "thread_name", track_names[track], 0));
    TRY(push_label(pipe, j, track, "thread_sort_index", NULL, track));
    for (int64_t i = 0; i < n; i++) {
        const trace_span_t *span = &spans[i];
        if (full && span->step >= first_dropped) continue;
        int64_t start = nsec_since_origin(line, span->start_sec),
                end = nsec_since_origin(line, span->end_sec);
        json_reset(j);
        json_object_begin(j, NULL);
        json_string(j, "name", span->name);
        json_string(j, "cat", span->category);
        json_string(j, "ph", "X");
        json_real(j, "ts", (double)start / 1000);
        json_real(j, "dur", (double)(end - start) / 1000);
        json_int(j, "pid", pipe->comm->rank);
        json_int(j, "tid", track + 1);
        json_object_begin(j, "args");
        json_int(j, "step", span->step);
        if (span->n_bytes > 0) json_int(j, "bytes", span->n_bytes);
        json_object_end(j);
        json_object_end(j);
        TRY(pipe_push(pipe, j));
    }
    return ERR_OK;
}

static err_t finish_file(pipe_t *pipe, const char *path, const char *temp)
{
    static const char end[] = "\n]}\n";
    pipe_store(pipe, end, sizeof end - 1);
    disk_wait_begin("closing", path);
    if (pipe->file && fclose(pipe->file) != 0 && pipe->err == ERR_OK)
        pipe->err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s", strerror(errno));
    if (pipe->file && pipe->err == ERR_OK && rename(temp, path) != 0)
        pipe->err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s", strerror(errno));
    if (pipe->file && pipe->err != ERR_OK) unlink(temp);
    disk_wait_end();
    pipe->file = NULL;
    return pipe->err == ERR_OK ? ERR_OK : err_context(pipe->err, "cannot write the trace %s", path);
}

static err_t write_trace(trace_file_t *trace, const timeline_t *line, double error_sec, pipe_t *pipe)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    const char *path = trace->options.path;
    json_t json = {0};
    err_t err = mem_new(CHUNK_BYTES, "a part of the trace", &pipe->chunk);
    if (err == ERR_OK && trace->comm->rank == 0) err = fs_temp_path(path, folder, temp);
    if (err == ERR_OK && trace->comm->rank == 0) {
        disk_wait_begin("creating", temp);
        pipe->file = fopen(temp, "we");
        disk_wait_end();
        if (!pipe->file)
            err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot write the trace %s: %s", path,
                            strerror(errno));
    }
    TRY(comm_agree(trace->comm, err, "writing the trace"));
    /* Everything before the events. */
    json_reset(&json);
    json_object_begin(&json, NULL);
    json_string(&json, "displayTimeUnit", "ms");
    json_object_begin(&json, "otherData");
    json_string(&json, "dptrain", version_number);
    json_string(&json, "git", version_git_hash);
    json_string(&json, "model", trace->options.model);
    json_int(&json, "ranks", trace->comm->size);
    json_int(&json, "hosts", trace->comm->topo.n_hosts);
    json_real(&json, "clock_error_sec", error_sec);
    json_object_end(&json);
    json_array_begin(&json, "traceEvents");
    if (pipe->err == ERR_OK) pipe->err = json.status;
    if (json.status == ERR_OK) pipe_store(pipe, json.text, (int64_t)json.n_bytes);
    pipe_store(pipe, "\n", 1);
    /* Collective. Writes the events of one rank after another. */
    for (int r = 0; r < pipe->comm->size; r++) {
        pipe->from = r;
        pipe->n_used = 0;
        pipe->began = r > 0;
        if (r == pipe->comm->rank) {
            char name[TOPO_HOST_MAX + 32];
            snprintf(name, sizeof name, "rank %d on %s", pipe->comm->rank, pipe->comm->topo.host_name);
            TRY_OUT(err, push_label(pipe, &json, -1, "process_name", name, 0));
            TRY_OUT(err, push_label(pipe, &json, -1, "process_sort_index", NULL, pipe->comm->rank));
            for (int track = 0; track < TRACE_N_TRACKS; track++)
                TRY_OUT(err, push_track(pipe, &json, line, track));
            if (pipe->n_used > 0) TRY_OUT(err, pipe_transfer(pipe));
            pipe->n_used = 0;
            TRY_OUT(err, pipe_transfer(pipe));
            continue;
        }
        do TRY_OUT(err, pipe_transfer(pipe));
        while (pipe->n_used > 0);
    }
    err = comm_agree(trace->comm, finish_file(pipe, path, temp), "writing the trace");
out:
    json_free(&json);
    return err;
}

err_t trace_file_write(trace_file_t *trace)
{
    if (!trace->options.path) return ERR_OK;
    comm_t *comm = trace->comm;
    pipe_t pipe = {.comm = comm, .path = trace->options.path};
    timeline_t line = {.start = trace->start, .origin_sec = INFINITY};
    TRY(mark_clock(comm, &line.end, &trace->error_sec));
    double error_sec = trace->error_sec;
    int64_t full_step = INT64_MAX; /* the first step that did not fit */
    trace_sort(TRACE_TRAINING);    /* the only track with nested spans; owned by this thread */
    for (int track = 0; track < TRACE_N_TRACKS; track++) {
        int64_t n, step;
        const trace_span_t *spans = trace_spans(track, &n);
        for (int64_t i = 0; i < n; i++) {
            double start = comm_clock_map(line.start, line.end, spans[i].start_sec);
            if (start < line.origin_sec) line.origin_sec = start;
        }
        if (trace_dropped(track, &step) > 0 && step < full_step) full_step = step;
    }
    TRY(comm_allreduce(comm, &line.origin_sec, 1, DTYPE_F64, COMM_MIN, "gathering the trace"));
    TRY(comm_allreduce(comm, &error_sec, 1, DTYPE_F64, COMM_MAX, "gathering the trace"));
    TRY(comm_allreduce(comm, &full_step, 1, DTYPE_I64, COMM_MIN, "gathering the trace"));
    err_t err = write_trace(trace, &line, error_sec, &pipe);
    if (pipe.file) fclose(pipe.file);
    mem_free(&pipe.chunk);
    TRY(err);
    if (full_step < INT64_MAX)
        log_info("trace in %s, steps before %lld only (its memory was full); open it in ui.perfetto.dev",
                 trace->options.path, (long long)full_step);
    else
        log_info("trace in %s; open it in ui.perfetto.dev or chrome://tracing", trace->options.path);
    return ERR_OK;
}
