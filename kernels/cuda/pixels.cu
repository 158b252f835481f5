/* SPDX-License-Identifier: MIT */
/* Converts bytes to normalized floats, through an affine map or onto a canvas if given, bitwise equal to
 * pixel_table_apply, data/transform/map.c and canvas.c on the host. Sums and products are rounded separately where
 * the compiler would fuse them. 5 bytes per element, 4 beside an image. */
#include "kernels/cuda/divide.cuh"
#include "kernels/cuda/vector.cuh"

namespace
{
/* pixels_args_t. height × width < 2^31, at most PIXEL_MAX_CHANNELS channels. */
typedef struct pixels_batch {
    const uint8_t *bytes;
    const affine_t *maps; /* NULL: no map */
    int64_t n, height, width, channels;
    pixel_norm_t norm;
    float *pixels;
} pixels_batch_t;

/* An image [height, width, channels] on its canvas; less than 2^31 values. */
typedef struct pixels_placed {
    const uint8_t *bytes;
    int64_t height, width, channels, canvas_height, canvas_width;
    pixel_norm_t norm;
    float *pixels;
} pixels_placed_t;

enum { N_VALUES = PIXEL_VALUES, TABLE = PIXEL_MAX_CHANNELS * N_VALUES };
static_assert(N_VALUES == BLOCK, "each thread of a block works out one value of every channel");

/* The normalized value of each byte, per channel. */
__device__ void fill_table(float *scaled, const pixel_norm_t &norm, int channels)
{
    for (int k = 0; k < channels; k++)
        scaled[k * N_VALUES + threadIdx.x] =
            static_cast<float>((threadIdx.x / 255.0 - norm.mean[k]) / norm.std[k]);
    __syncthreads();
}

struct scale_t {
    const uint8_t *bytes;
    float *pixels;
    const float *scaled;
    int channels;
    template <int N> __device__ void run(int64_t i) const
    {
        pack_t<uint8_t, N> from = load<N>(bytes + i);
        pack_t<float, N> to;
        int channel = channels == 1 ? 0 : static_cast<int>(i % channels);
        for (int k = 0; k < N; k++) {
            to.at[k] = scaled[channel * N_VALUES + from.at[k]];
            if (++channel == channels) channel = 0;
        }
        store(pixels + i, to);
    }
};

template <int N>
__global__ void scale_bytes(const uint8_t *bytes, float *pixels, int64_t n, pixel_norm_t norm, int channels)
{
    __shared__ float scaled[TABLE];
    fill_table(scaled, norm, channels);
    sweep<N>(scale_t{bytes, pixels, scaled, channels}, n);
}

/* Value i of a canvas. */
struct place_t {
    const uint8_t *bytes;
    float *pixels;
    const float *scaled;
    divider_t row; /* values of a row of the canvas */
    uint32_t channels, image_row, image_height;
    template <int N> __device__ void run(int64_t i) const
    {
        uint32_t at, y = divide(static_cast<uint32_t>(i), row, &at), channel = at % channels;
        pack_t<float, N> to;
        for (int k = 0; k < N; k++) {
            const bool inside = y < image_height && at < image_row;
            to.at[k] = inside ? scaled[channel * N_VALUES + bytes[y * image_row + at]] : 0;
            if (++channel == channels) channel = 0;
            if (++at == row.divisor) at = 0, y++;
        }
        store(pixels + i, to);
    }
};

template <int N>
__global__ void place_image(const uint8_t *bytes, float *pixels, int64_t n, pixel_norm_t norm, divider_t row,
                            uint32_t channels, uint32_t image_row, uint32_t image_height)
{
    __shared__ float scaled[TABLE];
    fill_table(scaled, norm, static_cast<int>(channels));
    sweep<N>(place_t{bytes, pixels, scaled, row, channels, image_row, image_height}, n);
}

/* warp_t of map.c: positions in fixed point with 32 fraction bits. */
enum { FRACTION_BITS = 32 };

struct warp_t {
    int64_t row0, row_i, row_j, col0, col_i, col_j;
};

__device__ int64_t to_fixed(double value)
{
    return llrint(value * 4294967296.0);
}

/* middle − a·row_mid − b·col_mid + shift */
__device__ int64_t warp_origin(double middle, double a, double row_mid, double b, double col_mid,
                               double shift)
{
    double left = __dsub_rn(__dsub_rn(middle, __dmul_rn(a, row_mid)), __dmul_rn(b, col_mid));
    return to_fixed(__dadd_rn(left, shift));
}

__device__ warp_t make_warp(const affine_t *map, int64_t height, int64_t width)
{
    const double *m = map->matrix;
    double row_mid = static_cast<double>(height - 1) / 2, col_mid = static_cast<double>(width - 1) / 2;
    warp_t t;
    t.row0 = warp_origin(row_mid, m[0], row_mid, m[1], col_mid, map->shift[0]);
    t.col0 = warp_origin(col_mid, m[2], row_mid, m[3], col_mid, map->shift[1]);
    t.row_i = to_fixed(m[0]), t.row_j = to_fixed(m[1]);
    t.col_i = to_fixed(m[2]), t.col_j = to_fixed(m[3]);
    return t;
}

__device__ int64_t clamp_position(int64_t position, int64_t end)
{
    return position < 0 ? 0 : position > end ? end : position;
}

__device__ float fraction_of(int64_t position)
{
    return static_cast<float>(static_cast<uint32_t>(position) >> 8) * 5.9604644775390625e-8f; /* 2^-24 */
}

__device__ float interpolate(float a, float b, float part)
{
    return __fadd_rn(a, __fmul_rn(part, __fsub_rn(b, a)));
}

/* Positions outside are clamped to the border; in the last row or column a pixel is its own neighbour. */
__device__ void sample_pixel(const pixels_batch_t &b, const float *scaled, const uint8_t *image, int64_t row,
                             int64_t col, float *out)
{
    row = clamp_position(row, (b.height - 1) << FRACTION_BITS);
    col = clamp_position(col, (b.width - 1) << FRACTION_BITS);
    const int64_t i = row >> FRACTION_BITS, j = col >> FRACTION_BITS;
    const int64_t right = j < b.width - 1 ? b.channels : 0,
                  below = i < b.height - 1 ? b.width * b.channels : 0;
    const uint8_t *p = image + (i * b.width + j) * b.channels;
    for (int64_t k = 0; k < b.channels; k++, p++, scaled += N_VALUES) {
        float upper = interpolate(scaled[p[0]], scaled[p[right]], fraction_of(col));
        float lower = interpolate(scaled[p[below]], scaled[p[below + right]], fraction_of(col));
        out[k] = interpolate(upper, lower, fraction_of(row));
    }
}

/* Blocks with the same y work on the same images. */
__global__ void warp_images(pixels_batch_t b)
{
    __shared__ float scaled[TABLE];
    __shared__ warp_t shared_warp;
    fill_table(scaled, b.norm, static_cast<int>(b.channels));
    const uint32_t n_pixels = static_cast<uint32_t>(b.height * b.width),
                   width = static_cast<uint32_t>(b.width);
    for (int64_t n = blockIdx.y; n < b.n; n += gridDim.y) {
        __syncthreads();
        if (threadIdx.x == 0) shared_warp = make_warp(&b.maps[n], b.height, b.width);
        __syncthreads();
        const warp_t t = shared_warp;
        const int64_t image = n * n_pixels * b.channels;
        for (uint32_t at = blockIdx.x * BLOCK + threadIdx.x; at < n_pixels; at += gridDim.x * BLOCK) {
            const int64_t i = at / width, j = at % width;
            sample_pixel(b, scaled, b.bytes + image, t.row0 + i * t.row_i + j * t.row_j,
                         t.col0 + i * t.col_i + j * t.col_j, b.pixels + image + at * b.channels);
        }
    }
}
} // namespace

static cudaError_t pixels_prepare(const pixels_batch_t *batch, cudaStream_t stream)
{
    const pixels_batch_t &b = *batch;
    const int64_t n_image = b.height * b.width, n = b.n * n_image * b.channels;
    traffic_count("pixels", n * 5);
    if (b.maps) {
        /* A pixel per thread while that does not fill the GPU; then several, to build fewer tables and
         * warps. */
        const int64_t max_rows = MAX_BLOCKS, each = b.n * n_image < 1 << 20 ? BLOCK : 4 * BLOCK;
        dim3 grid(static_cast<unsigned>((n_image + each - 1) / each),
                  static_cast<unsigned>(b.n < 1          ? 1
                                        : b.n < max_rows ? b.n
                                                         : max_rows));
        return launch(warp_images, grid, BLOCK, stream, b);
    }
    const int channels = static_cast<int>(b.channels);
    if (packs<4>(b.bytes) && packs<4>(b.pixels))
        return launch(scale_bytes<4>, grid_for(n / 4), BLOCK, stream, b.bytes, b.pixels, n, b.norm, channels);
    return launch(scale_bytes<1>, grid_for(n), BLOCK, stream, b.bytes, b.pixels, n, b.norm, channels);
}

static cudaError_t pixels_place(const pixels_placed_t *image, cudaStream_t stream)
{
    const pixels_placed_t &p = *image;
    const int64_t row = p.canvas_width * p.channels, n = p.canvas_height * row,
                  image_row = p.width * p.channels;
    traffic_count("pixels", n * 4 + p.height * image_row);
    if (packs<4>(p.pixels))
        return launch(place_image<4>, grid_for(n / 4), BLOCK, stream, p.bytes, p.pixels, n, p.norm,
                      divider_of(row), p.channels, image_row, p.height);
    return launch(place_image<1>, grid_for(n), BLOCK, stream, p.bytes, p.pixels, n, p.norm, divider_of(row),
                  p.channels, image_row, p.height);
}

/* An image per launch: they have different sizes, and a batch has few. */
static err_t place_all(const pixels_args_t *args)
{
    ASSERT(!args->maps);
    for (int64_t i = 0; i < args->n; i++) {
        const pixels_canvas_t *canvas = &args->canvases[i];
        const int64_t first = i * args->height * args->width * args->channels;
        ASSERT(canvas->height * canvas->width <= args->height * args->width &&
               canvas->height * canvas->width <= INT32_MAX / args->channels &&
               canvas->image_height <= canvas->height && canvas->image_width <= canvas->width);
        const pixels_placed_t image = {.bytes = args->bytes + first,
                                       .height = canvas->image_height,
                                       .width = canvas->image_width,
                                       .channels = args->channels,
                                       .canvas_height = canvas->height,
                                       .canvas_width = canvas->width,
                                       .norm = args->norm,
                                       .pixels = args->pixels + first};
        E_CUDA(pixels_place(&image, cuda_stream()), "preparing pixels");
    }
    return ERR_OK;
}

err_t cuda_pixels(const pixels_args_t *args)
{
    ASSERT(args->height > 0 && args->width > 0 && args->height * args->width <= INT32_MAX);
    ASSERT(args->channels > 0 && args->channels <= PIXEL_MAX_CHANNELS);
    if (args->canvases) return place_all(args);
    const pixels_batch_t batch = {.bytes = args->bytes,
                                  .maps = args->maps,
                                  .n = args->n,
                                  .height = args->height,
                                  .width = args->width,
                                  .channels = args->channels,
                                  .norm = args->norm,
                                  .pixels = args->pixels};
    E_CUDA(pixels_prepare(&batch, cuda_stream()), "preparing pixels");
    return ERR_OK;
}
