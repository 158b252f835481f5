/* SPDX-License-Identifier: MIT */
/* Single collectives: names, and the calls of collective.h under the watchdog. How a library runs one is left
 * to its collective_ops_t, in mpi/ and nccl/. */
#include "cluster/comm/collective.h"

#include <string.h>

#include "base/mem.h"
#include "cluster/comm/gradients.h"
#include "cluster/watch/watchdog.h"

const char *const collective_type_names[COLLECTIVE_TYPES] = {
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float", "double", "half", "bfloat16"};
const char *const collective_op_names[COLLECTIVE_OPS] = {"sum", "prod", "max", "min", "avg"};

size_t collective_type_size(collective_type_t type)
{
    static const size_t sizes[COLLECTIVE_TYPES] = {1, 1, 4, 4, 8, 8, 4, 8, 2, 2};
    return sizes[type];
}

int64_t collective_part(int64_t count, collective_type_t type, int from, int to, int size)
{
    enum { PART_BYTES = 16 };
    const int64_t n_element = (int64_t)collective_type_size(type), all = count * size * n_element;
    const int64_t distance = (to - from + size) % size, distances = (int64_t)size * (size - 1) / 2;
    const int64_t n_bytes = size == 1 ? all : (int64_t)((double)distance * (double)all / (double)distances);
    return n_bytes / PART_BYTES * PART_BYTES / n_element;
}

struct collective {
    collective_spec_t spec;
    comm_t *comm;
    const collective_ops_t *ops;
    void *own; /* of `ops` */
};

/* One process: nothing but the copy. */
static err_t run_alone(comm_t *comm, const collective_spec_t *s, void *own)
{
    (void)comm, (void)own;
    const int64_t n =
        s->kind == COLLECTIVE_ALLTOALLV ? collective_part(s->count, s->type, 0, 0, 1) : s->count;
    if (s->send && n && s->kind < COLLECTIVE_EXCHANGE)
        memcpy(s->recv, s->send, (size_t)n * collective_type_size(s->type));
    return ERR_OK;
}

static const collective_ops_t alone = {
    .name = "self",
    .out_of_place = (1 << COLLECTIVE_KINDS) - 1,
    .in_place = (1 << COLLECTIVE_KINDS) - 1,
    .types = (1 << COLLECTIVE_TYPES) - 1,
    .ops = (1 << COLLECTIVE_OPS) - 1,
    .run = run_alone,
};

static int add_singles(const gradient_ops_t *gradients, int n, const collective_ops_t **out)
{
    for (const collective_ops_t *const *single = gradients->singles; single && *single; single++) {
        ASSERT(n < COLLECTIVE_MAX_OPS);
        out[n++] = *single;
    }
    return n;
}

int collective_list(const comm_t *comm, const collective_ops_t *out[COLLECTIVE_MAX_OPS])
{
    int n = add_singles(comm->gradients, 0, out);
    return comm->gradients == comm->ops->gradients ? n : add_singles(comm->ops->gradients, n, out);
}

err_t collective_open(comm_t *comm, const collective_ops_t *ops, int64_t n_bytes, comm_buffer_t *buffer)
{
    return ops->open ? ops->open(comm, n_bytes, buffer) : ERR_OK;
}

void collective_library(const comm_t *comm, const collective_ops_t *ops, char *out, size_t n_bytes)
{
    if (ops->describe)
        ops->describe(comm, out, n_bytes);
    else
        comm_describe(comm, out, n_bytes);
}

void collective_algorithm(const comm_t *comm, const collective_ops_t *ops, char *out, size_t n_bytes)
{
    ops->algorithm(comm, out, n_bytes);
}

static bool offers(const collective_ops_t *ops, const collective_spec_t *spec)
{
    unsigned kinds = spec->send ? ops->out_of_place : ops->in_place;
    return kinds >> spec->kind & ops->types >> spec->type & ops->ops >> spec->op & 1;
}

err_t collective_new(comm_t *comm, const collective_spec_t *spec, collective_t **out)
{
    const collective_ops_t *const *singles = comm->ops->gradients->singles;
    ASSERT(spec->by || singles || comm->size == 1);
    const collective_ops_t *ops = spec->by ? spec->by : singles ? singles[0] : &alone;
    ASSERT(spec->count >= 0 && spec->root >= 0 && spec->root < comm->size && offers(ops, spec));
    ASSERT(spec->kind != COLLECTIVE_EXCHANGE || (spec->peer >= 0 && spec->peer < comm->size));
    collective_t *c = NULL;
    TRY(mem_new(sizeof *c, "a collective", &c));
    *c = (collective_t){.spec = *spec, .comm = comm, .ops = ops};
    err_t err = ops->prepare ? ops->prepare(comm, &c->spec, &c->own) : ERR_OK;
    *out = c;
    if (err != ERR_OK) collective_free(out);
    return err;
}

err_t collective_run(const collective_t *c)
{
    watchdog_enter(c->spec.what);
    return watchdog_leave_with(c->ops->run(c->comm, &c->spec, c->own), c->spec.what);
}

err_t collective_wait(const collective_t *c)
{
    if (!c->ops->wait) return ERR_OK;
    watchdog_enter(c->spec.what);
    return watchdog_leave_with(c->ops->wait(c->comm, &c->spec), c->spec.what);
}

void collective_free(collective_t **collective)
{
    collective_t *c = *collective;
    if (!c) return;
    if (c->ops->release) c->ops->release(c->own);
    mem_free(collective);
}
