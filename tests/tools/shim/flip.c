/* SPDX-License-Identifier: MIT */
/* Preloaded into the ranks by tests/cli/replay.bats: a bit that changes in the memory of one rank. The hashes of training
 * show where its numbers are. FLIP="WHAT RANK N":
 *
 *   weights, momentum  after the N-th comparison of replicas, as hashed then
 *   gradients          of the N-th shard that the rank computes, before they are hashed and summed
 *   states             batch norm's, before the N-th time that they are averaged
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 4096, STATES_MIN = 192 };

static struct {
    char what[16];
    int n;
} flip;
static void *weights, *momentum;
static size_t n_weights, n_momentum;
static uint64_t last;
static int part, n_seen;

__attribute__((constructor)) static void flip_begin(void)
{
    const char *spec = getenv("FLIP"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    int wanted = -1;
    if (!spec || sscanf(spec, "%15s %d %d", flip.what, &wanted, &flip.n) != 3 ||
        wanted != atoi(rank ? rank : "0"))
        flip.what[0] = '\0';
}

static bool due(const char *what)
{
    return !strcmp(flip.what, what) && ++n_seen == flip.n;
}

/* A number in the middle becomes almost 0, or not quite 0. */
static void flip_bit(void *data, size_t n_bytes)
{
    ((uint32_t *)data)[n_bytes / sizeof(uint32_t) / 2] ^= UINT32_C(1) << 29;
}

/* A comparison hashes weights, each buffer of the optimizer, and running statistics, with the last hash as seed. */
static void hashed(void *data, size_t n_bytes, uint64_t seed, uint64_t hash)
{
    part = seed == 0 && n_bytes >= SMALLEST ? 1 : part > 0 && seed == last ? part + 1 : 0;
    last = hash;
    if (part == 1) weights = data, n_weights = n_bytes;
    if (part == 2) momentum = data, n_momentum = n_bytes;
    if (part == 2 && due("weights")) flip_bit(weights, n_weights);
    if (part == 2 && due("momentum")) flip_bit(momentum, n_momentum);
}

#define NEXT(name)                                                                                           \
    static __typeof__(&name) next;                                                                           \
    if (!next) {                                                                                             \
        void *found = dlsym(RTLD_NEXT, #name);                                                               \
        memcpy(&next, &found, sizeof next);                                                                  \
    }
#define WITH_SEED(name)                                                                                      \
    uint64_t name(void *data, size_t n_bytes, uint64_t seed);                                                \
    uint64_t name(void *data, size_t n_bytes, uint64_t seed)                                                 \
    {                                                                                                        \
        NEXT(name)                                                                                           \
        const uint64_t hash = next(data, n_bytes, seed);                                                     \
        hashed(data, n_bytes, seed, hash);                                                                   \
        return hash;                                                                                         \
    }
WITH_SEED(XXH3_64bits_withSeed)
WITH_SEED(XXH3_64bits_withSeed_dispatch)

#define UPDATE(name)                                                                                         \
    int name(void *state, void *data, size_t n_bytes);                                                       \
    int name(void *state, void *data, size_t n_bytes)                                                        \
    {                                                                                                        \
        NEXT(name)                                                                                           \
        if (n_bytes >= SMALLEST && due("gradients")) flip_bit(data, n_bytes);                                \
        return next(state, data, n_bytes);                                                                   \
    }
UPDATE(XXH3_64bits_update)
UPDATE(XXH3_64bits_update_dispatch)

int MPI_Allgather(const void *send, int n, MPI_Datatype from, void *data, int m, MPI_Datatype type,
                  MPI_Comm comm)
{
    int size = 1;
    PMPI_Type_size(from, &size);
    const size_t n_bytes = (size_t)n * (size_t)size;
    void *own;
    memcpy(&own, &send, sizeof own);
    if (n_bytes >= STATES_MIN && n_bytes < SMALLEST && n_bytes % 64 == 0 && due("states"))
        flip_bit(own, n_bytes);
    return PMPI_Allgather(send, n, from, data, m, type, comm);
}
