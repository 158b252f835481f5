/* SPDX-License-Identifier: MIT */
/* The time of a data-parallel step, in closed form. A rank computes forward, then the layers' gradients; train's own
 * rule (train/learn/bucket.h) decides when the sum of a bucket may start. Sums follow one another on the network. A
 * bucket starts when the slowest rank has it; the slowest rank of a step is the same for all buckets, because a
 * rank's step as a whole takes longer. The optimizer follows the last sum. Without overlap, as on CPUs, everything is
 * summed at once after backward.
 *
 * The parts of a step add up to it:
 *   compute    of a mean rank
 *   slowest    what waiting for the slowest rank adds
 *   latency    what α adds beyond that
 *   bandwidth  what B adds */
#ifndef TOOLS_FORECAST_STEP_H
#define TOOLS_FORECAST_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/forecast/network.h"

/* Layers in the order of the backward pass. */
typedef struct step_layer {
    double backward_sec;
    int64_t n_floats; /* of gradients that are final when it ends, padding included */
} step_layer_t;

typedef struct step_model {
    double before_sec; /* data wait and forward */
    double after_sec;  /* optimizer, and what no phase counts */
    const step_layer_t *layers;
    int n_layers;
    int64_t n_gradients; /* Σ n_floats */
    /* Steps of a rank without communication, divided by their mean: ascending, mean 1. */
    const double *spread;
    int64_t n_spread;
} step_model_t;

typedef struct step_setting {
    const network_t *network;
    double n_hosts, n_ranks;
    double bytes_per_float; /* on the wire */
    int64_t bucket_floats;  /* of train's bucket_floats */
    bool overlaps;          /* with the backward pass */
    double host_byte_sec;   /* the ranks of a host sum among themselves: seconds per byte */
} step_setting_t;

typedef enum step_part { STEP_COMPUTE, STEP_SLOWEST, STEP_LATENCY, STEP_BANDWIDTH, STEP_N_PARTS } step_part_t;
extern const char *const step_part_names[]; /* "compute", "slowest rank", "latency", "bandwidth" */

typedef struct step_time {
    double sec; /* mean step */
    double part_sec[STEP_N_PARTS];
} step_time_t;

/* A mean rank's step without communication. */
double step_alone_sec(const step_model_t *model);

/* A step in which every rank takes `factor` times the mean. */
double step_sec(const step_model_t *model, const step_setting_t *setting, double factor);

/* Mean over the draws of the slowest of n_ranks. */
step_time_t step_time(const step_model_t *model, const step_setting_t *setting);

#endif
