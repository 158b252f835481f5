/* SPDX-License-Identifier: MIT */
/* The computations of `bench comm`: nccl-tests' bandwidths and sizes, and the data that verifies a
 * collective, which is exact in any order and reveals any error.
 *
 * RUN san=slow */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "compute/tensor/float16.h"
#include "tests/tap.h"
#include "tools/bench/cases.h"
#include "tools/bench/comm.h"

enum { COUNT = 1009, MAX_RANKS = 300 };

static void test_factors(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 24, 64, 1000, 4096};
    bool right = true;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int n = sizes[i];
        double part = (n - 1.0) / n;
        right &= comm_busbw_factor(COMM_TEST_ALL_REDUCE, n) == 2.0 * (n - 1) / n;
        right &= comm_busbw_factor(COMM_TEST_ALL_GATHER, n) == part;
        right &= comm_busbw_factor(COMM_TEST_REDUCE_SCATTER, n) == part;
        right &= comm_busbw_factor(COMM_TEST_ALLTOALL, n) == part;
        right &= comm_busbw_factor(COMM_TEST_ALLTOALLV, n) == part;
        right &= comm_busbw_factor(COMM_TEST_GATHER, n) == part;
        right &= comm_busbw_factor(COMM_TEST_SCATTER, n) == part;
        right &= comm_busbw_factor(COMM_TEST_HYPERCUBE, n) == 1;
        right &= comm_algbw_factor(COMM_TEST_HYPERCUBE, n) == part;
        right &= comm_algbw_factor(COMM_TEST_GATHER, n) == 1;
        right &= comm_busbw_factor(COMM_TEST_BROADCAST, n) == 1;
        right &= comm_busbw_factor(COMM_TEST_REDUCE, n) == 1;
        right &= comm_busbw_factor(COMM_TEST_SENDRECV, n) == 1;
        right &= comm_busbw_factor(COMM_TEST_BISECTION, n) == 1;
        right &= comm_busbw_factor(COMM_TEST_ALL_PAIRS, n) == 1;
    }
    OK(right, "busbw factors of all collectives");
    OK(comm_busbw_factor(COMM_TEST_ALL_REDUCE, 4) == 1.5 &&
           comm_busbw_factor(COMM_TEST_ALLTOALL, 4) == 0.75 &&
           comm_busbw_factor(COMM_TEST_ALL_REDUCE, 8) == 1.75,
       "as in nccl-tests' examples");
}

static void test_rounding(void)
{
    OK(comm_piece_count(COMM_TEST_ALL_REDUCE, 1023, COLLECTIVE_DOUBLE, 3) == 127 &&
           comm_message_bytes(COMM_TEST_ALL_REDUCE, 127, COLLECTIVE_DOUBLE, 3) == 1016,
       "whole elements");
    OK(comm_piece_count(COMM_TEST_ALL_REDUCE, 7, COLLECTIVE_INT64, 2) == 0, "less than one is none");
    OK(comm_piece_count(COMM_TEST_ALL_GATHER, 1000, COLLECTIVE_FLOAT, 3) == 80 &&
           comm_message_bytes(COMM_TEST_ALL_GATHER, 80, COLLECTIVE_FLOAT, 3) == 960,
       "a piece for each rank, of 16 bytes each");
    OK(comm_piece_count(COMM_TEST_ALLTOALLV, 1024, COLLECTIVE_FLOAT, 4) == 64 &&
           comm_message_bytes(COMM_TEST_ALLTOALLV, 64, COLLECTIVE_FLOAT, 4) == 160 + 336 + 512 &&
           comm_message_bytes(COMM_TEST_ALLTOALLV, 128, COLLECTIVE_FLOAT, 2) == 1024,
       "alltoallv: sixths of the message to ranks at distances 1, 2 and 3");
    OK(comm_piece_count(COMM_TEST_ALLTOALL, 47, COLLECTIVE_INT8, 3) == 0 &&
           comm_piece_count(COMM_TEST_REDUCE_SCATTER, 48, COLLECTIVE_INT8, 3) == 16,
       "pieces below 16 bytes are none");
}

/* The sizes as text: "8 16 32". */
static const char *sizes_text(comm_sizes_t sizes)
{
    static char text[256];
    size_t used = 0;
    text[0] = '\0';
    for (int64_t n = 0; comm_sizes_next(&sizes, &n) && used + 32 < sizeof text;)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", used ? " " : "", (long long)n);
    return text;
}

static void test_sizes(void)
{
    OK(strcmp(sizes_text((comm_sizes_t){8, 100, 2, 0}), "8 16 32 64") == 0, "by a factor");
    OK(strcmp(sizes_text((comm_sizes_t){8, 32, 1, 8}), "8 16 24 32") == 0, "by a step");
    OK(strcmp(sizes_text((comm_sizes_t){8, 1000, 10, 8}), "8 80 800") == 0, "a factor above 1 comes first");
    OK(strcmp(sizes_text((comm_sizes_t){64, 64, 1, 0}), "64") == 0, "one size ends");
    int64_t high = (int64_t)1 << 62;
    comm_sizes_t huge = {high, INT64_MAX, 3, 0};
    int64_t n = 0;
    OK(comm_sizes_next(&huge, &n) && n == high && !comm_sizes_next(&huge, &n),
       "sizes end before 63 bits overflow");

    comm_sizes_t s = {0, 0, 0, 0};
    OK(comm_sizes_resolve(&s, false) == ERR_OK && s.min == 8 && s.max == 64 << 20 && s.factor == 2,
       "defaults");
    s = (comm_sizes_t){128 << 20, 0, 0, 0};
    OK(comm_sizes_resolve(&s, true) == ERR_OK && s.max == 128 << 20, "a minimum above the default maximum");
    s = (comm_sizes_t){0, 4, 0, 0};
    OK(comm_sizes_resolve(&s, true) == ERR_OK && s.min == 4, "a maximum below the default minimum");
    s = (comm_sizes_t){0, 64, 0, 8};
    OK(comm_sizes_resolve(&s, false) == ERR_OK && strcmp(sizes_text(s), "8 16 24 32 40 48 56 64") == 0,
       "a step without a factor");
    s = (comm_sizes_t){1 << 20, 1 << 10, 0, 0};
    OK(comm_sizes_resolve(&s, false) == ERR_USAGE && strstr(err_message(), "no size to measure"),
       "an empty range is refused");
    s = (comm_sizes_t){8, 16, 1, 0};
    OK(comm_sizes_resolve(&s, false) == ERR_USAGE && strstr(err_message(), "never grow"),
       "a factor of 1 alone is refused");
}

static err_t parse(const char *tests, const char *types, const char *ops, const char *communicators,
                   comm_plan_t *out)
{
    return comm_plan_parse(&(comm_words_t){tests, types, ops, communicators, "both"}, out);
}

static bool refused(const char *tests, const char *types, const char *ops, const char *communicators,
                    const char *words)
{
    comm_plan_t plan;
    err_t err = parse(tests, types, ops, communicators, &plan);
    bool right = err == ERR_USAGE && strstr(err_message(), words);
    if (!right) printf("# %d: %s\n", err, err_message());
    return right;
}

static void test_plan(void)
{
    comm_plan_t p;
    OK(parse("reduce,all_reduce,reduce", "int8", "max", "mpi,nccl", &p) == ERR_OK && p.n_tests == 2 &&
           p.tests[0] == COMM_TEST_REDUCE && p.tests[1] == COMM_TEST_ALL_REDUCE && p.n_names == 2 &&
           strcmp(p.names[0], "mpi") == 0 && strcmp(p.names[1], "nccl") == 0 && p.n_types == 1 &&
           p.types[0] == COLLECTIVE_INT8 && p.n_ops == 1 && p.ops[0] == COLLECTIVE_MAX,
       "lists, each word once");
    OK(parse("all", "all", "all", "mpi", &p) == ERR_OK && p.n_tests == COMM_TESTS && p.all_tests &&
           p.n_types == COLLECTIVE_TYPES && p.n_ops == COLLECTIVE_OPS && p.n_names == 1,
       "all");
    OK(parse("all", "all", "all", "host,mpi", &p) == ERR_OK &&
           refused("all_reduce,reduce", "float", "sum", "mpi,host", "--test reduce: the host communicator") &&
           refused("all_reduce", "int8", "sum", "host", "--datatype int8: the host communicator") &&
           refused("all_reduce", "float", "max", "host", "--op max: the host communicator"),
       "what the host communicator lacks is skipped under all, and refused by name");
    OK(refused("all_redcue", "float", "sum", "mpi", "did you mean 'all_reduce'"), "an unknown test");
    OK(refused("reduce", "flaot", "sum", "mpi", "did you mean 'float'"), "an unknown type");
    OK(refused("reduce", "float", "summ", "mpi", "did you mean 'sum'"), "an unknown operation");
    OK(refused("reduce", "float", "sum", "quic", "a comma-separated list of mpi, host, nccl, auto"),
       "an unknown communicator");
    OK(refused("", "float", "sum", "mpi", "invalid --test ''"), "an empty list");
    OK(parse("reduce", "half,bfloat16", "avg", "mpi", &p) == ERR_OK &&
           refused("all_reduce", "half", "sum", "host,mpi", "--datatype half: the host communicator") &&
           refused("reduce", "f8e5m2", "sum", "nccl", "int8 moves the same amount"),
       "16-bit floats and averages by MPI, no 8-bit floats");
    OK(refused("reduce", "float", "sum", "auto,mpi", "auto cannot be combined"), "auto and another");
}

/* As on GPUs; this test runs without NCCL, too. */
static const collective_ops_t library = {
    .name = "nccl",
    .title = "NCCL",
    .limits = "NCCL does not offer this",
    .out_of_place = (1 << COLLECTIVE_KINDS) - 1,
    .in_place = (1 << COLLECTIVE_ALLTOALL) - 1,
    .types = (1 << COLLECTIVE_TYPES) - 1,
    .ops = (1 << COLLECTIVE_OPS) - 1,
};

/* The communicators chosen, or the error message. */
static const char *settled(const char *tests, const char *types, const char *communicators, bool on_device,
                           bool in_place)
{
    static char names[64];
    const comm_words_t words = {tests, types, "sum", communicators, in_place ? "in" : "both"};
    const collective_ops_t *offered[3] = {&library};
    comm_plan_t p;
    offered[1] = collective_find("mpi");
    offered[2] = collective_find("host");
    if (comm_plan_parse(&words, &p) != ERR_OK) return err_message();
    if (comm_plan_settle(&p, offered + !on_device, 3 - !on_device) != ERR_OK) return err_message();
    names[0] = '\0';
    for (int i = 0; i < p.n_by; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? " " : "", p.by[i]->name);
    }
    return names;
}

static void test_settle(void)
{
    OK(strcmp(settled("reduce", "float", "auto", false, false), "mpi") == 0 &&
           strcmp(settled("reduce", "half", "auto", true, false), "nccl") == 0,
       "auto: the library that sums gradients on GPUs, else MPI");
    OK(strcmp(settled("reduce", "all", "mpi,nccl", true, false), "nccl mpi") == 0 &&
           strcmp(settled("all_reduce", "float", "host", true, false), "host") == 0,
       "as named, the library first");
    OK(strstr(settled("all_reduce", "half", "host", false, false), "--datatype half: the host communicator"),
       "the host communicator sums only floats");
    OK(strcmp(settled("reduce", "float", "nccl", false, false),
              "--communicator nccl needs GPUs and NCCL: --device cuda --comm nccl") == 0,
       "no NCCL without GPUs");
    OK(strstr(settled("reduce,alltoall", "float", "nccl", true, true),
              "--inplace in: NCCL supports alltoall only out of place") &&
           strcmp(settled("all", "float", "nccl", true, true), "nccl") == 0,
       "unsupported in-place tests are refused, or skipped under all");
}

/* Through float and back; every value that a half has. */
static void test_halves(void)
{
    bool right = true;
    for (int bits = 0; bits < 1 << 16; bits++) {
        float wide = bf16_to_float((uint16_t)bits);
        int exponent = bits >> 10 & 31;
        right &= bf16_from_float(wide) == (isnan(wide) ? bits | 0x40 : bits); /* NaN becomes quiet */
        float half = half_to_float((uint16_t)bits);
        if (exponent > 0 && exponent < 31) right &= half_from_exact(half) == bits;
        right &= half_from_float(half) == (isnan(half) ? (bits & 0x8000) | 0x7e00 : bits);
        if (exponent == 31) continue;
        /* Towards the next half, and the tie between them, which goes to the even one. */
        float next = exponent == 30 && (bits & 1023) == 1023 ? copysignf(65536, half)
                                                             : half_to_float((uint16_t)(bits + 1));
        float tie = (half + next) / 2;
        int to_even = bits & 1 ? bits + 1 : bits;
        right &= half_from_float(tie) == to_even && half_from_float(nextafterf(tie, half)) == bits &&
                 half_from_float(nextafterf(tie, next)) == bits + 1;
    }
    OK(right, "16-bit floats to float and back");
    OK(half_to_float(0x3c00) == 1 && half_to_float(0xc100) == -2.5F && half_to_float(0x7bff) == 65504 &&
           half_to_float(0x0001) == 0x1p-24F && half_to_float(0x7c00) == INFINITY &&
           isnan(half_to_float(0x7e00)) && half_from_exact(0) == 0 && bf16_to_float(0xc020) == -2.5F,
       "known numbers as half and bfloat16");
}

/* Where a GPU's library rounds, there is nothing to compare with. */
static void test_exact(void)
{
    comm_check_t c = {
        .kind = COLLECTIVE_ALL_REDUCE, .type = COLLECTIVE_FLOAT, .op = COLLECTIVE_AVG, .size = 3};
    bool right = comm_check_is_exact(&c, false) && !comm_check_is_exact(&c, true);
    c.size = 4;
    right &= comm_check_is_exact(&c, true);
    c = (comm_check_t){
        .kind = COLLECTIVE_ALL_REDUCE, .type = COLLECTIVE_INT32, .op = COLLECTIVE_AVG, .size = 3};
    right &= comm_check_is_exact(&c, true);
    c.type = COLLECTIVE_HALF;
    c.kind = COLLECTIVE_BROADCAST;
    OK(right && comm_check_is_exact(&c, true), "averages that are exact");
}

static void test_long_names(void)
{
    char words[7][16] = {"-b", "8", "--op", "-e", "--", "-f", "2"}, *argv[7];
    for (int i = 0; i < 7; i++) argv[i] = words[i];
    bench_comm_long_names(7, argv);
    OK(strcmp(argv[0], "--minbytes") == 0 && strcmp(argv[1], "8") == 0 && strcmp(argv[2], "--op") == 0 &&
           strcmp(argv[3], "--maxbytes") == 0 && strcmp(argv[5], "-f") == 0,
       "nccl-tests' short options, up to --");
}

/* One step of a reduction in the type's own arithmetic; false where a whole number left its range. */
#define COMBINE(type)                                                                                        \
    do {                                                                                                     \
        type *x = (type *)a + i, y = ((const type *)b)[i];                                                   \
        if (op == COLLECTIVE_MAX) *x = *x > y ? *x : y;                                                      \
        if (op == COLLECTIVE_MIN) *x = *x < y ? *x : y;                                                      \
        if (op == COLLECTIVE_SUM || op == COLLECTIVE_AVG) fits &= !__builtin_add_overflow(*x, y, x);         \
        if (op == COLLECTIVE_PROD) fits &= !__builtin_mul_overflow(*x, y, x);                                \
    } while (0)
#define COMBINE_REAL(type)                                                                                   \
    do {                                                                                                     \
        type *x = (type *)a + i, y = ((const type *)b)[i];                                                   \
        if (op == COLLECTIVE_MAX) *x = *x > y ? *x : y;                                                      \
        if (op == COLLECTIVE_MIN) *x = *x < y ? *x : y;                                                      \
        if (op == COLLECTIVE_SUM || op == COLLECTIVE_AVG) *x += y;                                           \
        if (op == COLLECTIVE_PROD) *x *= y;                                                                  \
    } while (0)

/* The sum of two is rounded: what is no longer exact left its range. */
#define COMBINE_HALF(to_float, from_float)                                                                   \
    do {                                                                                                     \
        uint16_t *x = (uint16_t *)a + i;                                                                     \
        float u = to_float(*x), v = to_float(((const uint16_t *)b)[i]), r = 0;                               \
        if (op == COLLECTIVE_MAX) r = u > v ? u : v;                                                         \
        if (op == COLLECTIVE_MIN) r = u < v ? u : v;                                                         \
        if (op == COLLECTIVE_SUM || op == COLLECTIVE_AVG) r = u + v;                                         \
        if (op == COLLECTIVE_PROD) r = u * v;                                                                \
        *x = from_float(r);                                                                                  \
        fits &= to_float(*x) == r;                                                                           \
    } while (0)

static bool combine(collective_type_t type, collective_op_t op, void *a, const void *b)
{
    bool fits = true;
    for (int i = 0; i < COUNT; i++) switch (type) {
        case COLLECTIVE_INT8:
            COMBINE(int8_t);
            break;
        case COLLECTIVE_UINT8:
            COMBINE(uint8_t);
            break;
        case COLLECTIVE_INT32:
            COMBINE(int32_t);
            break;
        case COLLECTIVE_UINT32:
            COMBINE(uint32_t);
            break;
        case COLLECTIVE_INT64:
            COMBINE(int64_t);
            break;
        case COLLECTIVE_UINT64:
            COMBINE(uint64_t);
            break;
        case COLLECTIVE_FLOAT:
            COMBINE_REAL(float);
            break;
        case COLLECTIVE_HALF:
            COMBINE_HALF(half_to_float, half_from_exact);
            break;
        case COLLECTIVE_BFLOAT16:
            COMBINE_HALF(bf16_to_float, bf16_from_float);
            break;
        default:
            COMBINE_REAL(double);
        }
    return fits;
}

#define DIVIDE(type)                                                                                         \
    do {                                                                                                     \
        for (int i = 0; i < COUNT; i++) ((type *)data)[i] = (type)(((type *)data)[i] / (type)n);             \
    } while (0)
#define DIVIDE_HALF(to_float, from_float)                                                                    \
    do {                                                                                                     \
        uint16_t *x = data;                                                                                  \
        for (int i = 0; i < COUNT; i++) x[i] = from_float(to_float(x[i]) / (float)n);                        \
    } while (0)

/* What is left to do after the sums of an average. */
static void finish(collective_type_t type, collective_op_t op, int n, void *data)
{
    if (op != COLLECTIVE_AVG) return;
    if (type == COLLECTIVE_INT32) DIVIDE(int32_t);
    if (type == COLLECTIVE_UINT32) DIVIDE(uint32_t);
    if (type == COLLECTIVE_INT64) DIVIDE(int64_t);
    if (type == COLLECTIVE_UINT64) DIVIDE(uint64_t);
    if (type == COLLECTIVE_FLOAT) DIVIDE(float);
    if (type == COLLECTIVE_DOUBLE) DIVIDE(double);
    if (type == COLLECTIVE_HALF) DIVIDE_HALF(half_to_float, half_from_exact);
    if (type == COLLECTIVE_BFLOAT16) DIVIDE_HALF(bf16_to_float, bf16_from_float);
    for (int i = 0; type <= COLLECTIVE_UINT8 && i < COUNT; i++) {
        int8_t *x = (int8_t *)data + i;
        *x = type == COLLECTIVE_INT8 ? (int8_t)(*x / n) : (int8_t)((uint8_t)*x / n);
    }
}

static double inputs[MAX_RANKS][COUNT], work[MAX_RANKS][COUNT];

static comm_check_t check_of(collective_kind_t kind, collective_type_t type, collective_op_t op, int rank,
                             int size)
{
    return (comm_check_t){.kind = kind,
                          .type = type,
                          .op = op,
                          .rank = rank,
                          .size = size,
                          .root = 0,
                          .peer = size - 1 - rank,
                          .count = COUNT,
                          .seed = 77};
}

static void fill_inputs(collective_type_t type, collective_op_t op, int n)
{
    for (int r = 0; r < n; r++) {
        comm_check_t c = check_of(COLLECTIVE_ALL_REDUCE, type, op, r, n);
        comm_check_fill(&c, inputs[r]);
    }
}

static int64_t wrong(collective_type_t type, collective_op_t op, int n, void *result)
{
    finish(type, op, n, result);
    comm_check_t c = check_of(COLLECTIVE_ALL_REDUCE, type, op, 0, n);
    int64_t first;
    return comm_check_count_wrong(&c, result, &first);
}

/* Summed from the first on, from the last on, and as a tree. */
static bool exact_in_any_order(collective_type_t type, collective_op_t op, int n)
{
    bool right = true;
    fill_inputs(type, op, n);
    memcpy(work, inputs, sizeof work);
    for (int r = 1; r < n; r++) right &= combine(type, op, work[0], inputs[r]);
    right &= wrong(type, op, n, work[0]) == 0;
    memcpy(work, inputs, sizeof work);
    for (int r = n - 2; r >= 0; r--) right &= combine(type, op, work[n - 1], inputs[r]);
    right &= wrong(type, op, n, work[n - 1]) == 0;
    memcpy(work, inputs, sizeof work);
    for (int far = 1; far < n; far *= 2)
        for (int r = 0; r + far < n; r += 2 * far) right &= combine(type, op, work[r], work[r + far]);
    return right && wrong(type, op, n, work[0]) == 0;
}

/* A missing rank, and a rank counted twice. A duplicate does not change a maximum or minimum. */
static bool notices_ranks(collective_type_t type, collective_op_t op, int n)
{
    fill_inputs(type, op, n);
    memcpy(work, inputs, sizeof work);
    for (int r = 1; r < n - 1; r++) combine(type, op, work[0], inputs[r]);
    bool noticed = wrong(type, op, n, work[0]) > 0;
    if (op == COLLECTIVE_SUM || op == COLLECTIVE_PROD) {
        combine(type, op, work[0], inputs[0]);
        noticed &= wrong(type, op, n, work[0]) > 0;
    }
    return noticed;
}

static void test_reductions(void)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 8, 64, 127, 128, 129, 255, 300};
    for (collective_op_t op = 0; op < COLLECTIVE_OPS; op++) {
        bool exact = true, noticed = true;
        for (collective_type_t type = 0; type < COLLECTIVE_TYPES; type++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                if (UNDER_SANITIZER && sizes[i] > 8) continue;
                bool right = exact_in_any_order(type, op, sizes[i]);
                if (!right) printf("# %s, %d ranks\n", collective_type_names[type], sizes[i]);
                exact &= right;
                /* An average over more ranks than the type has exact numbers is 0. */
                const bool few =
                    type == COLLECTIVE_INT8 || type == COLLECTIVE_UINT8 || type == COLLECTIVE_BFLOAT16;
                if (op == COLLECTIVE_AVG && few && sizes[i] > 127) continue;
                if (sizes[i] > 1) noticed &= notices_ranks(type, op, sizes[i]);
            }
        OK(exact, "%s: exact in any order, every type, up to %d ranks", collective_op_names[op], MAX_RANKS);
        OK(noticed, "%s: a missing or doubled rank is noticed", collective_op_names[op]);
    }
}

/* The expected result of a rank, computed from all inputs. */
static void expected_moves(collective_kind_t kind, collective_type_t type, int rank, int n, char *out)
{
    size_t piece = COUNT * collective_type_size(type);
    static char input[4 * COUNT * 8];
    size_t received = 0; /* of an alltoallv */
    for (int r = 0; r < n; r++) {
        comm_check_t c = check_of(kind, type, 0, r, n);
        comm_check_fill(&c, input);
        if (kind == COLLECTIVE_GATHER && rank != 0 && r == rank) memcpy(out, input, piece);
        if (kind == COLLECTIVE_SCATTER && r == 0) memcpy(out, input + (size_t)rank * piece, piece);
        if (kind == COLLECTIVE_ALLTOALLV) {
            size_t before = 0, size = collective_type_size(type);
            for (int k = 0; k < rank; k++) before += (size_t)collective_part(COUNT, type, r, k, n) * size;
            size_t n_part = (size_t)collective_part(COUNT, type, r, rank, n) * size;
            memcpy(out + received, input + before, n_part);
            received += n_part;
        }
        if (kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_HYPERCUBE ||
            (kind == COLLECTIVE_GATHER && rank == 0))
            memcpy(out + (size_t)r * piece, input, piece);
        if (kind == COLLECTIVE_ALLTOALL) memcpy(out + (size_t)r * piece, input + (size_t)rank * piece, piece);
        if (kind == COLLECTIVE_BROADCAST && r == 0) memcpy(out, input, piece);
        if (kind == COLLECTIVE_SENDRECV && (r + 1) % n == rank) memcpy(out, input, piece);
        if (kind == COLLECTIVE_EXCHANGE && r == n - 1 - rank) memcpy(out, input, piece);
    }
}

static void test_moves(void)
{
    enum { N = 4 };
    static const collective_kind_t kinds[] = {
        COLLECTIVE_ALL_GATHER, COLLECTIVE_ALLTOALL, COLLECTIVE_ALLTOALLV,
        COLLECTIVE_GATHER,     COLLECTIVE_SCATTER,  COLLECTIVE_HYPERCUBE,
        COLLECTIVE_BROADCAST,  COLLECTIVE_SENDRECV, COLLECTIVE_EXCHANGE,
    };
    static char result[N * COUNT * 8], shifted[N * COUNT * 8 + 8];
    bool right = true, noticed = true;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (collective_type_t type = 0; type < COLLECTIVE_TYPES; type++)
            for (int rank = 0; rank < N; rank++) {
                comm_check_t c = check_of(kinds[k], type, 0, rank, N);
                size_t n_element = collective_type_size(type);
                int64_t n = comm_check_elements(&c), first;
                expected_moves(kinds[k], type, rank, N, result);
                right &= comm_check_count_wrong(&c, result, &first) == 0 && first == -1;
                memcpy(shifted + n_element, result, (size_t)n * n_element);
                noticed &= comm_check_count_wrong(&c, shifted, &first) > n / 2;
                c.seed++;
                noticed &= comm_check_count_wrong(&c, result, &first) > n / 2;
            }
    OK(right, "the expected data is in the right place");
    OK(noticed, "shifted data is detected, and data left from an earlier call");
}

/* Every bit of an element in the middle, and of the first and the last. */
static void test_bits(void)
{
    static double result[COUNT];
    bool found = true;
    for (collective_type_t type = 0; type < COLLECTIVE_TYPES; type++)
        for (collective_op_t op = 0; op < COLLECTIVE_OPS; op++) {
            int64_t at[] = {0, COUNT / 2, COUNT - 1}, first, n_bits = 8 * (int64_t)collective_type_size(type);
            comm_check_t c = check_of(COLLECTIVE_ALL_REDUCE, type, op, 0, 2);
            fill_inputs(type, op, 2);
            memcpy(result, inputs[0], sizeof result);
            combine(type, op, result, inputs[1]);
            finish(type, op, 2, result);
            for (int k = 0; k < 3; k++)
                for (int64_t bit = at[k] * n_bits; bit < (at[k] + 1) * n_bits; bit++) {
                    ((unsigned char *)result)[bit / 8] ^= (unsigned char)(1 << bit % 8);
                    found &= comm_check_count_wrong(&c, result, &first) == 1 && first == at[k];
                    ((unsigned char *)result)[bit / 8] ^= (unsigned char)(1 << bit % 8);
                }
        }
    OK(found, "every flipped bit is detected at its position");
    comm_check_t c = check_of(COLLECTIVE_ALL_REDUCE, COLLECTIVE_INT32, COLLECTIVE_SUM, 0, 1);
    char text[80], wanted[80];
    int32_t *values = (int32_t *)(void *)result;
    comm_check_fill(&c, values);
    snprintf(wanted, sizeof wanted, "%d instead of %d", values[5] ^ 1, values[5]);
    values[5] ^= 1;
    comm_check_describe(&c, values, 5, text, sizeof text);
    OK(strcmp(text, wanted) == 0, "and described");
}

static void test_gibibyte(void)
{
    const int64_t n = (int64_t)1 << 27, bit = 8000000007;
    comm_check_t c = check_of(COLLECTIVE_BROADCAST, COLLECTIVE_DOUBLE, 0, 1, 2);
    unsigned char *data = NULL;
    int64_t first;
    if (machine_free_bytes() < (int64_t)3 << 29) {
        tap_skip("less than 1.5 GiB of free memory");
        return;
    }
    c.count = n;
    if (mem_new((size_t)n * 8, "test", &data) != ERR_OK) exit(1);
    comm_check_fill(&c, data);
    data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    OK(comm_check_count_wrong(&c, data, &first) == 1 && first == bit / 64, "one flipped bit in 1 GiB");
    mem_free(&data);
}

int main(void)
{
    tap_plan(53);
    test_factors();
    test_rounding();
    test_sizes();
    test_plan();
    test_settle();
    test_halves();
    test_long_names();
    test_exact();
    test_reductions();
    test_moves();
    test_bits();
    test_gibibyte();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
