/* SPDX-License-Identifier: MIT */
/* The JSONL file of a run: each record is built in a reused buffer and appended as one line; the newest are read
 * backwards. The fields are left to the caller. */
#include "train/output/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "text/json.h"

enum { BUFFER_BYTES = 1 << 13 };

/* Length of a file of `size` bytes, whose last line has no end, without that line; `size` if the line is a
 * whole record, or too long for one. */
static off_t whole_length(int fd, off_t size)
{
    enum { TAIL_MAX = 1 << 20 };
    char *tail;
    size_t n = size < TAIL_MAX ? (size_t)size : TAIL_MAX, start = n;
    if (mem_new(n + 1, "the end of a file", &tail) != ERR_OK) return size;
    bool read = fs_read_all(fd, size - (off_t)n, tail, n, NULL) == 0;
    while (start > 0 && tail[start - 1] != '\n') start--;
    json_reader_t reader = {0};
    const json_value_t *value;
    bool torn = read && (start > 0 || (off_t)n == size) && tail[start] == '{' &&
                json_read(&reader, tail + start, n - start, &value) != ERR_OK;
    json_reader_free(&reader);
    mem_free(&tail);
    return torn ? size - (off_t)(n - start) : size;
}

/* A last line without its end would swallow the next record. Failures are left to the writes that follow.
 *
 *   cuts   remove it if it is a part of a record */
static void mend_end(const char *path, bool cuts)
{
    struct stat info;
    char last = '\n';
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
        fs_read_all(fd, info.st_size - 1, &last, 1, NULL) == 0 && last != '\n') {
        off_t whole = cuts ? whole_length(fd, info.st_size) : info.st_size;
        if (whole == info.st_size || ftruncate(fd, whole) != 0) fs_write_all(fd, FS_HERE, "\n", 1);
    }
    close(fd);
}

static err_t open_mended(metrics_t *metrics, const char *path, bool active, bool cuts)
{
    *metrics = (metrics_t){0};
    if (snprintf(metrics->path, sizeof metrics->path, "%s", path) >= (int)sizeof metrics->path)
        RAISE(ERR_USAGE, "the path '%.60s…' is longer than %d bytes", path, FS_PATH_MAX);
    if (!active) return ERR_OK;
    disk_wait_begin("opening", metrics->path);
    mend_end(path, cuts);
    metrics->file = fopen(metrics->path, "ae");
    disk_wait_end();
    if (!metrics->file) RAISE(ERR_SYSTEM, "cannot open %s: %s", metrics->path, strerror(errno));
    TRY(mem_new(BUFFER_BYTES, "a file buffer", &metrics->buffer));
    setvbuf(metrics->file, metrics->buffer, _IOFBF, BUFFER_BYTES);
    return ERR_OK;
}

err_t metrics_open_file(metrics_t *metrics, const char *path, bool active)
{
    return open_mended(metrics, path, active, false);
}

err_t metrics_open(metrics_t *metrics, const char *folder, owner_t *owner)
{
    char path[FS_PATH_MAX];
    TRY(fs_join(path, folder, "metrics.jsonl"));
    TRY(open_mended(metrics, path, owner != NULL, true));
    metrics->owner = owner;
    return ERR_OK;
}

json_t *metrics_begin(metrics_t *metrics, record_kind_t kind)
{
    if (!metrics->file) return NULL;
    json_reset(&metrics->json);
    record_begin(&metrics->json, kind);
    return &metrics->json;
}

static err_t metrics_failed(const metrics_t *metrics)
{
    RAISE(ERR_SYSTEM, "cannot write %s: %s", metrics->path, strerror(errno));
}

/* Whether the path still leads to the open file. Pipes and devices do not change. */
static bool is_in_place(const metrics_t *metrics)
{
    struct stat ours, named;
    if (fstat(fileno(metrics->file), &ours) != 0 || !S_ISREG(ours.st_mode)) return true;
    if (stat(metrics->path, &named) != 0) return errno != ENOENT;
    return named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
}

/* Lets the stream, with what it has buffered, continue in the file that the path names now. */
static bool follow_path(metrics_t *metrics)
{
    struct stat info;
    int fd = open(metrics->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), reason = 0;
    if (fd < 0) return false;
    bool is_new = fstat(fd, &info) == 0 && info.st_size == 0;
    if (is_new && metrics->first) reason = fs_write_all(fd, FS_HERE, metrics->first, strlen(metrics->first));
    if (!reason && dup3(fd, fileno(metrics->file), O_CLOEXEC) < 0) reason = errno;
    close(fd);
    log_warn(
        "%s was deleted or replaced during the run: earlier records are lost, later ones are written to %s",
        metrics->path, is_new ? "a new file" : "the new file");
    errno = reason;
    return reason == 0;
}

static bool write_out(metrics_t *metrics)
{
    disk_wait_begin("writing records to", metrics->path);
    bool ok = (is_in_place(metrics) || follow_path(metrics)) && fflush(metrics->file) == 0;
    disk_wait_end();
    metrics->n_buffered = 0;
    return ok;
}

err_t metrics_end(metrics_t *metrics, bool flush)
{
    if (!metrics->file) return ERR_OK;
    json_object_end(&metrics->json);
    TRY(metrics->json.status);
    TRY(owner_check(metrics->owner));
    if (!metrics->first) {
        const size_t n = metrics->json.n_bytes;
        TRY(mem_new(n + 2, "a record", &metrics->first));
        memcpy(metrics->first, metrics->json.text, n);
        metrics->first[n] = '\n';
    }
    /* The file holds only whole lines at any time: the stream would write out part of a line if it overflowed. */
    FILE *file = metrics->file;
    int64_t n_line = (int64_t)metrics->json.n_bytes + 1;
    bool ok = true;
    flockfile(file);
    if (metrics->n_buffered + n_line > BUFFER_BYTES) ok = write_out(metrics);
    ok = ok && fputs(metrics->json.text, file) >= 0 && fputc('\n', file) >= 0;
    metrics->n_buffered += n_line;
    if (ok && flush) ok = write_out(metrics);
    funlockfile(file);
    return ok ? ERR_OK : metrics_failed(metrics);
}

err_t metrics_flush(metrics_t *metrics)
{
    if (!metrics->file) return ERR_OK;
    TRY(owner_check(metrics->owner));
    flockfile(metrics->file);
    bool ok = write_out(metrics);
    funlockfile(metrics->file);
    return ok ? ERR_OK : metrics_failed(metrics);
}

err_t metrics_close(metrics_t *metrics)
{
    err_t err = metrics->file ? owner_check(metrics->owner) : ERR_OK;
    if (err != ERR_OK) __fpurge(metrics->file); /* it is another job's */
    disk_wait_begin("closing", metrics->path);
    if (metrics->file && fclose(metrics->file) != 0) err = metrics_failed(metrics);
    disk_wait_end();
    metrics->file = NULL;
    mem_free(&metrics->first);
    mem_free(&metrics->buffer);
    json_free(&metrics->json);
    return err;
}

/* Visits the lines of a block, the last first. Returns false when `visit` did. */
static bool visit_lines(const char *block, size_t n_bytes, metrics_visit_t visit, void *context)
{
    while (n_bytes > 0) {
        size_t end = block[n_bytes - 1] == '\n' ? n_bytes - 1 : n_bytes;
        const char *before = memrchr(block, '\n', end);
        size_t start = before ? (size_t)(before - block) + 1 : 0;
        if (end > start && !visit(context, block + start, end - start)) return false;
        n_bytes = start;
    }
    return true;
}

err_t metrics_tail(const char *path, metrics_visit_t visit, void *context)
{
    char *block = NULL;
    struct stat info;
    err_t err;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    TRY_OUT(err, mem_new(METRICS_TAIL_BLOCK, "records", &block));
    if (fstat(fd, &info) != 0) RAISE_OUT(err, ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    int64_t end = info.st_size;
    for (int i = 0; i < METRICS_TAIL_BLOCKS && end > 0; i++) {
        int64_t start = end > METRICS_TAIL_BLOCK ? end - METRICS_TAIL_BLOCK : 0;
        int reason = fs_read_all(fd, start, block, (size_t)(end - start), NULL);
        if (reason) RAISE_OUT(err, ERR_SYSTEM, "cannot read %s: %s", path, strerror(reason));
        /* Where its first whole line starts; `end` if it has none. */
        const char *line_end = start > 0 ? memchr(block, '\n', (size_t)(end - start)) : NULL;
        const int64_t line = start == 0 ? 0 : line_end ? start + (line_end - block) + 1 : end;
        if (line == end || !visit_lines(block + (line - start), (size_t)(end - line), visit, context)) break;
        end = line;
    }
out:
    mem_free(&block);
    close(fd);
    return err;
}
