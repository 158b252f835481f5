/* SPDX-License-Identifier: MIT */
/* Reductions in a fixed order: norms in double with what clipping and LARS make of them, and losses and correct
 * predictions of a batch. Hashes, whose order does not matter. The buffer for partial sums lives from open to close. */
#include "base/hash.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Norms of 1 or 2 arrays (gradients, then weights) × spans are at most MAX_SUMS, their sums of blocks MAX_PARTIALS. */
enum { MAX_SUMS = 2048, MAX_PARTIALS = 8 * MAX_SUMS };

/* Sum over a block in a fixed order: halves onto halves. A kernel calls it once per T. */
template <typename T> __device__ T block_sum(T mine)
{
    __shared__ T part[BLOCK];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

/* Sums of squares of span blockIdx.y of the gradients (blockIdx.z = 0) or the weights, one for each
 * blockIdx.x. A thread's elements are 4i … 4i+3 whether they are read together or one by one, so the order of
 * the sum does not depend on the address. */
__global__ void span_squares(optim_norms_t norms, double *partial)
{
    const optim_span_t span = norms.spans[blockIdx.y];
    const float *x = (blockIdx.z ? norms.weight : norms.gradient) + span.first;
    double *mine = partial + (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const bool aligned = packs<4>(x);
    if (static_cast<int64_t>(4) * BLOCK * blockIdx.x >= span.n) { /* a short span: nothing for this block */
        if (threadIdx.x == 0) *mine = 0;
        return;
    }
    double sum = 0;
    GRID_LOOP (i, (span.n + 3) / 4) {
        pack_t<float, 4> four = {};
        if (aligned && 4 * i + 4 <= span.n)
            four = load<4>(x + 4 * i);
        else
            for (int k = 0; k < 4; k++) four.at[k] = 4 * i + k < span.n ? x[4 * i + k] : 0;
        for (int k = 0; k < 4; k++) sum += static_cast<double>(four.at[k]) * four.at[k];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *mine = sum;
}

/* Block i adds up n partial sums. */
__global__ void add_up(const double *partial, int n, double *sums)
{
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) sum += partial[static_cast<int64_t>(blockIdx.x) * n + i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* What follows from the sums, in one block. */
__global__ void scale_and_ratios(optim_norms_t norms, const double *sums)
{
    double mine = 0;
    for (int i = threadIdx.x; i < norms.n_spans; i += BLOCK) mine += sums[i];
    const double norm = sqrt(block_sum(mine));
    double scale = norms.clip_norm > 0 && norm > norms.clip_norm ? norms.clip_norm / norm : 1;
    if (!isfinite(norm)) scale = NAN;
    if (threadIdx.x == 0) {
        norms.out[OPTIM_NORM] = norm;
        norms.out[OPTIM_SCALE] = scale;
    }
    for (int i = threadIdx.x; norms.trust > 0 && i < norms.n_spans; i += BLOCK) {
        const double g = scale * sqrt(sums[i]), w = sqrt(sums[norms.n_spans + i]);
        const bool has_ratio = norms.spans[i].is_weight && g > 0 && w > 0;
        norms.out[OPTIM_RATIO + i] =
            has_ratio ? norms.trust * w / (g + norms.weight_decay * w + norms.epsilon) : 1;
    }
}

__global__ void tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                      float *totals)
{
    double loss = 0;
    int right = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        loss += losses[i];
        right += predictions && predictions[i] == labels[i];
    }
    loss = block_sum(loss);
    right = block_sum(right);
    if (threadIdx.x > 0) return;
    totals[0] += static_cast<float>(loss);
    totals[1] += static_cast<float>(right);
}

/* Adds terms of word_hash (base/hash.h) to *sum: 8 bytes a thread and turn. The rest of the bytes are the last word. */
__global__ void hash_words(const uint64_t *words, int64_t n, int rest, unsigned long long *sum)
{
    uint64_t mine = 0;
    GRID_LOOP (i, n) mine += word_hash_term(words[i], static_cast<uint64_t>(i));
    if (rest > 0 && blockIdx.x == 0 && threadIdx.x == 0) {
        const unsigned char *tail = reinterpret_cast<const unsigned char *>(words + n);
        uint64_t word = 0;
        for (int k = 0; k < rest; k++) word |= static_cast<uint64_t>(tail[k]) << (8 * k);
        mine += word_hash_term(word, static_cast<uint64_t>(n));
    }
    mine = block_sum(mine);
    if (threadIdx.x == 0) atomicAdd(sum, static_cast<unsigned long long>(mine));
}
} // namespace

static double *partial; /* on the device: MAX_PARTIALS, followed by MAX_SUMS sums */

/* 4 bytes per element of each array. The number of blocks, and with it the order, depends only on the spans. */
static cudaError_t reduce_norms(const optim_norms_t *norms, cudaStream_t stream)
{
    double *const sums = partial + MAX_PARTIALS;
    const int n_arrays = norms->trust > 0 ? 2 : 1, n_sums = n_arrays * norms->n_spans;
    unsigned n_parts = grid_for((norms->n_longest + 15) / 16).x, most = MAX_PARTIALS / n_sums;
    if (most > 1024) most = 1024;
    if (n_parts > most) n_parts = most;
    const dim3 grid(n_parts, static_cast<unsigned>(norms->n_spans), static_cast<unsigned>(n_arrays));
    /* The lengths of the spans are on the device: this is the most that they can be. */
    traffic_count("norms", norms->n_longest * n_sums * 4);
    cudaError_t status = launch(span_squares, grid, BLOCK, stream, *norms, partial);
    if (status != cudaSuccess) return status;
    traffic_count("norms_end", (static_cast<int64_t>(n_parts) + 1) * n_sums * 8);
    status = launch(add_up, n_sums, BLOCK, stream, partial, static_cast<int>(n_parts), sums);
    if (status != cudaSuccess) return status;
    traffic_count("norms_end", static_cast<int64_t>(n_sums) * 8);
    return launch(scale_and_ratios, 1, BLOCK, stream, *norms, sums);
}

err_t cuda_reduce_open(void)
{
    void *block = nullptr;
    TRY(cuda_memory.alloc((MAX_PARTIALS + MAX_SUMS) * sizeof *partial, "partial sums", &block));
    partial = static_cast<double *>(block);
    return ERR_OK;
}

void cuda_reduce_close(void)
{
    if (partial) cuda_memory.release(partial);
    partial = nullptr;
}

err_t cuda_norms(const optim_norms_t *args)
{
    const int most = MAX_SUMS / 2;
    if (args->n_spans > most)
        RAISE(ERR_SYSTEM,
              "gradient norms on a GPU: the model has %d groups of parameters, at most %d are supported",
              args->n_spans, most);
    E_CUDA(reduce_norms(args, cuda_stream()), "gradient norms");
    return ERR_OK;
}

err_t cuda_hash(const void *device, size_t n_bytes, uint64_t seed, uint64_t *out)
{
    uint64_t *sum = reinterpret_cast<uint64_t *>(partial), terms = 0;
    TRY(cuda_memory.zero(sum, sizeof *sum));
    const int64_t n = static_cast<int64_t>(n_bytes / sizeof(uint64_t));
    traffic_count("hash", static_cast<int64_t>(n_bytes));
    E_CUDA(launch(hash_words, grid_for(n), BLOCK, cuda_stream(), static_cast<const uint64_t *>(device), n,
                  static_cast<int>(n_bytes % sizeof(uint64_t)), reinterpret_cast<unsigned long long *>(sum)),
           "hashing memory of the GPU");
    TRY(cuda_memory.download(&terms, sum, sizeof terms));
    TRY(cuda_memory.sync());
    *out = word_hash_mix(seed) + terms;
    return ERR_OK;
}

err_t cuda_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                 float *totals)
{
    traffic_count("tally", n * (predictions ? 12 : 4) + 8);
    E_CUDA(launch(tally, 1, BLOCK, cuda_stream(), losses, predictions, labels, n, totals), "adding losses");
    return ERR_OK;
}
