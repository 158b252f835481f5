/* SPDX-License-Identifier: MIT */
/* Single collectives over MPI, cut into calls that an int can count; the reductions that MPI lacks: steps for half and
 * bfloat16 in float, and the division of an average; and MPI's transport. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/comm/collective.h"
#include "cluster/comm/mpi/impl.h"
#include "compute/tensor/float16.h"

/* ---- Reductions that MPI lacks ---- */
static inline float step_sum(float a, float b)
{
    return a + b;
}

static inline float step_prod(float a, float b)
{
    return a * b;
}

static inline float step_max(float a, float b)
{
    return a > b ? a : b;
}

static inline float step_min(float a, float b)
{
    return a < b ? a : b;
}

/* An MPI_User_function; its arguments are not const. */
#define STEPS(name, to_float, from_float, step)                                                              \
    static void name(void *from, void *into, int *n, MPI_Datatype *type)                                     \
    {                                                                                                        \
        const uint16_t *restrict x = from;                                                                   \
        uint16_t *restrict y = into;                                                                         \
        (void)type;                                                                                          \
        for (int i = 0; i < *n; i++) y[i] = from_float(step(to_float(x[i]), to_float(y[i])));                \
    }

STEPS(half_sum, half_to_float, half_from_float, step_sum)
STEPS(half_prod, half_to_float, half_from_float, step_prod)
STEPS(half_max, half_to_float, half_from_float, step_max)
STEPS(half_min, half_to_float, half_from_float, step_min)
STEPS(bf16_sum, bf16_to_float, bf16_from_float, step_sum)
STEPS(bf16_prod, bf16_to_float, bf16_from_float, step_prod)
STEPS(bf16_max, bf16_to_float, bf16_from_float, step_max)
STEPS(bf16_min, bf16_to_float, bf16_from_float, step_min)

static bool is_predefined(collective_type_t type)
{
    return type != COLLECTIVE_HALF && type != COLLECTIVE_BFLOAT16;
}

/* MPI's operation, or one for elements of MPI_UINT16_T that hold half or bfloat16; every step rounds to the type.
 * COLLECTIVE_AVG is a sum, to be divided by reduction_divide. MPI_Op_free those that are not predefined. */
static err_t reduction_new(collective_type_t type, collective_op_t op, MPI_Op *out)
{
    const MPI_Op ops[COLLECTIVE_OPS] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_SUM};
    static MPI_User_function *const steps[2][COLLECTIVE_OPS] = {
        {half_sum, half_prod, half_max, half_min, half_sum},
        {bf16_sum, bf16_prod, bf16_max, bf16_min, bf16_sum},
    };
    *out = ops[op];
    if (is_predefined(type)) return ERR_OK;
    *out = MPI_OP_NULL;
    return mpi_check(MPI_Op_create(steps[type == COLLECTIVE_BFLOAT16][op], 1, out), "MPI_Op_create");
}

#define DIVIDE(type, to, from)                                                                               \
    do {                                                                                                     \
        type *x = data;                                                                                      \
        for (int64_t i = 0; i < n; i++) x[i] = from(to(x[i]) / by);                                          \
    } while (0)

static void reduction_divide(collective_type_t type, void *data, int64_t n, int by)
{
    switch (type) {
    case COLLECTIVE_INT8:
        DIVIDE(int8_t, , (int8_t));
        break;
    case COLLECTIVE_UINT8:
        DIVIDE(uint8_t, , (uint8_t));
        break;
    case COLLECTIVE_INT32:
        DIVIDE(int32_t, , );
        break;
    case COLLECTIVE_UINT32:
        DIVIDE(uint32_t, , (uint32_t));
        break;
    case COLLECTIVE_INT64:
        DIVIDE(int64_t, , );
        break;
    case COLLECTIVE_UINT64:
        DIVIDE(uint64_t, , );
        break;
    case COLLECTIVE_FLOAT:
        DIVIDE(float, , );
        break;
    case COLLECTIVE_HALF:
        DIVIDE(uint16_t, half_to_float, half_from_float);
        break;
    case COLLECTIVE_BFLOAT16:
        DIVIDE(uint16_t, bf16_to_float, bf16_from_float);
        break;
    default:
        DIVIDE(double, , );
    }
}

/* ---- The transport ----
 * MPI has no query for it, but Open MPI unloads the components that it did not choose, so the libraries mapped by
 * this process reveal it. */
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

void collective_transport(const comm_t *comm, char *out, size_t n_bytes)
{
    /* Looked up once: MPI chooses when it starts. */
    static struct {
        bool whole[MAX_PARTS], inside[MAX_PARTS], between[MAX_PARTS];
    } found;
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

/* ---- The collectives ---- */
/* Bytes per MPI call: far below what an int counts, far above where size affects speed. */
static const int64_t default_chunk_bytes = (int64_t)1 << 30;

/* A prepared call. */
typedef struct call {
    collective_spec_t spec;
    err_t (*run)(const struct call *c);
    int rank, size;
    size_t n_element;
    int64_t per_call; /* elements per call */
    MPI_Comm world;
    MPI_Datatype type;
    MPI_Op op; /* MPI_OP_NULL: the collective reduces nothing */
    /* Parts of all pieces, one piece apart: of per_call elements, and of the remainder. */
    MPI_Datatype strided, last_strided;
} call_t;

static char *recv_at(const call_t *c, int64_t element)
{
    return (char *)c->spec.recv + element * (int64_t)c->n_element;
}

static const char *send_at(const call_t *c, int64_t element)
{
    return (const char *)c->spec.send + element * (int64_t)c->n_element;
}

/* Number of elements of the call that begins at element `at`. */
static int call_length(const call_t *c, int64_t at)
{
    int64_t left = c->spec.count - at;
    return (int)(left < c->per_call ? left : c->per_call);
}

static err_t run_all_reduce(const call_t *c)
{
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        const void *from = c->spec.send ? send_at(c, at) : MPI_IN_PLACE;
        E_MPI(MPI_Allreduce(from, recv_at(c, at), call_length(c, at), c->type, c->op, c->world),
              "MPI_Allreduce");
    }
    return ERR_OK;
}

static err_t run_all_gather(const call_t *c)
{
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        const void *from = c->spec.send ? send_at(c, at) : MPI_IN_PLACE;
        int n = call_length(c, at), n_recv = n;
        MPI_Datatype to = c->type;
        if (c->strided != MPI_DATATYPE_NULL) {
            to = n == c->per_call ? c->strided : c->last_strided;
            n_recv = 1;
        }
        E_MPI(MPI_Allgather(from, n, c->type, recv_at(c, at), n_recv, to, c->world), "MPI_Allgather");
    }
    return ERR_OK;
}

static err_t run_alltoall(const call_t *c)
{
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        const void *from = c->spec.send ? send_at(c, at) : MPI_IN_PLACE;
        int n = call_length(c, at);
        MPI_Datatype type = c->type;
        if (c->strided != MPI_DATATYPE_NULL) {
            type = n == c->per_call ? c->strided : c->last_strided;
            n = 1;
        }
        E_MPI(MPI_Alltoall(from, n, type, recv_at(c, at), n, type, c->world), "MPI_Alltoall");
    }
    return ERR_OK;
}

/* Reduces `input` to `root`, in place if input is `result`; other ranks do not use `result`. */
static err_t reduce_to(const call_t *c, const char *input, char *result, int root)
{
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        int64_t offset = at * (int64_t)c->n_element;
        bool in_place = c->rank == root && input == result;
        E_MPI(MPI_Reduce(in_place ? MPI_IN_PLACE : input + offset, c->rank == root ? result + offset : NULL,
                         call_length(c, at), c->type, c->op, root, c->world),
              "MPI_Reduce");
    }
    return ERR_OK;
}

static err_t run_reduce(const call_t *c)
{
    return reduce_to(c, c->spec.send ? c->spec.send : c->spec.recv, c->spec.recv, c->spec.root);
}

static err_t run_reduce_scatter(const call_t *c)
{
    int64_t n_piece = c->spec.count * (int64_t)c->n_element;
    char *recv = c->spec.recv;
    if (c->spec.count <= c->per_call) {
        const void *from = c->spec.send ? c->spec.send : MPI_IN_PLACE;
        E_MPI(MPI_Reduce_scatter_block(from, recv, (int)c->spec.count, c->type, c->op, c->world),
              "MPI_Reduce_scatter_block");
        return ERR_OK;
    }
    for (int r = 0; r < c->size; r++) {
        if (c->spec.send)
            TRY(reduce_to(c, (const char *)c->spec.send + r * n_piece, recv, r));
        else
            TRY(reduce_to(c, recv + r * n_piece, recv + r * n_piece, r));
    }
    if (!c->spec.send) memmove(recv, recv + c->rank * n_piece, (size_t)n_piece);
    return ERR_OK;
}

static err_t run_broadcast(const call_t *c)
{
    bool from_send = c->spec.send && c->rank == c->spec.root;
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        void *data = from_send ? (void *)(uintptr_t)send_at(c, at) : recv_at(c, at);
        E_MPI(MPI_Bcast(data, call_length(c, at), c->type, c->spec.root, c->world), "MPI_Bcast");
    }
    return ERR_OK;
}

/* One message each way: around the ring, or with the spec's peer. */
static err_t run_messages(const call_t *c)
{
    const bool exchange = c->spec.kind == COLLECTIVE_EXCHANGE;
    const int to = exchange ? c->spec.peer : (c->rank + 1) % c->size;
    const int from = exchange ? c->spec.peer : (c->rank + c->size - 1) % c->size;
    if (exchange && c->spec.peer == c->rank) return ERR_OK;
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        int n = call_length(c, at);
        if (c->spec.send)
            E_MPI(MPI_Sendrecv(send_at(c, at), n, c->type, to, 0, recv_at(c, at), n, c->type, from, 0,
                               c->world, MPI_STATUS_IGNORE),
                  "MPI_Sendrecv");
        else
            E_MPI(
                MPI_Sendrecv_replace(recv_at(c, at), n, c->type, to, 0, from, 0, c->world, MPI_STATUS_IGNORE),
                "MPI_Sendrecv_replace");
    }
    return ERR_OK;
}

static err_t strided_type(const call_t *c, int64_t n, MPI_Datatype *out)
{
    MPI_Datatype part;
    E_MPI(MPI_Type_contiguous(narrow_int(n), c->type, &part), "MPI_Type_contiguous");
    err_t err = mpi_check(MPI_Type_create_resized(part, 0, c->spec.count * (MPI_Aint)c->n_element, out),
                          "MPI_Type_create_resized");
    E_MPI(MPI_Type_free(&part), "MPI_Type_free");
    TRY(err);
    return mpi_check(MPI_Type_commit(out), "MPI_Type_commit");
}

static err_t mpi_prepare(comm_t *comm, const collective_spec_t *spec, void **own)
{
    static err_t (*const runs[COLLECTIVE_KINDS])(const call_t *) = {
        run_all_reduce, run_all_gather, run_reduce_scatter, run_broadcast,
        run_reduce,     run_alltoall,   run_messages,       run_messages,
    };
    /* The last two are reduced by reduction_new. */
    const MPI_Datatype types[COLLECTIVE_TYPES] = {MPI_INT8_T,   MPI_UINT8_T,  MPI_INT32_T, MPI_UINT32_T,
                                                  MPI_INT64_T,  MPI_UINT64_T, MPI_FLOAT,   MPI_DOUBLE,
                                                  MPI_UINT16_T, MPI_UINT16_T};
    const mpi_impl_t *impl = comm->impl;
    const collective_kind_t kind = spec->kind;
    call_t *c = NULL;
    TRY(mem_new(sizeof *c, "a call of MPI", &c));
    *own = c;
    *c = (call_t){
        .spec = *spec,
        .run = runs[kind],
        .rank = comm->rank,
        .size = comm->size,
        .n_element = collective_type_size(spec->type),
        .world = impl->ranks.world,
        .type = types[spec->type],
        .op = MPI_OP_NULL,
        .strided = MPI_DATATYPE_NULL,
        .last_strided = MPI_DATATYPE_NULL,
    };
    c->per_call = (spec->chunk_bytes ? spec->chunk_bytes : default_chunk_bytes) / (int64_t)c->n_element;
    if (kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_REDUCE)
        TRY(reduction_new(spec->type, spec->op, &c->op));
    bool in_parts = kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_ALLTOALL;
    if (!in_parts || spec->count <= c->per_call) return ERR_OK;
    TRY(strided_type(c, c->per_call, &c->strided));
    return spec->count % c->per_call ? strided_type(c, spec->count % c->per_call, &c->last_strided) : ERR_OK;
}

static err_t mpi_run(comm_t *comm, const collective_spec_t *spec, void *own)
{
    (void)comm;
    const call_t *c = own;
    bool has_result = c->op != MPI_OP_NULL && (spec->kind != COLLECTIVE_REDUCE || c->rank == spec->root);
    TRY(c->run(c));
    if (has_result && spec->op == COLLECTIVE_AVG)
        reduction_divide(spec->type, spec->recv, spec->count, c->size);
    return ERR_OK;
}

static void mpi_release(void *own)
{
    call_t *c = own;
    if (!c) return;
    if (c->op != MPI_OP_NULL && !is_predefined(c->spec.type)) MPI_Op_free(&c->op);
    if (c->strided != MPI_DATATYPE_NULL) MPI_Type_free(&c->strided);
    if (c->last_strided != MPI_DATATYPE_NULL) MPI_Type_free(&c->last_strided);
    mem_free(&c);
}

static void mpi_algorithm(const comm_t *comm, char *out, size_t n_bytes)
{
    char transport[96];
    collective_transport(comm, transport, sizeof transport);
    snprintf(out, n_bytes, "mpi, %s", transport);
}

const collective_ops_t collective_mpi = {
    .name = "mpi",
    .title = "MPI",
    .limits = "MPI does not offer this",
    .memory = COLLECTIVE_ON_HOST,
    .out_of_place = (1 << COLLECTIVE_KINDS) - 1,
    .in_place = (1 << COLLECTIVE_KINDS) - 1,
    .types = (1 << COLLECTIVE_TYPES) - 1,
    .ops = (1 << COLLECTIVE_OPS) - 1,
    .prepare = mpi_prepare,
    .run = mpi_run,
    .release = mpi_release,
    .algorithm = mpi_algorithm,
};
