/* SPDX-License-Identifier: MIT */
/* --trace FILE: what every rank did and when, in Chrome's Trace Event Format (JSON; complete events "X",
 * times in microseconds), which ui.perfetto.dev and chrome://tracing show. A process is a rank, a thread a
 * track of base/trace.h; times are on rank 0's clock. */
#ifndef TRAIN_OUTPUT_TRACE_FILE_H
#define TRAIN_OUTPUT_TRACE_FILE_H

#include "cluster/comm/clock.h"

typedef struct trace_file_options {
    const char *path; /* rank 0 writes it; NULL: no trace, and every call does nothing */
    const char *model;
    int64_t first_step, n_steps; /* of the run, from here on */
    int64_t n_traced;            /* at most; 0: as many as fit */
    int n_layers, n_parts;       /* passes of a step: layers in each part of a batch */
} trace_file_options_t;

typedef struct trace_file {
    comm_t *comm;
    trace_file_options_t options;
    comm_clock_mark_t start;
    double error_sec; /* how far this rank's times may be from rank 0's clock */
} trace_file_t;

/* Not collective; rank 0, before anything is made. ERR_USAGE, ERR_SYSTEM when the file can't be written. */
err_t trace_file_check(const char *path);

/* Collective. Begins the recording; before the threads that are recorded start. */
err_t trace_file_begin(comm_t *comm, const trace_file_options_t *options, trace_file_t *out);

/* Collective. Writes what was recorded to a temporary name and renames it. ERR_SYSTEM with the path. */
err_t trace_file_write(trace_file_t *trace);

#endif
