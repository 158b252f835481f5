/* SPDX-License-Identifier: MIT */
/* Writes checkpoints in the background: a thread copies the caller's arrays, writes the copy to the folder
 * (store/checkpoint/store.h) and prunes older files. Training goes on meanwhile, up to the first change of an
 * array. At most one write is in flight. Not collective: rank 0 owns one. */
#ifndef STORE_CHECKPOINT_ASYNC_H
#define STORE_CHECKPOINT_ASYNC_H

#include <stdbool.h>

#include "store/checkpoint/file.h"

typedef struct ckpt_async ckpt_async_t;

/* How a write ended. */
typedef struct ckpt_result {
    err_info_t error; /* code ERR_OK: it is on the device */
    int64_t step;
    int64_t n_bytes;  /* of the arrays */
    double copy_sec;  /* copying, in the caller and in the background */
    double write_sec; /* write, flush and prune in the background */
} ckpt_result_t;

/* Reserves and touches memory for n_bytes of arrays (more is taken when needed), starts the thread.
 * timeout_sec: deadline of every wait for the disk. */
err_t ckpt_async_open(int64_t n_bytes, double timeout_sec, ckpt_async_t **out);

/* Takes `content` over and returns; the file of `step` appears in `folder`, which keeps its newest `keep`.
 * The data of the first n_deferred arrays is copied in the background: it must not change before
 * ckpt_async_copied returned. Everything else is copied at once. A state that holds NaN or
 * Inf is not written: the result is ERR_GATE. Nothing may be in flight, and the last
 * result must have been taken. */
err_t ckpt_async_submit(ckpt_async_t *async, const char *folder, int64_t step, int keep,
                        const ckpt_content_t *content, int n_deferred);

/* Waits until what was submitted is copied; at once when nothing is. A copy waits for nobody, so there is no
 * deadline to miss. */
void ckpt_async_copied(ckpt_async_t *async);

/* True when a write has ended whose result was not taken yet; then *out has it. */
bool ckpt_async_take(ckpt_async_t *async, ckpt_result_t *out);

/* Waits until nothing is in flight. ERR_SYSTEM when the disk does not answer within the deadline. */
err_t ckpt_async_wait(ckpt_async_t *async);

/* Waits for the write in flight, within the deadline, and ends the thread. NULL inside is fine. */
void ckpt_async_close(ckpt_async_t **async);

#endif
