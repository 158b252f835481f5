/* SPDX-License-Identifier: MIT */
/* Dropout: draws masks and applies them, four elements per thread: as many as share a block of random words, which
 * are those of the CPU backends. The mask has a bit per element. */
#include "kernels/cuda/vector.cuh"

namespace
{
typedef struct dropout {
    int64_t n_samples, n_sample; /* n_sample: elements per sample */
    uint64_t threshold, key;     /* words below the threshold are kept */
    uint32_t layer;
    float scale; /* of kept elements */
    bool narrow;
    step_u64_t step, first_sample;
} dropout_t;

/* rng_philox and rng_dropout_block of base/rng.h on the device: the same words for the same key and counter.
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
struct philox_block {
    uint32_t word[4];
};

__device__ inline philox_block philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return philox_block{{c0, c1, c2, c3}};
}

__device__ inline philox_block dropout_block(uint64_t key, uint32_t layer, uint64_t step, uint64_t sample,
                                             uint32_t i_div_4)
{
    return philox(key, i_div_4, (uint32_t)sample, (uint32_t)step, layer);
}

/* Four neighbours of one sample, which share a block of random words. */
struct quad {
    int64_t sample, block, first; /* first: index in the tensor */
    int n;                        /* fewer than 4 only at the end of a sample */
};

__device__ inline quad quad_at(const dropout_t &d, int64_t i)
{
    int64_t n_blocks = (d.n_sample + 3) / 4;
    quad q;
    q.sample = i / n_blocks;
    q.block = i - q.sample * n_blocks;
    q.first = q.sample * d.n_sample + 4 * q.block;
    int64_t left = d.n_sample - 4 * q.block;
    q.n = left < 4 ? (int)left : 4;
    return q;
}

template <bool PACKED, typename T> __device__ inline pack_t<float, 4> load_quad(const T *x, quad q)
{
    pack_t<float, 4> v = {};
    if constexpr (PACKED)
        v = take<4>(x + q.first);
    else
        for (int k = 0; k < q.n; k++) v.at[k] = take<1>(x + q.first + k).at[0];
    return v;
}

/* y = v · scale for set bits of `keep`, else 0. */
template <bool PACKED, typename T>
__device__ inline void store_quad(T *y, quad q, pack_t<float, 4> v, unsigned keep, float scale)
{
    for (int k = 0; k < 4; k++) v.at[k] = keep >> k & 1 ? v.at[k] * scale : 0;
    if constexpr (PACKED)
        put(y + q.first, v);
    else
        for (int k = 0; k < q.n; k++) put(y + q.first + k, pack_t<float, 1>{{v.at[k]}});
}

/* Reads and writes each element, and a quarter of a byte for the mask. x may be y. */
template <bool PACKED, typename T> __global__ void forward(dropout_t d, const T *x, T *y, uint8_t *mask)
{
    uint64_t step = step_value(d.step), first_sample = step_value(d.first_sample);
    GRID_LOOP (i, d.n_samples * ((d.n_sample + 3) / 4)) {
        quad q = quad_at(d, i);
        pack_t<float, 4> v = load_quad<PACKED>(x, q);
        philox_block random =
            dropout_block(d.key, d.layer, step, first_sample + (uint64_t)q.sample, (uint32_t)q.block);
        unsigned keep = 0;
        for (int k = 0; k < 4; k++) keep |= (unsigned)(random.word[k] < d.threshold) << k;
        store_quad<PACKED>(y, q, v, keep, d.scale);
        if (mask) mask[i] = (uint8_t)keep;
    }
}

/* Moves as much. dy may be dx. */
template <bool PACKED, typename T>
__global__ void backward(dropout_t d, const T *dy, const uint8_t *mask, T *dx)
{
    GRID_LOOP (i, d.n_samples * ((d.n_sample + 3) / 4)) {
        quad q = quad_at(d, i);
        store_quad<PACKED>(dx, q, load_quad<PACKED>(dy, q), mask[i], d.scale);
    }
}

template <typename T> bool packed(const dropout_t *d, const T *from, const T *to)
{
    return d->n_sample % 4 == 0 && packs<4>(from) && packs<4>(to);
}

dim3 grid_of(const dropout_t *d)
{
    return grid_for(d->n_samples * ((d->n_sample + 3) / 4));
}

/* Two arrays, and four elements in a byte of the mask. */
template <typename T> void count_arrays(const char *kernel, const dropout_t *d, bool mask)
{
    int64_t size = sizeof(T);
    traffic_count(kernel, d->n_samples * (d->n_sample * 2 * size + (mask ? (d->n_sample + 3) / 4 : 0)));
}

template <typename T>
cudaError_t run_forward(const dropout_t *d, const void *from, void *to, uint8_t *mask, cudaStream_t stream)
{
    const T *x = static_cast<const T *>(from);
    T *y = static_cast<T *>(to);
    count_arrays<T>("dropout_forward", d, mask != nullptr);
    return launch(packed(d, x, y) ? forward<true, T> : forward<false, T>, grid_of(d), BLOCK, stream, *d, x, y,
                  mask);
}

template <typename T>
cudaError_t run_backward(const dropout_t *d, const void *from, const uint8_t *mask, void *to,
                         cudaStream_t stream)
{
    const T *dy = static_cast<const T *>(from);
    T *dx = static_cast<T *>(to);
    count_arrays<T>("dropout_backward", d, true);
    return launch(packed(d, dy, dx) ? backward<true, T> : backward<false, T>, grid_of(d), BLOCK, stream, *d,
                  dy, mask, dx);
}
} // namespace

/* Saved: one byte per four neighbours that share a block of random words; bit k is set if neighbour k is
 * kept. */
static dropout_t dropout_of(const op_t *op, bool narrow)
{
    double keep = 1 - op->desc.attr.dropout.rate;
    return dropout_t{.n_samples = op->desc.y[0].dim[0],
                     .n_sample = shape_sample_count(op->desc.y[0]),
                     .threshold = (uint64_t)(keep * 4294967296.0), /* 2^32 at rate 0 */
                     .scale = (float)(1 / keep),
                     .narrow = narrow};
}

static size_t mask_bytes(const op_t *op)
{
    return (size_t)(op->desc.y[0].dim[0] * ((shape_sample_count(op->desc.y[0]) + 3) / 4));
}

static err_t cuda_dropout_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? mask_bytes(op) : 0;
    return ERR_OK;
}

/* Evaluation: y = x, and the mask keeps everything, in case backward is called. */
static err_t forward_identity(const op_t *op, const op_args_t *args)
{
    size_t n_bytes = (size_t)shape_count(op->desc.y[0]) * dtype_size(args->y[0].dtype);
    if (args->y[0].data != args->x[0].data) TRY(cuda_memory.copy(args->y[0].data, args->x[0].data, n_bytes));
    if (op->n_saved_bytes)
        E_CUDA(cudaMemsetAsync(args->saved, 0xf, mask_bytes(op), cuda_stream()), "dropout in evaluation");
    return ERR_OK;
}

static step_u64_t step_of(uint64_t value, size_t recorded)
{
    return {value, static_cast<const uint64_t *>(cuda_recorded(recorded))};
}

static err_t cuda_dropout_forward(const op_t *op, const op_args_t *args)
{
    if (!args->training) return forward_identity(op, args);
    dropout_t d = dropout_of(op, args->y[0].dtype == DTYPE_BF16);
    d.key = args->dropout.key;
    d.layer = args->dropout.layer;
    d.step = step_of(args->dropout.step, offsetof(backend_step_t, step));
    d.first_sample = step_of(args->dropout.first_sample, offsetof(backend_step_t, first_sample));
    uint8_t *saved = op->n_saved_bytes ? static_cast<uint8_t *>(args->saved) : nullptr;
    E_CUDA((d.narrow ? run_forward<uint16_t> : run_forward<float>)(&d, args->x[0].data, args->y[0].data,
                                                                   saved, cuda_stream()),
           "dropout");
    return ERR_OK;
}

static err_t cuda_dropout_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    dropout_t d = dropout_of(op, args->dy[0].dtype == DTYPE_BF16);
    E_CUDA((d.narrow ? run_backward<uint16_t> : run_backward<float>)(&d, args->dy[0].data,
                                                                     static_cast<uint8_t *>(args->saved),
                                                                     args->dx[0].data, cuda_stream()),
           "dropout, backward");
    return ERR_OK;
}

const op_kernel_t cuda_dropout = {.plan = cuda_dropout_plan,
                                  .forward = cuda_dropout_forward,
                                  .backward = cuda_dropout_backward,
                                  .bf16 = true};
