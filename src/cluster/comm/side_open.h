/* SPDX-License-Identifier: MIT */
/* Opening the side channel of a job. */
#ifndef CLUSTER_COMM_SIDE_OPEN_H
#define CLUSTER_COMM_SIDE_OPEN_H

#include "cluster/comm/comm.h"
#include "cluster/comm/side_channel.h"

/* Collective. Opens the channel; waits for no connection. *out stays NULL if there is a single group, or if
 * the channel is not available.
 *
 *   shares_memory  the ranks of each host share the watchdog's slots */
err_t side_open(comm_t *comm, bool shares_memory, side_t **out);

#endif
