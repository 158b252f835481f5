/* SPDX-License-Identifier: MIT */
/* Parts of the shape rules of several operators. Kernels rely on these checks and do not repeat them. */
#include "compute/ops/infer.h"

err_t infer_need_image(const char *name, shape_t x)
{
    if (x.n_dims != 4)
        RAISE(ERR_USAGE, "%s: expected images [n, height, width, channels], got %s", name,
              shape_format(x).text);
    return ERR_OK;
}

err_t infer_need_logits(const char *name, shape_t x)
{
    if (x.n_dims != 2)
        RAISE(ERR_USAGE, "%s: expected logits [n, classes], got %s", name, shape_format(x).text);
    return ERR_OK;
}

err_t infer_same(op_desc_t *desc)
{
    desc->y[0] = desc->x[0];
    return ERR_OK;
}

int64_t infer_window_count(int64_t in, int64_t kernel, int stride, int pad)
{
    int64_t room = in + 2 * (int64_t)pad - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

/* Windows whose tap at `offset` pixels from their first is inside. */
static int64_t windows_inside(const infer_windows_t *w, int64_t offset)
{
    const int64_t at = offset - w->pad; /* of window 0 */
    const int64_t first = at < 0 ? (-at + w->stride - 1) / w->stride : 0;
    int64_t end = w->in > at ? (w->in - 1 - at) / w->stride + 1 : 0;
    if (end > w->out) end = w->out;
    return end > first ? end - first : 0;
}

int64_t infer_taps_inside(const infer_windows_t *w)
{
    int64_t n = 0;
    for (int tap = 0; tap < w->kernel; tap++) n += windows_inside(w, (int64_t)tap * w->dilation);
    return n;
}

int64_t infer_pixels_read(const infer_windows_t *w)
{
    int64_t most = 0;
    if (w->dilation == 1 && w->stride > w->kernel) return infer_taps_inside(w);
    if (w->dilation == 1) {
        const int64_t end = (w->out - 1) * w->stride - w->pad + w->kernel;
        return end < w->in ? end : w->in;
    }
    for (int tap = 0; tap < w->kernel; tap++) {
        const int64_t n = windows_inside(w, (int64_t)tap * w->dilation);
        if (n > most) most = n;
    }
    return most;
}

bool infer_absorb_relu(epilogue_t *epilogue, const op_desc_t *next)
{
    if (next->kind != OP_RELU || epilogue->relu) return false;
    epilogue->relu = true;
    return true;
}
