/* SPDX-License-Identifier: MIT */
/* Scalars as an event file that TensorBoard reads. Not collective: written by rank 0; on other ranks every
 * call does nothing.
 *
 * The file is a row of TFRecords, integers little-endian:
 *   uint64 length · uint32 masked CRC-32C of it · the Event (tensorboard.proto) · uint32 masked CRC-32C of
 * that with mask(crc) = rotate_right(crc, 15) + 0xa282ead8 (TensorFlow, core/lib/io/record_writer). The first
 * event names the version; the second is a SessionLog START, at which TensorBoard drops what earlier files of
 * the folder hold from that step on, so that a resumed run leaves one series. */
#ifndef TRAIN_OUTPUT_TENSORBOARD_H
#define TRAIN_OUTPUT_TENSORBOARD_H

#include <stdint.h>

#include "base/fs.h"

typedef struct tensorboard {
    void *file;    /* FILE, NULL where nothing is written */
    char *buffer;  /* the FILE's */
    uint8_t *data; /* the event being packed */
    char path[FS_PATH_MAX];
} tensorboard_t;

typedef struct tensorboard_scalar {
    const char *tag; /* "train/loss" */
    double value;    /* stored as float */
} tensorboard_scalar_t;

enum { TENSORBOARD_MAX_SCALARS = 8 };

/* Starts folder/events.out.tfevents.TIME.HOST.PID and flushes its head; the folder is made when it is
 * missing. A NULL folder writes nothing. n_steps: optimizer steps done before; earlier files' later steps are
 * dropped. TensorBoard reads the files in the order of their names: TIME is the Unix time, or what sorts
 * behind the files that are there. ERR_SYSTEM or ERR_USAGE when no file can be made. */
err_t tensorboard_open(tensorboard_t *tensorboard, const char *folder, int64_t n_steps);

/* One event with n scalars, 1 up to TENSORBOARD_MAX_SCALARS, after `step` optimizer steps. Allocates nothing.
 * flush: let readers see it now. ERR_SYSTEM when the disk is full. */
err_t tensorboard_write(tensorboard_t *tensorboard, int64_t step, const tensorboard_scalar_t *scalars, int n,
                        bool flush);

/* Closing reports what a full disk swallowed. */
err_t tensorboard_close(tensorboard_t *tensorboard);

/* CRC-32C (Castagnoli; RFC 3720, appendix B.4). */
uint32_t tensorboard_crc32c(const void *data, size_t n_bytes);

#endif
