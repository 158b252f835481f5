/* SPDX-License-Identifier: MIT */
/* The JSONL file of a run: each record is built in a reused buffer and appended as one line. The fields are
 * left to the caller. */
#include "train/output/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

err_t metrics_open_file(metrics_t *metrics, const char *path, bool active)
{
    *metrics = (metrics_t){0};
    if (snprintf(metrics->path, sizeof metrics->path, "%s", path) >= (int)sizeof metrics->path)
        RAISE(ERR_USAGE, "the path '%.60s…' is longer than %d bytes", path, FS_PATH_MAX);
    if (!active) return ERR_OK;
    metrics->file = fopen(metrics->path, "ae");
    if (!metrics->file) RAISE(ERR_SYSTEM, "cannot open %s: %s", metrics->path, strerror(errno));
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

err_t metrics_end(metrics_t *metrics, bool flush)
{
    if (!metrics->file) return ERR_OK;
    json_object_end(&metrics->json);
    TRY(metrics->json.status);
    if (fputs(metrics->json.text, metrics->file) < 0 || fputc('\n', metrics->file) < 0)
        return metrics_failed(metrics);
    if (flush && fflush(metrics->file) != 0) return metrics_failed(metrics);
    return ERR_OK;
}

err_t metrics_close(metrics_t *metrics)
{
    err_t err = ERR_OK;
    if (metrics->file && fclose(metrics->file) != 0) err = metrics_failed(metrics);
    metrics->file = NULL;
    json_free(&metrics->json);
    return err;
}
