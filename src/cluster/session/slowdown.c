/* SPDX-License-Identifier: MIT */
/* Injected slowdown: parses the hidden option --burn and spins for a share of a phase's time. */
#include "cluster/session/slowdown.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/opt.h"

static const char *const phases[] = {"data", "forward", "backward", "allreduce", "optimizer",
                                     "comm", "gemm",    "conv",     "mem",       "io"};
enum { N_PHASES = sizeof phases / sizeof *phases };

err_t slowdown_parse(const char *text, slowdown_t *out)
{
    *out = (slowdown_t){0};
    if (!text) return ERR_OK;
    const char *colon = strchr(text, ':');
    char *end = NULL;
    out->rank = -1;
    if (colon) out->share = strtod(colon + 1, &end);
    bool valid = colon && end > colon + 1 && out->share > 0 && out->share <= 1e9;
    if (valid && *end == '@') {
        const char *digits = end + 1;
        const long rank = strtol(digits, &end, 10);
        valid = end > digits && rank >= 0 && rank < INT_MAX;
        out->rank = (int)rank;
    }
    if (!valid || *end)
        RAISE(ERR_USAGE, "invalid --burn '%s': expected PHASE:SHARE such as backward:0.05", text);
    char phase[32];
    snprintf(phase, sizeof phase, "%.*s", (int)(colon - text), text);
    for (int i = 0; i < N_PHASES; i++)
        if (strcmp(phase, phases[i]) == 0) out->phase = phases[i];
    if (out->phase) return ERR_OK;
    const char *nearest = opt_nearest(phase, phases, N_PHASES);
    RAISE(ERR_USAGE, "--burn: unknown phase '%s'; did you mean %s?", phase, nearest ? nearest : phases[0]);
}

double slowdown_now(const slowdown_t *slowdown, const char *phase, double whole_sec)
{
    if (!slowdown->phase || strcmp(slowdown->phase, phase) != 0) return 0;
    double start = clock_sec(), now = start;
    while (now - start < slowdown->share * whole_sec) now = clock_sec();
    return now - start;
}
