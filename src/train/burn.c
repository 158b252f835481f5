#include "train/burn.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static const char *const phases[] = {"data", "forward", "backward", "allreduce", "optimizer", "comm",
                                     "gemm", "conv",    "mem",      "io",        NULL};

err_t burn_parse(const char *text, burn_t *out)
{
    *out = (burn_t){0};
    if (!text) return ERR_OK;
    const char *colon = strchr(text, ':');
    char *end = NULL;
    if (colon) out->share = strtod(colon + 1, &end);
    if (!colon || end == colon + 1 || *end || !(out->share > 0 && out->share <= 100))
        RAISE(ERR_USAGE, "--burn wants PHASE:SHARE, like backward:0.05, not '%s'", text);
    for (int i = 0; phases[i]; i++)
        if (strncmp(text, phases[i], (size_t)(colon - text)) == 0 && !phases[i][colon - text])
            out->phase = phases[i];
    if (!out->phase)
        RAISE(ERR_USAGE,
              "--burn knows data, forward, backward, allreduce, optimizer, comm, gemm, conv, mem and io, not "
              "'%.*s'",
              (int)(colon - text), text);
    return ERR_OK;
}

double burn_now(const burn_t *burn, const char *phase, double whole_sec)
{
    if (!burn->phase || strcmp(burn->phase, phase) != 0) return 0;
    double start = clock_sec(), now = start;
    while (now - start < burn->share * whole_sec) now = clock_sec();
    return now - start;
}
