/* SPDX-License-Identifier: MIT */
/* Reads a record file backwards, in blocks that begin with a line. What the records mean is left to the caller. */
#include "train/output/metrics_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"

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

/* Of the block before `end`: where its first whole line starts. `end` if it has none. */
static int64_t first_line(const char *block, int64_t start, int64_t end)
{
    if (start == 0) return 0;
    const char *line_end = memchr(block, '\n', (size_t)(end - start));
    return line_end ? start + (line_end - block) + 1 : end;
}

static err_t read_blocks(int fd, const char *path, char *block, metrics_visit_t visit, void *context)
{
    struct stat info;
    if (fstat(fd, &info) != 0) RAISE(ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    int64_t end = info.st_size;
    for (int i = 0; i < METRICS_TAIL_BLOCKS && end > 0; i++) {
        int64_t start = end > METRICS_TAIL_BLOCK ? end - METRICS_TAIL_BLOCK : 0;
        int reason = fs_read_all(fd, start, block, (size_t)(end - start), NULL);
        if (reason) RAISE(ERR_SYSTEM, "cannot read %s: %s", path, strerror(reason));
        int64_t line = first_line(block, start, end);
        if (line == end || !visit_lines(block + (line - start), (size_t)(end - line), visit, context)) break;
        end = line;
    }
    return ERR_OK;
}

err_t metrics_tail(const char *path, metrics_visit_t visit, void *context)
{
    char *block = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    err_t err = mem_new(METRICS_TAIL_BLOCK, "records", &block);
    if (err == ERR_OK) err = read_blocks(fd, path, block, visit, context);
    mem_free(&block);
    close(fd);
    return err;
}
