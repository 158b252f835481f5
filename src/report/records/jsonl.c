/* SPDX-License-Identifier: MIT */
/* Streams lines through a buffer, parses batches in parallel (OpenMP) and visits the lines in order.
 * registry.c interprets the records. */
#include "report/records/jsonl.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "records/record.h"

enum {
    BLOCK_BYTES = 2 << 20,
    BATCH_LINES = 4096, /* parsed in parallel, then visited */
    MAX_THREADS = 8,    /* more threads would wait for input */
};

typedef struct span {
    size_t start, n_bytes; /* offset in the buffer */
    bool is_last;          /* the file ends without a line break */
    err_t err;
    jsonl_line_t line;
} span_t;

typedef struct stream {
    const jsonl_options_t *options;
    const char *name;
    int fd;
    char *buffer;
    size_t capacity, n_bytes, max_line;
    bool at_end;
    bool skipping; /* the rest of an overlong line */
    int64_t n_lines;
    span_t *batch;
    int n_batch;
    int n_readers;
    json_reader_t *readers; /* one per thread */
} stream_t;

/* Reads until the buffer is full or the file ends. */
static err_t jsonl_fill(stream_t *s)
{
    size_t n_read, n_wanted = s->capacity - s->n_bytes;
    if (s->at_end) return ERR_OK;
    int reason = fs_read_all(s->fd, FS_HERE, s->buffer + s->n_bytes, n_wanted, &n_read);
    if (reason) RAISE(ERR_SYSTEM, "cannot read %s: %s", s->name, strerror(reason));
    s->at_end = n_read < n_wanted;
    s->n_bytes += n_read;
    return ERR_OK;
}

static bool begins_with(const stream_t *s, const char *bytes, size_t n)
{
    return s->n_bytes >= n && memcmp(s->buffer, bytes, n) == 0;
}

/* Refuses a file that is not text as a whole, rather than each of its lines. */
static err_t check_text(const stream_t *s)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *what, *tool;
    } packed[] = {{"\x1f\x8b", 2, "gzip", "gzip -dc"},
                  {"\x28\xb5\x2f\xfd", 4, "zstd", "zstd -dc"},
                  {"\xfd"
                   "7zXZ",
                   5, "xz", "xz -dc"},
                  {"BZh", 3, "bzip2", "bzip2 -dc"}};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (begins_with(s, packed[i].bytes, packed[i].n))
            RAISE(ERR_DATA, "%s is compressed; use: %s FILE | dptrain report -", s->name, packed[i].tool);
    const char *line_end = memchr(s->buffer, '\n', s->n_bytes);
    size_t n = s->n_bytes < 4096 ? s->n_bytes : 4096;
    size_t n_first = line_end ? (size_t)(line_end - s->buffer) : n;
    /* A record may contain a stray zero byte, so only a first line that does not look like a record counts.
     */
    if (n_first < n) n = n_first;
    if (n > 0 && s->buffer[0] != '{' && memchr(s->buffer, 0, n))
        RAISE(ERR_DATA, "%s is a binary file; expected lines of JSON", s->name);
    return ERR_OK;
}

static void parse_line(stream_t *s, span_t *span, json_reader_t *reader)
{
    const json_value_t *value = NULL;
    err_t err = json_read(reader, s->buffer + span->start, span->n_bytes, &value);
    span->line.value = err == ERR_OK ? value : NULL;
    if (span->line.value) record_rename(value);
    const char *why = span->is_last ? "truncated: the file ends within the line" : err_message();
    if (err == ERR_DATA) err = arena_text(&reader->arena, why, strlen(why), &span->line.problem);
    span->err = err;
}

static err_t flush_batch(stream_t *s)
{
    int n = s->n_batch, n_threads = s->n_readers < n ? s->n_readers : n;
    if (n == 0) return ERR_OK;
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
    for (int i = 0; i < n; i++) parse_line(s, &s->batch[i], &s->readers[omp_get_thread_num()]);
    err_t err = ERR_OK;
    for (int i = 0; i < n && err == ERR_OK; i++) {
        err = s->batch[i].err;
        if (err != ERR_OK)
            err = err_raise(err, __FILE__, __LINE__, "out of memory for line %lld of %s",
                            (long long)s->batch[i].line.number, s->name);
        else
            err = s->options->visit(s->options->context, &s->batch[i].line);
    }
    for (int i = 0; i < s->n_readers; i++) json_reader_reset(&s->readers[i]);
    s->n_batch = 0;
    return err;
}

static bool is_blank(const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}

static err_t add_line(stream_t *s, size_t start, size_t n_bytes)
{
    s->n_lines++;
    if (is_blank(s->buffer + start, n_bytes)) return ERR_OK;
    s->batch[s->n_batch++] = (span_t){.start = start, .n_bytes = n_bytes, .line.number = s->n_lines};
    return s->n_batch == BATCH_LINES ? flush_batch(s) : ERR_OK;
}

static err_t add_long_line(stream_t *s)
{
    char problem[96];
    TRY(flush_batch(s));
    s->n_lines++;
    snprintf(problem, sizeof problem, "longer than %zu bytes", s->max_line);
    const jsonl_line_t line = {.number = s->n_lines, .problem = problem};
    return s->options->visit(s->options->context, &line);
}

/* Adds all complete lines; *start moves past the last. */
static err_t add_lines(stream_t *s, size_t *start)
{
    const char *line_end;
    while ((line_end = memchr(s->buffer + *start, '\n', s->n_bytes - *start))) {
        size_t n_bytes = (size_t)(line_end - s->buffer) - *start;
        if (s->skipping)
            s->skipping = false;
        else if (n_bytes > s->max_line)
            TRY(add_long_line(s));
        else
            TRY(add_line(s, *start, n_bytes));
        *start += n_bytes + 1;
    }
    return ERR_OK;
}

/* Moves the incomplete last line to the front of the buffer. */
static err_t keep_rest(stream_t *s, size_t start)
{
    size_t n_rest = s->n_bytes - start;
    if (s->skipping) {
        n_rest = 0;
    } else if (n_rest > s->max_line) {
        TRY(add_long_line(s));
        s->skipping = true;
        n_rest = 0;
    } else if (s->at_end && n_rest > 0) {
        TRY(add_line(s, start, n_rest));
        if (s->n_batch > 0) s->batch[s->n_batch - 1].is_last = true;
        n_rest = 0;
    }
    TRY(flush_batch(s));
    if (n_rest > 0) memmove(s->buffer, s->buffer + start, n_rest);
    s->n_bytes = n_rest;
    if (n_rest < s->capacity) return ERR_OK;
    s->capacity *= 2;
    return mem_resize(s->capacity, "a long line", &s->buffer);
}

static err_t read_stream(stream_t *s)
{
    bool at_start = true;
    do {
        size_t start = 0;
        TRY(jsonl_fill(s));
        if (at_start) {
            TRY(check_text(s));
            if (begins_with(s, "\xEF\xBB\xBF", 3)) start = 3; /* byte order mark */
            at_start = false;
        }
        TRY(add_lines(s, &start));
        TRY(keep_rest(s, start));
    } while (!s->at_end || s->n_bytes > 0);
    return ERR_OK;
}

err_t jsonl_read(int fd, const char *name, const jsonl_options_t *options, int64_t *n_lines)
{
    stream_t s = {.options = options, .name = name, .fd = fd};
    err_t err;
    s.capacity = options->block > 0 ? (size_t)options->block : BLOCK_BYTES;
    s.max_line = options->max_line > 0 ? (size_t)options->max_line : JSONL_MAX_LINE;
    s.n_readers = omp_get_max_threads() < MAX_THREADS ? omp_get_max_threads() : MAX_THREADS;
    TRY_OUT(err, mem_new(s.capacity, "a block of lines", &s.buffer));
    TRY_OUT(err, mem_new_array(BATCH_LINES, sizeof *s.batch, "lines", &s.batch));
    TRY_OUT(err, mem_new_array(s.n_readers, sizeof *s.readers, "parsers", &s.readers));
    for (int i = 0; i < s.n_readers; i++) s.readers[i].skip = options->skip;
    TRY_OUT(err, read_stream(&s));
    if (n_lines) *n_lines = s.n_lines;
out:
    for (int i = 0; s.readers && i < s.n_readers; i++) json_reader_free(&s.readers[i]);
    mem_free(&s.readers);
    mem_free(&s.batch);
    mem_free(&s.buffer);
    return err;
}
