/* SPDX-License-Identifier: MIT */
/* Generates inputs and expected results of every type and operation, and compares them bit for bit.
 * comm_call.c moves the data. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compute/tensor/float16.h"
#include "tools/bench/comm.h"

__extension__ typedef unsigned __int128 uint128_t;

enum { RESULT = -1 }; /* in place of a rank: the result of the reduction */

/* A span of a buffer; its element k has index first + k in the pattern. */
typedef enum pattern {
    PATTERN_MOVE,
    PATTERN_SUM,
    PATTERN_PROD,
    PATTERN_MAX,
    PATTERN_MIN,
    PATTERN_AVG
} pattern_t;
typedef struct span {
    pattern_t pattern;
    collective_type_t type;
    int rank, size; /* rank: whose input, or RESULT */
    uint64_t seed;
    int64_t first, n;
    int64_t at; /* offset in the buffer, in elements */
} span_t;

/* MurmurHash3's finaliser: every input bit affects every output bit. */
static inline uint64_t mix_bits(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

/* Maps a hash to 0 … range - 1. */
static inline uint64_t scale_hash(uint64_t hash, uint64_t range)
{
    return (uint64_t)((uint128_t)hash * range >> 64);
}

static inline bool is_float(collective_type_t type)
{
    return type >= COLLECTIVE_FLOAT;
}

static inline bool is_unsigned(collective_type_t type)
{
    return type == COLLECTIVE_UINT8 || type == COLLECTIVE_UINT32 || type == COLLECTIVE_UINT64;
}

/* Integers up to this are exact, and so are their sums. */
static inline int64_t exact_limit(collective_type_t type)
{
    static const int64_t limits[COLLECTIVE_TYPES] = {
        INT8_MAX,  UINT8_MAX, INT32_MAX,        UINT32_MAX, INT64_MAX,
        INT64_MAX, 1 << 24,   (int64_t)1 << 53, 1 << 11,    1 << 8,
    };
    return limits[type];
}

/* All bits of an integer type; for a floating-point type an exact signed integer. */
static inline int64_t any_value(collective_type_t type, uint64_t hash)
{
    if (type == COLLECTIVE_FLOAT) return (int64_t)hash >> 40;
    if (type == COLLECTIVE_DOUBLE) return (int64_t)hash >> 11;
    if (type == COLLECTIVE_HALF) return (int64_t)hash >> 53;
    if (type == COLLECTIVE_BFLOAT16) return (int64_t)hash >> 56;
    return (int64_t)hash;
}

/* A value from the upper or the lower half of the type's range. */
static inline int64_t half_value(collective_type_t type, uint64_t hash, bool upper)
{
    if (is_float(type)) {
        int64_t v = any_value(type, hash);
        return (v >= 0) == upper ? v : -1 - v;
    }
    uint64_t top = (uint64_t)1 << (8 * collective_type_size(type) - 1);
    bool set = is_unsigned(type) == upper;
    return (int64_t)(set ? hash | top : hash & ~top);
}

static inline int64_t signed_value(collective_type_t type, uint64_t hash, int64_t v)
{
    return !is_unsigned(type) && hash & 1 ? -v : v;
}

static inline int64_t sum_value(const span_t *s, uint64_t hash, int owner)
{
    int64_t limit = exact_limit(s->type), most = limit / 2 / s->size;
    uint64_t other = mix_bits(hash + 1);
    int64_t common = signed_value(s->type, other, (int64_t)scale_hash(other, (uint64_t)most + 1));
    uint64_t third = mix_bits(hash + 2);
    int64_t own = 1 + (int64_t)scale_hash(third, (uint64_t)(limit - most * s->size));
    own = signed_value(s->type, third, own);
    if (s->rank == RESULT) return common * s->size + own;
    return s->rank == owner ? common + own : common;
}

/* The owner adds a multiple of the number of ranks, so that the sum can be divided by it. With more ranks than
 * the type's exact numbers the only such multiple is 0. */
static inline int64_t avg_value(const span_t *s, uint64_t hash, int owner)
{
    int64_t limit = exact_limit(s->type), most = limit / 2 / s->size;
    uint64_t other = mix_bits(hash + 1), third = mix_bits(hash + 2);
    int64_t common = signed_value(s->type, other, (int64_t)scale_hash(other, (uint64_t)most + 1));
    int64_t room = (limit - most * s->size) / s->size;
    int64_t own = room ? signed_value(s->type, third, 1 + (int64_t)scale_hash(third, (uint64_t)room)) : 0;
    if (s->rank == RESULT) return common + own;
    return s->rank == owner ? common + own * s->size : common;
}

static inline int64_t prod_value(const span_t *s, uint64_t hash, int owner)
{
    uint64_t other = mix_bits(hash + 1);
    int64_t own = 1 + (int64_t)scale_hash(other, (uint64_t)exact_limit(s->type) / 4);
    own = signed_value(s->type, other, own);
    int second = s->size > 1 ? (owner + 1 + (int)((other >> 8) % (unsigned)(s->size - 1))) % s->size : RESULT;
    int64_t power = s->size > 1 ? 1 << (other >> 2) % 3 : 1;
    if (s->rank == RESULT) return own * power;
    return s->rank == owner ? own : s->rank == second ? power : 1;
}

static inline int64_t element_value(const span_t *s, int64_t index)
{
    uint64_t hash = mix_bits((uint64_t)index * 0x9e3779b97f4a7c15ULL ^ s->seed);
    if (s->pattern == PATTERN_MOVE) return any_value(s->type, hash);
    int owner = (int)scale_hash(hash, (uint64_t)s->size);
    if (s->pattern == PATTERN_SUM) return sum_value(s, hash, owner);
    if (s->pattern == PATTERN_AVG) return avg_value(s, hash, owner);
    if (s->pattern == PATTERN_PROD) return prod_value(s, hash, owner);
    bool upper = s->pattern == PATTERN_MAX;
    if (s->rank == RESULT || s->rank == owner) return half_value(s->type, mix_bits(hash + 1), upper);
    return half_value(s->type, mix_bits(hash + 2 + (uint64_t)s->rank), !upper);
}

static inline uint16_t half_of(int64_t value)
{
    return half_from_exact((float)value);
}

static inline uint16_t bf16_of(int64_t value)
{
    return bf16_from_float((float)value);
}

/* Compares bits: 0 and -0 differ, which reveals a flipped sign. */
#define LOOPS(name, type, make)                                                                              \
    static void fill_##name(const span_t *s, void *out)                                                      \
    {                                                                                                        \
        type *to = (type *)out + s->at;                                                                      \
        for (int64_t k = 0; k < s->n; k++) to[k] = make(element_value(s, s->first + k));                     \
    }                                                                                                        \
    static int64_t count_##name(const span_t *s, const void *data, int64_t *first)                           \
    {                                                                                                        \
        const type *from = (const type *)data + s->at;                                                       \
        int64_t n = 0;                                                                                       \
        for (int64_t k = s->n; k-- > 0;) {                                                                   \
            type v = make(element_value(s, s->first + k));                                                   \
            if (memcmp(&v, &from[k], sizeof v) == 0) continue;                                               \
            n++;                                                                                             \
            *first = s->at + k;                                                                              \
        }                                                                                                    \
        return n;                                                                                            \
    }

LOOPS(int8, int8_t, (int8_t))
LOOPS(uint8, uint8_t, (uint8_t))
LOOPS(int32, int32_t, (int32_t))
LOOPS(uint32, uint32_t, (uint32_t))
LOOPS(int64, int64_t, (int64_t))
LOOPS(uint64, uint64_t, (uint64_t))
LOOPS(float, float, (float))
LOOPS(double, double, (double))
LOOPS(half, uint16_t, half_of)
LOOPS(bfloat16, uint16_t, bf16_of)

typedef struct loops {
    void (*fill)(const span_t *s, void *out);
    int64_t (*count)(const span_t *s, const void *data, int64_t *first);
} loops_t;

static const loops_t loops[COLLECTIVE_TYPES] = {
    {fill_int8, count_int8},         {fill_uint8, count_uint8},   {fill_int32, count_int32},
    {fill_uint32, count_uint32},     {fill_int64, count_int64},   {fill_uint64, count_uint64},
    {fill_float, count_float},       {fill_double, count_double}, {fill_half, count_half},
    {fill_bfloat16, count_bfloat16},
};

static pattern_t pattern_of(const comm_check_t *c)
{
    switch (c->kind) {
    case COLLECTIVE_ALL_REDUCE:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_REDUCE:
        return (pattern_t)(PATTERN_SUM + c->op);
    default:
        return PATTERN_MOVE;
    }
}

/* Elements that rank `from` of an alltoallv sends to those before `to`. */
static int64_t parts_before(const comm_check_t *c, int from, int to)
{
    int64_t n = 0;
    for (int r = 0; r < to; r++) n += collective_part(c->count, c->type, from, r, c->size);
    return n;
}

static span_t input_span(const comm_check_t *c)
{
    int64_t n = c->count;
    span_t s = {pattern_of(c), c->type, c->rank, c->size, c->seed, 0, n, 0};
    switch (c->kind) {
    case COLLECTIVE_REDUCE_SCATTER:
        s.n = n * c->size;
        break;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_HYPERCUBE:
    case COLLECTIVE_SENDRECV:
    case COLLECTIVE_EXCHANGE:
        s.first = c->rank * n;
        break;
    case COLLECTIVE_SCATTER:
        s.n = c->rank == c->root ? n * c->size : 0;
        break;
    case COLLECTIVE_ALLTOALL:
        s.n = n * c->size;
        s.first = c->rank * s.n;
        break;
    case COLLECTIVE_ALLTOALLV:
        s.n = parts_before(c, c->rank, c->size);
        s.first = c->rank * n * c->size;
        break;
    default:
        break;
    }
    return s;
}

/* The result of an alltoall has a span per rank, any other has one. */
static int n_result_spans(const comm_check_t *c)
{
    return c->kind == COLLECTIVE_ALLTOALL || c->kind == COLLECTIVE_ALLTOALLV ? c->size : 1;
}

static span_t result_span(const comm_check_t *c, int i)
{
    int64_t n = c->count;
    span_t s = {pattern_of(c), c->type, RESULT, c->size, c->seed, 0, n, 0};
    switch (c->kind) {
    case COLLECTIVE_REDUCE_SCATTER:
        s.first = c->rank * n;
        break;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_HYPERCUBE:
        s.n = n * c->size;
        break;
    case COLLECTIVE_GATHER:
        if (c->rank != c->root) return input_span(c);
        s.n = n * c->size;
        break;
    case COLLECTIVE_SCATTER:
        s.first = c->rank * n;
        break;
    case COLLECTIVE_ALLTOALLV:
        s.first = i * n * c->size + parts_before(c, i, c->rank);
        s.n = collective_part(n, c->type, i, c->rank, c->size);
        for (int r = 0; r < i; r++) s.at += collective_part(n, c->type, r, c->rank, c->size);
        break;
    case COLLECTIVE_SENDRECV:
        s.first = (c->rank + c->size - 1) % c->size * n;
        break;
    case COLLECTIVE_EXCHANGE:
        s.first = c->peer * n;
        if (c->peer == c->rank) s.n = 0;
        break;
    case COLLECTIVE_ALLTOALL:
        s.first = ((int64_t)i * c->size + c->rank) * n;
        s.at = i * n;
        break;
    case COLLECTIVE_REDUCE:
        if (c->rank != c->root) return input_span(c);
        break;
    default:
        break;
    }
    return s;
}

bool comm_check_is_exact(const comm_check_t *c, bool on_device)
{
    bool averages = pattern_of(c) == PATTERN_AVG, power_of_2 = (c->size & (c->size - 1)) == 0;
    return !averages || !on_device || power_of_2 || !is_float(c->type);
}

void comm_check_fill(const comm_check_t *check, void *input)
{
    span_t s = input_span(check);
    loops[check->type].fill(&s, input);
}

int64_t comm_check_count_wrong(const comm_check_t *check, const void *result, int64_t *first)
{
    int64_t n = 0;
    *first = -1;
    for (int i = n_result_spans(check) - 1; i >= 0; i--) {
        span_t s = result_span(check, i);
        n += loops[check->type].count(&s, result, first);
    }
    return n;
}

int64_t comm_check_elements(const comm_check_t *check)
{
    int64_t n = 0;
    for (int i = 0; i < n_result_spans(check); i++) n += result_span(check, i).n;
    return n;
}

static void print_element(collective_type_t type, const void *element, char *out, size_t n_bytes)
{
    switch (type) {
    case COLLECTIVE_INT8:
        snprintf(out, n_bytes, "%d", *(const int8_t *)element);
        break;
    case COLLECTIVE_UINT8:
        snprintf(out, n_bytes, "%d", *(const uint8_t *)element);
        break;
    case COLLECTIVE_INT32:
        snprintf(out, n_bytes, "%" PRId32, *(const int32_t *)element);
        break;
    case COLLECTIVE_UINT32:
        snprintf(out, n_bytes, "%" PRIu32, *(const uint32_t *)element);
        break;
    case COLLECTIVE_INT64:
        snprintf(out, n_bytes, "%" PRId64, *(const int64_t *)element);
        break;
    case COLLECTIVE_UINT64:
        snprintf(out, n_bytes, "%" PRIu64, *(const uint64_t *)element);
        break;
    case COLLECTIVE_FLOAT:
        snprintf(out, n_bytes, "%.9g", (double)*(const float *)element);
        break;
    case COLLECTIVE_HALF:
        snprintf(out, n_bytes, "%.5g", (double)half_to_float(*(const uint16_t *)element));
        break;
    case COLLECTIVE_BFLOAT16:
        snprintf(out, n_bytes, "%.4g", (double)bf16_to_float(*(const uint16_t *)element));
        break;
    default:
        snprintf(out, n_bytes, "%.17g", *(const double *)element);
    }
}

void comm_check_describe(const comm_check_t *check, const void *result, int64_t element, char *out,
                         size_t n_bytes)
{
    char is[32] = "", wanted[32] = "";
    union {
        int64_t whole;
        double real;
    } expected;
    for (int i = 0; i < n_result_spans(check); i++) {
        span_t s = result_span(check, i);
        if (element < s.at || element >= s.at + s.n) continue;
        s.first += element - s.at;
        s.at = 0;
        s.n = 1;
        loops[check->type].fill(&s, &expected);
        print_element(check->type, &expected, wanted, sizeof wanted);
    }
    print_element(check->type, (const char *)result + element * (int64_t)collective_type_size(check->type),
                  is, sizeof is);
    snprintf(out, n_bytes, "%s instead of %s", is, wanted);
}
