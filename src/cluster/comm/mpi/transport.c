/* SPDX-License-Identifier: MIT */
/* Detects MPI's transport. MPI has no query for it, but Open MPI unloads the components that it did not
 * choose, so the libraries mapped by this process reveal it. */
#include <stdio.h>
#include <string.h>

#include "cluster/comm/collective.h"

typedef struct part {
    const char *mapped, *name;
} part_t;

/* In order of preference; the first one mapped is in use. */
static const part_t whole[] = {
    {"mca_pml_ucx", "UCX"}, {"mca_mtl_psm2", "PSM2"}, {"mca_mtl_ofi", "libfabric"}};
static const part_t inside[] = {{"mca_btl_vader", "vader"}, {"mca_btl_sm", "sm"}};
static const part_t between[] = {
    {"mca_btl_openib", "openib"}, {"mca_btl_uct", "UCT"}, {"mca_btl_tcp", "tcp"}};

enum { MAX_PARTS = 3 };

typedef struct found {
    bool whole[MAX_PARTS], inside[MAX_PARTS], between[MAX_PARTS];
} found_t;

static void mark_mapped(const char *line, const part_t *parts, int n, bool *found)
{
    for (int i = 0; i < n; i++) found[i] |= strstr(line, parts[i].mapped) != NULL;
}

static const char *first_mapped(const part_t *parts, int n, const bool *found)
{
    for (int i = 0; i < n; i++)
        if (found[i]) return parts[i].name;
    return NULL;
}

#define COUNT(parts) ((int)(sizeof(parts) / sizeof(parts)[0]))

/* Once: MPI chooses when it starts. */
static found_t find_parts(void)
{
    static found_t found;
    static bool known;
    char line[512];
    FILE *maps = known ? NULL : fopen("/proc/self/maps", "r");
    known = true;
    while (maps && fgets(line, sizeof line, maps)) {
        mark_mapped(line, whole, COUNT(whole), found.whole);
        mark_mapped(line, inside, COUNT(inside), found.inside);
        mark_mapped(line, between, COUNT(between), found.between);
    }
    if (maps) fclose(maps);
    return found;
}

void collective_transport(const comm_t *comm, char *out, size_t n_bytes)
{
    found_t found = find_parts();
    const char *one = first_mapped(whole, COUNT(whole), found.whole);
    const char *near = first_mapped(inside, COUNT(inside), found.inside);
    const char *far = first_mapped(between, COUNT(between), found.between);
    bool has_near = comm->topo.max_local_size > 1, has_far = comm->topo.n_hosts > 1;
    if (comm->size == 1)
        snprintf(out, n_bytes, "none");
    else if (one)
        snprintf(out, n_bytes, "%s", one);
    else
        snprintf(out, n_bytes, "%s%s%s%s%s%s", has_near ? "shared memory" : "", has_near && near ? " (" : "",
                 has_near && near ? near : "", has_near && near ? ")" : "", has_near && has_far ? " + " : "",
                 !has_far ? ""
                 : far    ? far
                          : "network");
}
