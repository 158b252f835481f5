/* SPDX-License-Identifier: MIT */
/* Reductions that MPI lacks: steps for half and bfloat16 in float, and the division of an average. */
#include "cluster/comm/mpi/reduction.h"

#include "cluster/comm/mpi/call.h"
#include "compute/tensor/float16.h"

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

err_t mpi_reduction_new(collective_type_t type, collective_op_t op, MPI_Op *out)
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

void mpi_reduction_free(collective_type_t type, MPI_Op *op)
{
    if (!is_predefined(type)) MPI_Op_free(op);
    *op = MPI_OP_NULL;
}

#define DIVIDE(type, to, from)                                                                               \
    do {                                                                                                     \
        type *x = data;                                                                                      \
        for (int64_t i = 0; i < n; i++) x[i] = from(to(x[i]) / by);                                          \
    } while (0)

void mpi_reduction_divide(collective_type_t type, void *data, int64_t n, int by)
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
