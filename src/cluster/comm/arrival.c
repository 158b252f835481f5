/* SPDX-License-Identifier: MIT */
/* Turns the ranks' reports on NCCL's start-up into one verdict and message, the same on every rank. Gathering
 * the reports is left to nccl/nccl.c. */
#include "cluster/comm/arrival.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAMED = 8 };

static const char advice[] = "check NCCL_SOCKET_IFNAME (the network interface that NCCL uses) and firewalls "
                             "between the hosts, and run again with NCCL_DEBUG=INFO";

typedef struct names {
    char text[640];
    int n;
} names_t;

static void names_add(names_t *names, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void names_add(names_t *names, const char *format, ...)
{
    size_t used = strlen(names->text);
    va_list args;
    if (names->n++ >= MAX_NAMED) return;
    va_start(args, format);
    used += (size_t)snprintf(names->text + used, sizeof names->text - used, names->n > 1 ? ", " : "");
    vsnprintf(names->text + used, sizeof names->text - used, format, args);
    va_end(args);
}

static void names_add_more(names_t *names)
{
    size_t used = strlen(names->text);
    if (names->n > MAX_NAMED)
        snprintf(names->text + used, sizeof names->text - used, " and %d more", names->n - MAX_NAMED);
}

/* A failure that originated on a rank says more than one reported by a peer. */
static int first_failed(const arrival_t *arrivals, int size)
{
    int found = -1;
    for (int r = size - 1; r >= 0; r--) {
        if (arrivals[r].state != ARRIVAL_FAILED) continue;
        if (found < 0 || arrivals[r].code != ERR_PEER || arrivals[found].code == ERR_PEER) found = r;
    }
    return found;
}

static void name_hosts(const comm_gpu_t *gpus, int size, names_t *names)
{
    for (int r = 0; r < size; r++) {
        bool known = false;
        for (int i = 0; i < r && !known; i++) known = strcmp(gpus[i].host, gpus[r].host) == 0;
        if (!known) names_add(names, "%s", gpus[r].host);
    }
    names_add_more(names);
}

err_t arrival_judge(const arrival_t *arrivals, const comm_gpu_t *gpus, int size, double timeout_sec)
{
    names_t late = {.text = ""}, hosts = {.text = ""};
    int failed = first_failed(arrivals, size);
    if (failed >= 0)
        RAISE(arrivals[failed].code, "NCCL did not come up: rank %d on %s: %s", failed, gpus[failed].host,
              arrivals[failed].words);
    for (int r = 0; r < size; r++)
        if (arrivals[r].state == ARRIVAL_UNDER_WAY) names_add(&late, "rank %d on %s", r, gpus[r].host);
    if (late.n == 0) return ERR_OK;
    if (late.n < size) {
        names_add_more(&late);
        RAISE(ERR_PEER, "NCCL did not come up in %g s: %s did not arrive, the others did; %s", timeout_sec,
              late.text, advice);
    }
    name_hosts(gpus, size, &hosts);
    RAISE(ERR_PEER,
          "NCCL did not come up in %g s on any of the ranks 0 to %d, on %s: one of them cannot reach the "
          "others, and NCCL does not say which; %s",
          timeout_sec, size - 1, hosts.text, advice);
}
