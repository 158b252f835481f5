/* SPDX-License-Identifier: MIT */
/* --trace FILE: a timeline of all ranks in Chrome's Trace Event Format (JSON; complete events "X", times in
 * microseconds), for ui.perfetto.dev and chrome://tracing. Processes are ranks, threads are the tracks of
 * base/clock.h, and times are on rank 0's clock. */
#ifndef TRAIN_OUTPUT_TRACE_FILE_H
#define TRAIN_OUTPUT_TRACE_FILE_H

#include "cluster/comm/comm.h"

typedef struct trace_file_options {
    const char *path; /* written by rank 0; NULL: no trace, and every call does nothing */
    const char *model;
    int64_t first_step, n_steps; /* this run's first step and the number of steps it has left */
    int64_t n_traced;            /* maximum number of steps to trace; 0: as many as fit */
    int n_layers, n_parts;       /* layers, and parts of a batch, per step */
} trace_file_options_t;

typedef struct trace_file {
    comm_t *comm;
    trace_file_options_t options;
    comm_clock_mark_t start;
    double error_sec; /* maximum error of this rank's times on rank 0's clock */
} trace_file_t;

/* Rank 0, not collective, before any output is created. ERR_USAGE or ERR_SYSTEM when the file cannot be
 * written. */
err_t trace_file_check(const char *path);

/* Collective. Starts recording. Call before starting the threads to be recorded. */
err_t trace_file_begin(comm_t *comm, const trace_file_options_t *options, trace_file_t *out);

/* Collective. Writes the trace atomically. ERR_SYSTEM naming the path. */
err_t trace_file_write(trace_file_t *trace);

#endif
