/* SPDX-License-Identifier: MIT */
/* Writes scalars to a TensorBoard event file. Not collective: rank 0 writes; on other ranks every call does
 * nothing.
 *
 * The file is a sequence of TFRecords, integers little-endian:
 *
 *   uint64   length of the event
 *   uint32   masked CRC-32C of the length
 *   bytes    the Event (tensorboard.proto)
 *   uint32   masked CRC-32C of the event
 *
 * with mask(crc) = rotate_right(crc, 15) + 0xa282ead8 (TensorFlow, core/lib/io/record_writer). The first
 * event holds the version. The second is a SessionLog START, which makes TensorBoard discard the events of
 * earlier files from that step on, so that a resumed run shows one series. */
#ifndef TRAIN_OUTPUT_TENSORBOARD_H
#define TRAIN_OUTPUT_TENSORBOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fs.h"

typedef struct tensorboard {
    void *file;    /* FILE; NULL if nothing is written */
    char *buffer;  /* of the FILE */
    uint8_t *data; /* the event being packed */
    char path[FS_PATH_MAX];
} tensorboard_t;

enum { TENSORBOARD_MAX_SCALARS = 24, TENSORBOARD_TAG_MAX = 48 };

typedef struct tensorboard_scalar {
    char tag[TENSORBOARD_TAG_MAX]; /* "train/loss" */
    double value;                  /* stored as float */
} tensorboard_scalar_t;

/* The scalars of an event. */
typedef struct tensorboard_scalars {
    int n;
    tensorboard_scalar_t at[TENSORBOARD_MAX_SCALARS];
} tensorboard_scalars_t;

/* Creates folder/events.out.tfevents.TIME.HOST.PID and flushes its head. TensorBoard reads files in the order
 * of their names: TIME is the Unix time, or later so that the file sorts after existing ones.
 *
 *   folder    created if missing; NULL: write nothing
 *   n_steps   optimizer steps done before; later steps of earlier files are discarded
 *
 * ERR_SYSTEM or ERR_USAGE when the file cannot be created. */
err_t tensorboard_open(tensorboard_t *tensorboard, const char *folder, int64_t n_steps);

/* The same for a run that has no events yet, which shares its folder with no other: the folder itself, or if there are event files in it, also of
 * a job that starts at the same time, the first free of folder/run-2, folder/run-3, … Writes the choice to
 * chosen[FS_PATH_MAX]. */
err_t tensorboard_open_new(tensorboard_t *tensorboard, const char *folder, int64_t n_steps, char *chosen);

/* Whether tensorboard_open_new chose `record`, the real path of a folder, for this folder, however its path was written
 * then. If so, writes the record's folder below it to chosen[FS_PATH_MAX]. */
bool tensorboard_reopens(const char *folder, const char *record, char *chosen);

/* Writes one event. Allocates nothing. ERR_SYSTEM when the disk is full.
 *
 *   step    optimizer steps done
 *   n       number of scalars, 1 … TENSORBOARD_MAX_SCALARS
 *   flush   make the event visible to readers now */
err_t tensorboard_write(tensorboard_t *tensorboard, int64_t step, const tensorboard_scalar_t *scalars, int n,
                        bool flush);

/* Adds the scalar group/label; NAN: does nothing. */
void tensorboard_add(tensorboard_scalars_t *scalars, const char *group, const char *label, double value);

/* Closes the file. ERR_SYSTEM when buffered events cannot be written. */
err_t tensorboard_close(tensorboard_t *tensorboard);

/* CRC-32C (Castagnoli; RFC 3720, appendix B.4). */
uint32_t tensorboard_crc32c(const void *data, size_t n_bytes);

#endif
