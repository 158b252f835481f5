/* SPDX-License-Identifier: MIT */
/* What the records say that a forecast starts from. Nothing but MEASURED_ASSUMED_ERROR is filled in: what is missing
 * or contradicts itself is ERR_DATA, and the message says what to record. */
#ifndef TOOLS_FORECAST_MEASURED_H
#define TOOLS_FORECAST_MEASURED_H

#include "base/arena.h"
#include "report/records/profile.h"
#include "tools/forecast/fit.h"

enum { MEASURED_MIN_SAMPLES = 10, MEASURED_FEW_SAMPLES = 100, MEASURED_MAX_SAMPLES = 2048 };

/* Standard error of a point of too few samples, relative. */
#define MEASURED_ASSUMED_ERROR 0.1

typedef struct measured {
    const report_run_t *run;  /* training run whose profile counts */
    const char *communicator; /* of the points: "mpi", "host", "nccl" */
    const char *trained_with; /* how the run sums gradients, if the points measure another; or NULL */
    double ranks_per_host;    /* of the points */
    fit_t fit;                /* between hosts */
    double line_gbps;         /* of the hosts' ports, in Gbit/s; 0: not recorded */
    double host_byte_sec;     /* the sum among the ranks of a host; 0: one rank, or part of the fit */
    int n_disturbed;          /* points between hosts whose samples were disturbed */
    int n_without_error;      /* points between hosts with MEASURED_ASSUMED_ERROR */
    bool host_in_fit;         /* several ranks per host, and no points of one host */
    const double *samples;    /* steps without communication, ascending, at most MEASURED_MAX_SAMPLES */
    int64_t n_samples;
    int64_t n_recorded; /* samples that these stand for */
    bool of_every_rank; /* otherwise of rank 0 */
} measured_t;

/* Reads a report with keep_samples. In any order of the records.
 *
 *   model  whose profile counts, or NULL: of the only model; a model that was not measured takes the samples of the
 *          last run */
err_t measured_find(const report_t *report, const char *model, arena_t *arena, measured_t *out);

/* Whether a training run of this model has a profile. */
bool measured_has(const report_t *report, const char *model);

#endif
