/* SPDX-License-Identifier: MIT */
/* Writes checkpoints in the background: a thread copies the caller's arrays, writes the copy to the folder
 * (store/checkpoint/store.h), reads it back, and prunes older files, while training continues up to the first change of an
 * array. At most one write is in flight. Not collective: only rank 0 has a writer. */
#ifndef STORE_CHECKPOINT_ASYNC_H
#define STORE_CHECKPOINT_ASYNC_H

#include <stdbool.h>

#include "store/checkpoint/file.h"

typedef struct ckpt_async ckpt_async_t;

/* How a write ended. */
typedef struct ckpt_result {
    err_info_t error; /* code ERR_OK: the file was flushed to the device and read back */
    int64_t step;
    int64_t n_bytes;   /* of the arrays */
    double copy_sec;   /* copying, in the caller and in the background */
    double write_sec;  /* write and flush in the background */
    double verify_sec; /* reading it back, and pruning */
} ckpt_result_t;

/* Allocates and touches memory, and starts the thread.
 *
 *   n_bytes      expected size of the arrays; grows as needed
 *   timeout_sec  deadline of every wait for the disk
 *   owner        of the folder, for checkpoint_write_owned; borrowed; may be NULL */
err_t ckpt_async_open(int64_t n_bytes, double timeout_sec, owner_t *owner, ckpt_async_t **out);

/* Called in the background after each copy, before the sources of the deferred arrays may change. An error is the
 * write's result, and nothing is written. */
typedef err_t (*ckpt_copied_t)(void *context);

/* Sets what is called; nothing may be in flight. */
void ckpt_async_check_copies(ckpt_async_t *async, ckpt_copied_t check, void *context);

/* Starts writing a checkpoint. Nothing may be in flight, and the last result must have been taken. A state
 * with NaN or Inf is not written: the result is ERR_GATE.
 *
 *   keep        checkpoints to keep in `folder`
 *   content     copied before the call returns, except for the deferred arrays
 *   n_deferred  the data of the first n_deferred arrays is copied in the background: it must not change until
 *               ckpt_async_copied returns */
err_t ckpt_async_submit(ckpt_async_t *async, const char *folder, int64_t step, ckpt_keep_t keep,
                        const ckpt_content_t *content, int n_deferred);

/* After ckpt_async_submit of arrays without data: the next bytes of one, in the order of the list. Waits until the thread
 * has taken them, or needs no more because the write has failed. ERR_SYSTEM if the disk does not respond within the
 * deadline.
 *
 *   data  NULL: nothing more will come, and the write fails */
err_t ckpt_async_feed(ckpt_async_t *async, const void *data, size_t n_bytes);

/* Waits until the submitted data, if any, is copied. Without a deadline, since copying does not block. */
void ckpt_async_copied(ckpt_async_t *async);

/* True if a write has ended whose result was not taken yet; *out is the result. */
bool ckpt_async_take(ckpt_async_t *async, ckpt_result_t *out);

/* Waits until nothing is in flight. ERR_SYSTEM if the disk does not respond within the deadline. */
err_t ckpt_async_wait(ckpt_async_t *async);

/* Waits for the write in flight, within the deadline, and ends the thread. A write that is still to be fed fails. *async may
 * be NULL. */
void ckpt_async_close(ckpt_async_t **async);

#endif
