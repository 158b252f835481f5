/* SPDX-License-Identifier: MIT */
/* Reductions in a fixed order: norms in double with what clipping and LARS make of them, and losses and correct
 * predictions of a batch. Hashes, whose order does not matter. The memory for a hash lives from open to close. */
#include "base/hash.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Sum over a block of 2^k threads in a fixed order: halves onto halves. A kernel calls it once per T. */
template <typename T> __device__ T block_sum(T mine)
{
    __shared__ T part[BLOCK];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

/* Sum of squares of cell blockIdx.x of the gradients (blockIdx.y = 0) or the weights. A thread's elements are
 * 4i … 4i+3 whether they are read together or one by one, so the order of the sum does not depend on the address. */
__global__ void cell_squares(optim_norms_t norms)
{
    const optim_span_t cell = norms.cells[blockIdx.x];
    const float *x = (blockIdx.y ? norms.weight : norms.gradient) + cell.first;
    const bool aligned = packs<4>(x);
    double sum = 0;
    for (int64_t i = threadIdx.x; 4 * i < cell.n; i += blockDim.x) {
        pack_t<float, 4> four = {};
        if (aligned && 4 * i + 4 <= cell.n)
            four = load<4>(x + 4 * i);
        else
            for (int k = 0; k < 4; k++) four.at[k] = 4 * i + k < cell.n ? x[4 * i + k] : 0;
        for (int k = 0; k < 4; k++) sum += static_cast<double>(four.at[k]) * four.at[k];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) norms.squares[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* Adds up the cells of group blockIdx.x of the gradients (blockIdx.y = 0) or the weights. */
__global__ void add_cells(optim_norms_t norms)
{
    const optim_span_t group = norms.groups[blockIdx.x];
    const double *squares = norms.squares + blockIdx.y * static_cast<int64_t>(norms.n_cells) + group.first;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < group.n; i += BLOCK) sum += squares[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) norms.sums[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* What follows from the sums, in one block. */
__global__ void scale_and_ratios(optim_norms_t norms)
{
    double mine = 0;
    for (int i = threadIdx.x; i < norms.n_groups; i += BLOCK) mine += norms.sums[i];
    const double norm = sqrt(block_sum(mine));
    double scale = norms.clip_norm > 0 && norm > norms.clip_norm ? norms.clip_norm / norm : 1;
    if (!isfinite(norm)) scale = NAN;
    if (threadIdx.x == 0) {
        norms.out[OPTIM_NORM] = norm;
        norms.out[OPTIM_SCALE] = scale;
    }
    for (int i = threadIdx.x; norms.trust > 0 && i < norms.n_groups; i += BLOCK) {
        const double g = scale * sqrt(norms.sums[i]), w = sqrt(norms.sums[norms.n_groups + i]);
        const bool has_ratio = norms.groups[i].is_weight && g > 0 && w > 0;
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

static uint64_t *hash_sum; /* on the device */

err_t cuda_reduce_open(void)
{
    void *block = nullptr;
    TRY(cuda_memory.alloc(sizeof *hash_sum, "a hash", &block));
    hash_sum = static_cast<uint64_t *>(block);
    return ERR_OK;
}

void cuda_reduce_close(void)
{
    if (hash_sum) cuda_memory.release(hash_sum);
    hash_sum = nullptr;
}

/* Of gradients, and of weights where there are ratios. */
static unsigned arrays_of(const optim_norms_t *norms)
{
    return norms->trust > 0 ? 2 : 1;
}

/* Some 16 reads for a thread, where cells are long enough. */
err_t cuda_squares(const optim_norms_t *args)
{
    unsigned n_threads = 32;
    while (n_threads < BLOCK && n_threads * 128 <= args->n_longest) n_threads *= 2;
    const dim3 grid(static_cast<unsigned>(args->n_cells), arrays_of(args));
    traffic_count("norms", (args->n * 4 + static_cast<int64_t>(args->n_cells) * 8) * grid.y);
    E_CUDA(launch(cell_squares, grid, n_threads, cuda_stream(), *args), "gradient norms");
    return ERR_OK;
}

err_t cuda_norms(const optim_norms_t *args)
{
    const dim3 grid(static_cast<unsigned>(args->n_groups), arrays_of(args));
    traffic_count("norms_end", (static_cast<int64_t>(args->n_cells) + args->n_groups) * grid.y * 8);
    E_CUDA(launch(add_cells, grid, BLOCK, cuda_stream(), *args), "gradient norms");
    traffic_count("norms_end", static_cast<int64_t>(args->n_groups) * grid.y * 8);
    E_CUDA(launch(scale_and_ratios, 1, BLOCK, cuda_stream(), *args), "gradient norms");
    return ERR_OK;
}

err_t cuda_hash(const void *device, size_t n_bytes, uint64_t seed, uint64_t *out)
{
    uint64_t terms = 0;
    TRY(cuda_memory.zero(hash_sum, sizeof *hash_sum));
    const int64_t n = static_cast<int64_t>(n_bytes / sizeof(uint64_t));
    traffic_count("hash", static_cast<int64_t>(n_bytes));
    E_CUDA(launch(hash_words, grid_for(n), BLOCK, cuda_stream(), static_cast<const uint64_t *>(device), n,
                  static_cast<int>(n_bytes % sizeof(uint64_t)),
                  reinterpret_cast<unsigned long long *>(hash_sum)),
           "hashing memory of the GPU");
    TRY(cuda_memory.download(&terms, hash_sum, sizeof terms));
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
