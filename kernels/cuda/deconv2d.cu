/* SPDX-License-Identifier: MIT */
/* Moves between the rows of deconv2d's product and their places in the image. */
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/kernels_detection.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Sizes in packs. */
struct sizes_t {
    divider_t width, kernel, piece, out; /* piece: kernel · out, contiguous on both sides */
};

/* Where pack i of the product is in the image; *channel: its output channel. */
__device__ inline int64_t place_of(const sizes_t &s, uint32_t i, uint32_t *channel)
{
    uint32_t within, line, column;
    uint32_t pixel = divide(divide(i, s.piece, &within), s.kernel, &line);
    int64_t row = divide(pixel, s.width, &column);
    divide(within, s.out, channel);
    return ((row * s.kernel.divisor + line) * s.width.divisor + column) * s.piece.divisor + within;
}

/* Reads and writes each element once. */
template <int N>
__global__ void to_image(sizes_t s, const float *product, const float *bias, float *y, int64_t n)
{
    GRID_LOOP (i, n) {
        uint32_t channel;
        int64_t at = place_of(s, static_cast<uint32_t>(i), &channel);
        pack_t<float, N> v = load<N>(product + i * N);
        for (int k = 0; k < N && bias; k++) v.at[k] += bias[channel * N + k];
        store(y + at * N, v);
    }
}

template <int N> __global__ void from_image(sizes_t s, const float *dy, float *product, int64_t n)
{
    GRID_LOOP (i, n) {
        uint32_t channel;
        int64_t at = place_of(s, static_cast<uint32_t>(i), &channel);
        store(product + i * N, load<N>(dy + at * N));
    }
}

/* Cuts the rows into parts that fit 32-bit counters. launch_part(s, n, at): n packs, and the elements before
 * them. */
template <int N, typename F> cudaError_t each_part(const deconv_t *d, F launch_part)
{
    const int64_t piece = d->kernel * d->n_out / N, row = d->width * d->kernel * piece,
                  most = INT32_MAX / row;
    const sizes_t s = {divider_of(d->width), divider_of(d->kernel), divider_of(piece),
                       divider_of(d->n_out / N)};
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < d->n_rows && status == cudaSuccess; first += most) {
        int64_t n = (d->n_rows - first < most ? d->n_rows - first : most) * row;
        status = launch_part(s, n, first * row * N);
    }
    return status;
}

template <int N>
cudaError_t to_image_by(const deconv_t *d, const float *product, const float *bias, float *y,
                        cudaStream_t stream)
{
    return each_part<N>(d, [=](const sizes_t &s, int64_t n, int64_t at) {
        traffic_count("deconv2d_to_image", n * N * 8 + (bias ? d->n_out * 4 : 0));
        return launch(to_image<N>, grid_for(n), BLOCK, stream, s, product + at, bias, y + at, n);
    });
}

template <int N>
cudaError_t from_image_by(const deconv_t *d, const float *dy, float *product, cudaStream_t stream)
{
    return each_part<N>(d, [=](const sizes_t &s, int64_t n, int64_t at) {
        traffic_count("deconv2d_from_image", n * N * 8);
        return launch(from_image<N>, grid_for(n), BLOCK, stream, s, dy + at, product + at, n);
    });
}
} // namespace

cudaError_t deconv2d_to_image(const deconv_t *d, const float *product, const float *bias, float *y,
                              cudaStream_t stream)
{
    if (d->n_out % 4 == 0 && packs<4>(product) && packs<4>(y))
        return to_image_by<4>(d, product, bias, y, stream);
    return to_image_by<1>(d, product, bias, y, stream);
}

cudaError_t deconv2d_from_image(const deconv_t *d, const float *dy, float *product, cudaStream_t stream)
{
    if (d->n_out % 4 == 0 && packs<4>(product) && packs<4>(dy))
        return from_image_by<4>(d, dy, product, stream);
    return from_image_by<1>(d, dy, product, stream);
}
