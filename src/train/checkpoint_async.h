/* Writes checkpoints in the background: the caller's arrays are copied, and a thread writes the copy to the folder
 * (checkpoint_store.h) and prunes older files. At most one write is in flight. Not collective: rank 0 owns one. */
#ifndef TRAIN_CHECKPOINT_ASYNC_H
#define TRAIN_CHECKPOINT_ASYNC_H

#include <stdbool.h>

#include "train/checkpoint_file.h"

typedef struct ckpt_async ckpt_async_t;

/* How a write ended. */
typedef struct ckpt_result {
    err_info_t error; /* code ERR_OK: it is on the device */
    int64_t step;
    int64_t n_bytes;  /* of the arrays */
    double copy_sec;  /* what the caller waited for: the copy alone */
    double write_sec; /* write, flush and prune in the background */
} ckpt_result_t;

/* Reserves and touches memory for n_bytes of arrays (more is taken when needed), starts the thread. timeout_sec:
 * deadline of every wait for the disk. */
err_t ckpt_async_open(int64_t n_bytes, double timeout_sec, ckpt_async_t **out);

/* Copies `content` and returns; the file of `step` appears in `folder`, which keeps its newest `keep`. Nothing may
 * be in flight, and the last result must have been taken. */
err_t ckpt_async_submit(ckpt_async_t *async, const char *folder, int64_t step, int keep,
                        const ckpt_content_t *content);

/* True when a write has ended whose result was not taken yet; then *out has it. */
bool ckpt_async_take(ckpt_async_t *async, ckpt_result_t *out);

/* Waits until nothing is in flight. ERR_SYSTEM when the disk does not answer within the deadline. */
err_t ckpt_async_wait(ckpt_async_t *async);

/* Waits for the write in flight, within the deadline, and ends the thread. NULL inside is fine. */
void ckpt_async_close(ckpt_async_t **async);

#endif
