/* SPDX-License-Identifier: MIT */
/* A writer thread with a copy of the state: copies arrays, refuses NaN and Inf, writes, reads back, and prunes. When to
 * write is decided in train/run. */
#include "store/checkpoint/async.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "store/checkpoint/store.h"

typedef enum phase { PHASE_IDLE, PHASE_COPYING, PHASE_WRITING, PHASE_ENDED, PHASE_CLOSING } phase_t;

struct ckpt_async {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    phase_t phase;
    double timeout_sec;
    /* The copy: descriptions, then names and texts, then array data, in one block each. */
    char *block;
    size_t block_bytes;
    ckpt_content_t content;
    const void **deferred; /* sources of the first n_deferred arrays */
    int n_deferred;
    char folder[FS_PATH_MAX];
    const char *fed; /* by ckpt_async_feed, and not taken yet */
    size_t n_fed;
    bool starves; /* nothing more will be fed */
    ckpt_keep_t keep;
    owner_t *owner;
    ckpt_verified_t verified; /* in the last folder */
    ckpt_copied_t check;      /* or NULL */
    void *check_context;
    ckpt_result_t result;
};

static size_t array_bytes(const ckpt_array_t *array)
{
    return (size_t)shape_count(array->shape) * dtype_size(array->dtype);
}

/* Allocates parts of the block; with `block` NULL, only counts bytes. */
typedef struct cursor {
    char *block;
    size_t used;
} cursor_t;

static void *cursor_put(cursor_t *cursor, const void *data, size_t n_bytes)
{
    void *to = cursor->block ? cursor->block + cursor->used : NULL;
    if (to && n_bytes > 0) memcpy(to, data, n_bytes);
    cursor->used += mem_round(n_bytes);
    return to;
}

static const char *cursor_put_text(cursor_t *cursor, const char *text)
{
    return text ? cursor_put(cursor, text, strlen(text) + 1) : NULL;
}

/* Copies the content into the cursor's block. Only reserves space for data of the first n_deferred arrays. */
static ckpt_content_t copy_content(cursor_t *cursor, const ckpt_content_t *from, int n_deferred,
                                   const void ***deferred)
{
    ckpt_content_t to = *from;
    ckpt_array_t *arrays = cursor_put(cursor, from->arrays, (size_t)from->n_arrays * sizeof *arrays);
    h5_attr_t *attrs = cursor_put(cursor, from->attrs, (size_t)from->n_attrs * sizeof *attrs);
    *deferred = cursor_put(cursor, NULL, 0);
    cursor->used += mem_round((size_t)n_deferred * sizeof **deferred);
    for (int i = 0; i < from->n_arrays; i++) {
        ckpt_array_t array = from->arrays[i];
        size_t n_bytes = array_bytes(&array);
        array.name = cursor_put_text(cursor, array.name);
        array.meaning = cursor_put_text(cursor, array.meaning);
        if (i < n_deferred && *deferred) (*deferred)[i] = array.data;
        if (array.data) array.data = cursor_put(cursor, array.data, i < n_deferred ? 0 : n_bytes);
        if (i < n_deferred) cursor->used += mem_round(n_bytes);
        if (arrays) arrays[i] = array;
    }
    for (int i = 0; i < from->n_attrs; i++) {
        h5_attr_t attr = from->attrs[i];
        attr.name = cursor_put_text(cursor, attr.name);
        attr.text = cursor_put_text(cursor, attr.text);
        if (attrs) attrs[i] = attr;
    }
    to.arrays = arrays;
    to.attrs = attrs;
    return to;
}

static void trace_part(const ckpt_async_t *a, const char *name, double start, double end)
{
    trace_add(TRACE_CHECKPOINT, &(trace_span_t){name, "phase", start, end, a->result.step - 1, 0});
}

/* ckpt_source_t.read, on the writer's thread. */
static err_t take_fed(void *context, const ckpt_array_t *array, size_t n_bytes, void *out)
{
    ckpt_async_t *a = context;
    char *to = out;
    for (size_t done = 0; done < n_bytes;) {
        pthread_mutex_lock(&a->lock);
        while (a->n_fed == 0 && !a->starves) pthread_cond_wait(&a->changed, &a->lock);
        const size_t n = a->n_fed < n_bytes - done ? a->n_fed : n_bytes - done;
        if (n > 0) memcpy(to + done, a->fed, n);
        a->fed += n;
        a->n_fed -= n;
        done += n;
        if (a->n_fed == 0) pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        if (n == 0)
            RAISE(ERR_PEER,
                  "the checkpoint of step %lld was not written: not all ranks sent their optimizer state",
                  (long long)a->result.step);
    }
    return checkpoint_check_values(array, out, (int64_t)(n_bytes / dtype_size(array->dtype)), a->result.step,
                                   a->folder);
}

/* Unless `err` says that the copy is wrong. */
static void write_copy(ckpt_async_t *a, err_t err)
{
    char path[FS_PATH_MAX];
    double start = clock_sec();
    if (err == ERR_OK) err = checkpoint_check_finite(&a->content, a->result.step, a->folder);
    if (err == ERR_OK) err = checkpoint_store_path(a->folder, a->result.step, path);
    const ckpt_source_t fed = {take_fed, a};
    if (err == ERR_OK) err = checkpoint_write_owned(path, &a->content, &fed, a->owner);
    double end = clock_sec();
    a->result.write_sec = end - start;
    trace_part(a, "write", start, end);
    if (err == ERR_OK) {
        start = clock_sec();
        err = checkpoint_store_read_back(a->folder, a->result.step);
        /* Nothing older is deleted before the new file is known to be intact. */
        if (err == ERR_OK) err = ckpt_verified_add(&a->verified, a->result.step);
        if (err == ERR_OK) err = owner_verify(a->owner);
        if (err == ERR_OK) err = checkpoint_store_prune(a->folder, a->keep, a->result.step, &a->verified);
        end = clock_sec();
        a->result.verify_sec = end - start;
        trace_part(a, "read back", start, end);
    }
    a->result.error = (err_info_t){ERR_OK, ""};
    if (err != ERR_OK) err_take(err, &a->result.error);
}

static void enter_phase(ckpt_async_t *a, phase_t phase)
{
    pthread_mutex_lock(&a->lock);
    a->phase = phase;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static void *async_main(void *context)
{
    ckpt_async_t *a = context;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (a->phase != PHASE_COPYING && a->phase != PHASE_CLOSING)
            pthread_cond_wait(&a->changed, &a->lock);
        if (a->phase == PHASE_CLOSING) break;
        pthread_mutex_unlock(&a->lock);
        double start = clock_sec();
        for (int i = 0; i < a->n_deferred; i++) {
            const ckpt_array_t *array = &a->content.arrays[i];
            /* Drops const: the data is in our block. */
            char *to = a->block + ((const char *)array->data - a->block);
            if (array_bytes(array) > 0) memcpy(to, a->deferred[i], array_bytes(array));
        }
        double end = clock_sec();
        a->result.copy_sec += end - start;
        trace_part(a, "copy", start, end);
        err_t err = a->check ? a->check(a->check_context) : ERR_OK;
        enter_phase(a, PHASE_WRITING);
        write_copy(a, err);
        enter_phase(a, PHASE_ENDED);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static err_t async_grow(ckpt_async_t *a, size_t n_bytes)
{
    if (n_bytes <= a->block_bytes) return ERR_OK;
    mem_free(&a->block);
    a->block_bytes = 0;
    TRY(mem_new(n_bytes, "the copy of a checkpoint", &a->block));
    a->block_bytes = n_bytes;
    return ERR_OK;
}

err_t ckpt_async_open(int64_t n_bytes, double timeout_sec, owner_t *owner, ckpt_async_t **out)
{
    enum { ROOM_FOR_TEXT = 1 << 18 };
    ckpt_async_t *a;
    TRY(mem_new(sizeof *a, "the checkpoint writer", &a));
    err_t err = async_grow(a, (size_t)n_bytes + ROOM_FOR_TEXT);
    if (err != ERR_OK) {
        mem_free(&a);
        return err;
    }
    a->timeout_sec = timeout_sec;
    a->owner = owner;
    pthread_mutex_init(&a->lock, NULL);
    thread_cond_init(&a->changed);
    int reason = thread_start(&a->thread, async_main, a);
    if (reason != 0) {
        mem_free(&a->block);
        mem_free(&a);
        RAISE(ERR_SYSTEM, "cannot start the checkpoint writer: %s", strerror(reason));
    }
    *out = a;
    return ERR_OK;
}

void ckpt_async_check_copies(ckpt_async_t *a, ckpt_copied_t check, void *context)
{
    ASSERT(a->phase == PHASE_IDLE);
    a->check = check;
    a->check_context = context;
}

err_t ckpt_async_submit(ckpt_async_t *a, const char *folder, int64_t step, ckpt_keep_t keep,
                        const ckpt_content_t *content, int n_deferred)
{
    ASSERT(a->phase == PHASE_IDLE && n_deferred >= 0 && n_deferred <= content->n_arrays);
    double start = clock_sec();
    cursor_t count = {NULL, 0};
    copy_content(&count, content, n_deferred, &a->deferred);
    TRY(async_grow(a, count.used));
    cursor_t fill = {a->block, 0};
    a->content = copy_content(&fill, content, n_deferred, &a->deferred);
    a->n_deferred = n_deferred;
    if (strcmp(a->folder, folder) != 0) a->verified.n = 0;
    snprintf(a->folder, sizeof a->folder, "%s", folder);
    a->keep = keep;
    a->result = (ckpt_result_t){.step = step};
    a->n_fed = 0;
    a->starves = false;
    for (int i = 0; i < content->n_arrays; i++)
        a->result.n_bytes += (int64_t)array_bytes(&content->arrays[i]);
    a->result.copy_sec = clock_sec() - start;
    enter_phase(a, PHASE_COPYING);
    return ERR_OK;
}

void ckpt_async_copied(ckpt_async_t *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->phase == PHASE_COPYING) pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

bool ckpt_async_take(ckpt_async_t *a, ckpt_result_t *out)
{
    pthread_mutex_lock(&a->lock);
    bool ended = a->phase == PHASE_ENDED;
    if (ended) {
        *out = a->result;
        a->phase = PHASE_IDLE;
    }
    pthread_mutex_unlock(&a->lock);
    return ended;
}

static bool writes(const ckpt_async_t *a)
{
    return a->phase == PHASE_COPYING || a->phase == PHASE_WRITING;
}

/* False when the deadline passed. */
static bool wait_for_disk(ckpt_async_t *a)
{
    struct timespec deadline = thread_time_after(ceil(a->timeout_sec));
    int reason = 0;
    pthread_mutex_lock(&a->lock);
    while (writes(a) && reason != ETIMEDOUT)
        reason = pthread_cond_timedwait(&a->changed, &a->lock, &deadline);
    bool ended = !writes(a);
    pthread_mutex_unlock(&a->lock);
    return ended;
}

static err_t raise_slow(const ckpt_async_t *a)
{
    RAISE(
        ERR_SYSTEM,
        "the checkpoint of step %lld was not written to %s within %g s; check that the file server responds",
        (long long)a->result.step, a->folder, a->timeout_sec);
}

err_t ckpt_async_wait(ckpt_async_t *a)
{
    return wait_for_disk(a) ? ERR_OK : raise_slow(a);
}

err_t ckpt_async_feed(ckpt_async_t *a, const void *data, size_t n_bytes)
{
    struct timespec deadline = thread_time_after(ceil(a->timeout_sec));
    int reason = 0;
    pthread_mutex_lock(&a->lock);
    a->fed = data;
    a->n_fed = n_bytes;
    a->starves = !data;
    pthread_cond_broadcast(&a->changed);
    while (a->n_fed > 0 && writes(a) && reason != ETIMEDOUT)
        reason = pthread_cond_timedwait(&a->changed, &a->lock, &deadline);
    const bool slow = a->n_fed > 0 && writes(a);
    a->n_fed = 0;
    a->starves = a->starves || slow;
    pthread_mutex_unlock(&a->lock);
    return slow ? raise_slow(a) : ERR_OK;
}

void ckpt_async_close(ckpt_async_t **async)
{
    ckpt_async_t *a = *async;
    if (!a) return;
    *async = NULL;
    pthread_mutex_lock(&a->lock);
    a->starves = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    /* A thread that hangs in the kernel is abandoned; it ends with the process. */
    if (!wait_for_disk(a)) return;
    enter_phase(a, PHASE_CLOSING);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    mem_free(&a->verified.steps);
    mem_free(&a->block);
    mem_free(&a);
}
