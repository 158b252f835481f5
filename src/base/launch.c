/* SPDX-License-Identifier: MIT */
/* Reads rank and size from the launcher's environment, for messages and choices before MPI_Init. After it,
 * the communicator is the authority. */
#include "base/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sim.h"

/* OpenMPI's own names first, then PMIx and Slurm (srun). */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

static int first_number(const char *const *names, int n, int fallback)
{
    for (int i = 0; i < n; i++) {
        const char *text = getenv(names[i]);
        if (!text || !*text) continue;
        char *end;
        long value = strtol(text, &end, 10);
        if (*end == '\0' && value >= 0 && value < 1 << 24) return (int)value;
    }
    return fallback;
}

bool launch_present(void)
{
    return sim_is_rank() || first_number(rank_names, 3, -1) >= 0;
}

int launch_rank(void)
{
    return sim_is_rank() ? sim_rank() : first_number(rank_names, 3, 0);
}

void launch_host_name(char *out, size_t n_bytes)
{
    char name[256] = "";
    if (sim_is_rank())
        snprintf(name, sizeof name, "%s", sim_host_name());
    else if (gethostname(name, sizeof name - 1) != 0 || !name[0])
        strcpy(name, "localhost");
    snprintf(out, n_bytes, "%.*s", (int)n_bytes - 1, name);
}

bool launch_owns_process(void)
{
    return !sim_is_rank();
}

int launch_size(void)
{
    if (sim_is_rank()) return sim_size();
    return launch_present() ? first_number(size_names, 3, 1) : 1;
}
