/* SPDX-License-Identifier: MIT */
/* The JSONL file of a run: each record is built in a reused buffer and appended as one line. The fields are
 * left to the caller. */
#include "train/output/metrics.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "train/output/disk_wait.h"

enum { BUFFER_BYTES = 1 << 13 };

err_t metrics_open_file(metrics_t *metrics, const char *path, bool active)
{
    *metrics = (metrics_t){0};
    if (snprintf(metrics->path, sizeof metrics->path, "%s", path) >= (int)sizeof metrics->path)
        RAISE(ERR_USAGE, "the path '%.60s…' is longer than %d bytes", path, FS_PATH_MAX);
    if (!active) return ERR_OK;
    disk_wait_begin("opening", metrics->path);
    metrics->file = fopen(metrics->path, "ae");
    disk_wait_end();
    if (!metrics->file) RAISE(ERR_SYSTEM, "cannot open %s: %s", metrics->path, strerror(errno));
    TRY(mem_new(BUFFER_BYTES, "a file buffer", &metrics->buffer));
    setvbuf(metrics->file, metrics->buffer, _IOFBF, BUFFER_BYTES);
    return ERR_OK;
}

err_t metrics_open(metrics_t *metrics, const char *folder, bool active)
{
    char path[FS_PATH_MAX];
    TRY(fs_join(path, folder, "metrics.jsonl"));
    return metrics_open_file(metrics, path, active);
}

json_t *metrics_begin(metrics_t *metrics, const char *record)
{
    if (!metrics->file) return NULL;
    json_reset(&metrics->json);
    json_object_begin(&metrics->json, NULL);
    json_string(&metrics->json, "record", record);
    return &metrics->json;
}

static err_t metrics_failed(const metrics_t *metrics)
{
    RAISE(ERR_SYSTEM, "cannot write %s: %s", metrics->path, strerror(errno));
}

static bool flush_lines(metrics_t *metrics)
{
    disk_wait_begin("writing records to", metrics->path);
    bool ok = fflush(metrics->file) == 0;
    disk_wait_end();
    metrics->n_buffered = 0;
    return ok;
}

/* The file holds only whole lines at any time: the stream would write out part of a line if it overflowed. */
static bool append_line(metrics_t *metrics, bool flush)
{
    FILE *file = metrics->file;
    int64_t n = (int64_t)metrics->json.n_bytes + 1;
    bool ok = true;
    flockfile(file);
    if (metrics->n_buffered + n > BUFFER_BYTES) ok = flush_lines(metrics);
    ok = ok && fputs(metrics->json.text, file) >= 0 && fputc('\n', file) >= 0;
    metrics->n_buffered += n;
    if (ok && flush) ok = flush_lines(metrics);
    funlockfile(file);
    return ok;
}

err_t metrics_end(metrics_t *metrics, bool flush)
{
    if (!metrics->file) return ERR_OK;
    json_object_end(&metrics->json);
    TRY(metrics->json.status);
    return append_line(metrics, flush) ? ERR_OK : metrics_failed(metrics);
}

err_t metrics_close(metrics_t *metrics)
{
    err_t err = ERR_OK;
    disk_wait_begin("closing", metrics->path);
    if (metrics->file && fclose(metrics->file) != 0) err = metrics_failed(metrics);
    disk_wait_end();
    metrics->file = NULL;
    mem_free(&metrics->buffer);
    json_free(&metrics->json);
    return err;
}
