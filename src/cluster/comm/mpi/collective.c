/* SPDX-License-Identifier: MIT */
/* Single collectives over MPI, cut into calls that an int can count; the reductions that MPI lacks: steps for half and
 * bfloat16 in float, and the division of an average; and MPI's transport. */
#include <limits.h>
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
    bool has_own_type; /* type is to be freed */
    int *parts;        /* of alltoallv, in units of its type: [size] each to send, where, to receive, where */
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

/* What a call moves of every piece of a buffer with a piece per rank. */
typedef struct pieces {
    int n;
    MPI_Datatype type;
} pieces_t;

static pieces_t pieces_of(const call_t *c, int n)
{
    if (c->strided == MPI_DATATYPE_NULL) return (pieces_t){n, c->type};
    return (pieces_t){1, n == c->per_call ? c->strided : c->last_strided};
}

static err_t run_all_gather(const call_t *c)
{
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        const void *from = c->spec.send ? send_at(c, at) : MPI_IN_PLACE;
        int n = call_length(c, at);
        const pieces_t to = pieces_of(c, n);
        E_MPI(MPI_Allgather(from, n, c->type, recv_at(c, at), to.n, to.type, c->world), "MPI_Allgather");
    }
    return ERR_OK;
}

static err_t run_gather(const call_t *c)
{
    const int64_t own = c->rank * c->spec.count;
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        const void *from = c->spec.send              ? send_at(c, at)
                           : c->rank == c->spec.root ? MPI_IN_PLACE
                                                     : recv_at(c, own + at);
        int n = call_length(c, at);
        const pieces_t to = pieces_of(c, n);
        E_MPI(MPI_Gather(from, n, c->type, recv_at(c, at), to.n, to.type, c->spec.root, c->world),
              "MPI_Gather");
    }
    return ERR_OK;
}

static err_t run_scatter(const call_t *c)
{
    const int64_t own = c->rank * c->spec.count;
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        const void *from = c->spec.send ? send_at(c, at) : recv_at(c, at);
        void *to = c->spec.send              ? recv_at(c, at)
                   : c->rank == c->spec.root ? MPI_IN_PLACE
                                             : recv_at(c, own + at);
        int n = call_length(c, at);
        const pieces_t of = pieces_of(c, n);
        E_MPI(MPI_Scatter(from, of.n, of.type, to, n, c->type, c->spec.root, c->world), "MPI_Scatter");
    }
    return ERR_OK;
}

static err_t run_alltoall(const call_t *c)
{
    for (int64_t at = 0; at < c->spec.count; at += c->per_call) {
        const void *from = c->spec.send ? send_at(c, at) : MPI_IN_PLACE;
        const pieces_t p = pieces_of(c, call_length(c, at));
        E_MPI(MPI_Alltoall(from, p.n, p.type, recv_at(c, at), p.n, p.type, c->world), "MPI_Alltoall");
    }
    return ERR_OK;
}

static err_t run_alltoallv(const call_t *c)
{
    const int *p = c->parts, n = c->size;
    E_MPI(
        MPI_Alltoallv(c->spec.send, p, p + n, c->type, c->spec.recv, p + 2 * n, p + 3 * n, c->type, c->world),
        "MPI_Alltoallv");
    return ERR_OK;
}

/* In step k two ranks that differ in bit k swap the 2^k pieces that each has. */
static err_t run_hypercube(const call_t *c)
{
    const int64_t n_piece = c->spec.count;
    if (c->spec.send && n_piece > 0)
        memcpy(recv_at(c, c->rank * n_piece), c->spec.send, (size_t)n_piece * c->n_element);
    for (int bit = 1; bit < c->size; bit <<= 1) {
        const int peer = c->rank ^ bit, first = c->rank & ~(bit - 1);
        const int64_t mine = first * n_piece, theirs = (first ^ bit) * n_piece, all = bit * n_piece;
        for (int64_t at = 0; at < all; at += c->per_call) {
            const int n = (int)(all - at < c->per_call ? all - at : c->per_call);
            E_MPI(MPI_Sendrecv(recv_at(c, mine + at), n, c->type, peer, 0, recv_at(c, theirs + at), n,
                               c->type, peer, 0, c->world, MPI_STATUS_IGNORE),
                  "MPI_Sendrecv");
        }
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

/* All parts are whole units of 16 bytes: an int counts 32 GiB of them. */
static err_t find_parts(call_t *c)
{
    enum { UNIT_BYTES = 16 };
    int *parts;
    TRY(mem_new_array(4 * c->size, sizeof *parts, "the parts of an alltoallv", &c->parts));
    parts = c->parts;
    int64_t at[2] = {0, 0};
    for (int r = 0; r < c->size; r++) {
        const int from[] = {c->rank, r}, to[] = {r, c->rank};
        for (int way = 0; way < 2; way++) {
            const int64_t n = collective_part(c->spec.count, c->spec.type, from[way], to[way], c->size) *
                              (int64_t)c->n_element / UNIT_BYTES;
            if (at[way] + n > INT_MAX)
                RAISE(
                    ERR_USAGE,
                    "alltoallv of more than 32 GiB per rank: MPI counts them with an int; choose a smaller size");
            parts[2 * way * c->size + r] = (int)n;
            parts[(2 * way + 1) * c->size + r] = (int)at[way];
            at[way] += n;
        }
    }
    E_MPI(MPI_Type_contiguous(UNIT_BYTES, MPI_BYTE, &c->type), "MPI_Type_contiguous");
    c->has_own_type = true;
    return mpi_check(MPI_Type_commit(&c->type), "MPI_Type_commit");
}

static err_t mpi_prepare(comm_t *comm, const collective_spec_t *spec, void **own)
{
    static err_t (*const runs[COLLECTIVE_KINDS])(const call_t *) = {
        [COLLECTIVE_ALL_REDUCE] = run_all_reduce,
        [COLLECTIVE_ALL_GATHER] = run_all_gather,
        [COLLECTIVE_REDUCE_SCATTER] = run_reduce_scatter,
        [COLLECTIVE_BROADCAST] = run_broadcast,
        [COLLECTIVE_REDUCE] = run_reduce,
        [COLLECTIVE_GATHER] = run_gather,
        [COLLECTIVE_SCATTER] = run_scatter,
        [COLLECTIVE_HYPERCUBE] = run_hypercube,
        [COLLECTIVE_ALLTOALL] = run_alltoall,
        [COLLECTIVE_ALLTOALLV] = run_alltoallv,
        [COLLECTIVE_SENDRECV] = run_messages,
        [COLLECTIVE_EXCHANGE] = run_messages,
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
    if (kind == COLLECTIVE_ALLTOALLV) return find_parts(c);
    bool in_parts = kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_ALLTOALL ||
                    kind == COLLECTIVE_GATHER || kind == COLLECTIVE_SCATTER;
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
    if (c->has_own_type) MPI_Type_free(&c->type);
    mem_free(&c->parts);
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
    .in_place =
        ((1 << COLLECTIVE_KINDS) - 1) & ~(1 << COLLECTIVE_ALLTOALLV), /* what two ranks swap differs */
    .types = (1 << COLLECTIVE_TYPES) - 1,
    .ops = (1 << COLLECTIVE_OPS) - 1,
    .prepare = mpi_prepare,
    .run = mpi_run,
    .release = mpi_release,
    .algorithm = mpi_algorithm,
};
