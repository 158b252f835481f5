/* SPDX-License-Identifier: MIT */
/* Closed forms of an allreduce between hosts. Fitting α and B is left to fit.c. */
#include "tools/forecast/network.h"

#include <stddef.h>

const char *const network_algorithm_names[] = {"ring", "tree", NULL};

static void add_messages(const network_t *network, network_demand_t *demand, double count, double n_bytes)
{
    int r = 0;
    while (r < network->n_ranges - 1 && n_bytes > network->range[r].max_bytes) r++;
    demand->messages[r] += count;
    demand->bytes[r] += count * n_bytes;
}

network_demand_t network_demand(const network_t *network, double n_hosts, double n_bytes)
{
    network_demand_t demand = {{0}, {0}};
    double p = 1, part = n_bytes / 2;
    if (n_hosts <= 1) return demand;
    if (network->algorithm == NETWORK_RING) {
        add_messages(network, &demand, 2 * (n_hosts - 1), n_bytes / n_hosts);
        return demand;
    }
    for (; 2 * p <= n_hosts; p *= 2, part /= 2) add_messages(network, &demand, 2, part);
    if (p < n_hosts) add_messages(network, &demand, 2, n_bytes);
    return demand;
}

double network_allreduce_sec(const network_t *network, double n_hosts, double n_bytes, double *latency_sec)
{
    const network_demand_t demand = network_demand(network, n_hosts, n_bytes);
    double latency = 0, transfer = 0;
    for (int r = 0; r < network->n_ranges; r++) {
        latency += demand.messages[r] * network->range[r].alpha_sec;
        transfer += demand.bytes[r] * network->range[r].byte_sec;
    }
    if (latency_sec) *latency_sec = latency;
    return latency + transfer;
}

network_t network_scaled(const network_t *network, double factor)
{
    network_t scaled = *network;
    for (int r = 0; r < scaled.n_ranges; r++) scaled.range[r].byte_sec /= factor;
    return scaled;
}
