#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* Our own loops rather than oneDNN's primitive: its sums depend on the number of threads. Here the rows (all
 * dimensions but the channels) are cut into blocks of a fixed size; each block's sums are in float, and the
 * blocks are added in order, in double.
 *
 * Saved: mean [c], 1/std [c]. Workspace: the blocks' sums [blocks][2][c], then coefficients [3][c]. */
enum { ROW_BLOCK = 128 };

typedef struct norm {
    int64_t n_rows, n_c, n_blocks;
    float *partial;
    float *coefficient[3];
} norm_t;

static norm_t norm_of(const op_t *op, void *workspace)
{
    norm_t n = {.n_c = op->desc.param[0].dim[0], .partial = workspace};
    n.n_rows = shape_count(op->desc.y) / n.n_c;
    n.n_blocks = (n.n_rows + ROW_BLOCK - 1) / ROW_BLOCK;
    for (int i = 0; i < 3 && workspace; i++) n.coefficient[i] = n.partial + (2 * n.n_blocks + i) * n.n_c;
    return n;
}

static err_t plan(op_t *op)
{
    norm_t n = norm_of(op, NULL);
    op->n_saved_bytes = op->training ? 2 * (size_t)n.n_c * sizeof(float) : 0;
    op->n_workspace_bytes = (size_t)((2 * n.n_blocks + 3) * n.n_c) * sizeof(float);
    return ERR_OK;
}

LOOP_CLONES static void sum_rows(float *restrict sum, const float *restrict x, int64_t n_rows, int64_t n_c)
{
    for (int64_t c = 0; c < n_c; c++) sum[c] = 0;
    for (int64_t row = 0; row < n_rows; row++, x += n_c)
        for (int64_t c = 0; c < n_c; c++) sum[c] += x[c];
}

LOOP_CLONES static void sum_square_rows(float *restrict sum, const float *restrict x,
                                        const float *restrict mean, int64_t n_rows, int64_t n_c)
{
    for (int64_t c = 0; c < n_c; c++) sum[c] = 0;
    for (int64_t row = 0; row < n_rows; row++, x += n_c)
        for (int64_t c = 0; c < n_c; c++) sum[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
}

/* sum[0..c) = Σ dy, sum[c..2c) = Σ dy·(x − mean). */
LOOP_CLONES static void sum_gradient_rows(float *restrict sum, const float *restrict x,
                                          const float *restrict dy, const float *restrict mean,
                                          int64_t n_rows, int64_t n_c)
{
    float *restrict product = sum + n_c;
    for (int64_t c = 0; c < n_c; c++) sum[c] = product[c] = 0;
    for (int64_t row = 0; row < n_rows; row++, x += n_c, dy += n_c)
        for (int64_t c = 0; c < n_c; c++) {
            sum[c] += dy[c];
            product[c] += dy[c] * (x[c] - mean[c]);
        }
}

/* Sum `which` (0 or 1) of channel c over all blocks. */
static double total(const norm_t *n, int which, int64_t c)
{
    double sum = 0;
    for (int64_t block = 0; block < n->n_blocks; block++) sum += n->partial[(2 * block + which) * n->n_c + c];
    return sum;
}

LOOP_CLONES static void normalise_rows(float *restrict y, const float *restrict x, const norm_t *n,
                                       const float *restrict beta, int64_t n_rows)
{
    const float *restrict mean = n->coefficient[0], *restrict scale = n->coefficient[1];
    int64_t n_c = n->n_c;
    for (int64_t row = 0; row < n_rows; row++, x += n_c, y += n_c)
        for (int64_t c = 0; c < n_c; c++) y[c] = (x[c] - mean[c]) * scale[c] + beta[c];
}

static void update_running(float *running, double batch, double momentum)
{
    *running = (float)(*running + momentum * (batch - *running));
}

/* Mean and 1/std of the batch into mean, inverse_std [c]; the running values follow. */
static void batch_moments(const op_t *op, const op_args_t *args, norm_t *n, float *mean, float *inverse_std)
{
    const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
    const float *x = args->x[0];
    float *running_mean = args->state[0], *running_variance = args->state[1];
    int64_t n_c = n->n_c, n_rows = n->n_rows;
#pragma omp parallel for schedule(static) if (n_rows * n_c > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_rows; i += ROW_BLOCK)
        sum_rows(n->partial + i / ROW_BLOCK * 2 * n_c, x + i * n_c, loop_count(i, n_rows, ROW_BLOCK), n_c);
    for (int64_t c = 0; c < n_c; c++) {
        double batch = total(n, 0, c) / (double)n_rows;
        mean[c] = (float)batch;
        update_running(&running_mean[c], batch, a->momentum);
    }
#pragma omp parallel for schedule(static) if (n_rows * n_c > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_rows; i += ROW_BLOCK)
        sum_square_rows(n->partial + i / ROW_BLOCK * 2 * n_c, x + i * n_c, mean,
                        loop_count(i, n_rows, ROW_BLOCK), n_c);
    for (int64_t c = 0; c < n_c; c++) {
        double squares = total(n, 0, c), unbiased = squares / (double)(n_rows > 1 ? n_rows - 1 : 1);
        inverse_std[c] = (float)(1 / sqrt(squares / (double)n_rows + a->epsilon));
        update_running(&running_variance[c], unbiased, a->momentum);
    }
}

static err_t forward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op, args->workspace);
    const float *x = args->x[0], *gamma = args->param[0], *beta = args->param[1];
    float *y = args->y, *mean = n.coefficient[0], *scale = n.coefficient[1], *inverse_std = n.coefficient[2];
    const float *running_mean = args->state[0], *running_variance = args->state[1];
    if (args->training) {
        batch_moments(op, args, &n, mean, inverse_std);
    } else {
        double epsilon = op->desc.attr.batch_norm.epsilon;
        for (int64_t c = 0; c < n.n_c; c++) {
            mean[c] = running_mean[c];
            inverse_std[c] = (float)(1 / sqrt(running_variance[c] + epsilon));
        }
    }
    float *saved = op->n_saved_bytes ? args->saved : NULL;
    for (int64_t c = 0; c < n.n_c; c++) {
        scale[c] = gamma[c] * inverse_std[c];
        if (saved) saved[c] = mean[c], saved[n.n_c + c] = inverse_std[c];
    }
#pragma omp parallel for schedule(static) if (n.n_rows * n.n_c > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n.n_rows; i += ROW_BLOCK)
        normalise_rows(y + i * n.n_c, x + i * n.n_c, &n, beta, loop_count(i, n.n_rows, ROW_BLOCK));
    return ERR_OK;
}

/* dx = scale · (dy − shift − (x − mean) · slope), per channel. */
LOOP_CLONES static void backward_rows(float *restrict dx, const float *restrict x, const float *restrict dy,
                                      const float *restrict mean, const norm_t *n, int64_t n_rows)
{
    const float *restrict scale = n->coefficient[0], *restrict shift = n->coefficient[1],
                          *restrict slope = n->coefficient[2];
    int64_t n_c = n->n_c;
    for (int64_t row = 0; row < n_rows; row++, x += n_c, dy += n_c, dx += n_c)
        for (int64_t c = 0; c < n_c; c++) dx[c] = scale[c] * (dy[c] - shift[c] - (x[c] - mean[c]) * slope[c]);
}

/* With x̂ = (x−mean)/std: dβ = Σ dy, dγ = Σ dy·x̂, dx = γ/std · (dy − dβ/m − x̂·dγ/m); Ioffe & Szegedy 2015,
 * section 3. */
static err_t backward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op, args->workspace);
    const float *x = args->x[0], *dy = args->dy, *gamma = args->param[0], *mean = args->saved;
    float *dx = args->dx[0], *dgamma = args->dparam[0], *dbeta = args->dparam[1];
    int64_t n_c = n.n_c, n_rows = n.n_rows;
#pragma omp parallel for schedule(static) if (n_rows * n_c > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_rows; i += ROW_BLOCK)
        sum_gradient_rows(n.partial + i / ROW_BLOCK * 2 * n_c, x + i * n_c, dy + i * n_c, mean,
                          loop_count(i, n_rows, ROW_BLOCK), n_c);
    for (int64_t c = 0; c < n_c; c++) {
        double inverse_std = mean[n_c + c], sum = total(&n, 0, c), product = total(&n, 1, c) * inverse_std;
        dbeta[c] = (float)sum;
        dgamma[c] = (float)product;
        n.coefficient[0][c] = (float)(gamma[c] * inverse_std);
        n.coefficient[1][c] = (float)(sum / (double)n_rows);
        n.coefficient[2][c] = (float)(inverse_std * product / (double)n_rows);
    }
    if (!dx) return ERR_OK;
#pragma omp parallel for schedule(static) if (n_rows * n_c > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_rows; i += ROW_BLOCK)
        backward_rows(dx + i * n_c, x + i * n_c, dy + i * n_c, mean, &n, loop_count(i, n_rows, ROW_BLOCK));
    return ERR_OK;
}

const op_kernel_t cpu_batch_norm = {.plan = plan, .forward = forward, .backward = backward};
