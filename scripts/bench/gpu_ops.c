/* SPDX-License-Identifier: MIT */
/* Bytes a second of the CUDA backend's operators and optimizers that move memory, beside a copy on the device
 * that moves as many, in turn, on the same GPU. Counted is what a kernel has to read and write once (batch
 * norm: its input twice). Prints Markdown: gpu_ops [--quick]. Exit code 4: there is no GPU. */
#include <math.h>

#include "scripts/bench/gpu_turns.h"

typedef struct copy {
    void *to, *from;
    size_t n_bytes;
} copy_t;

static err_t run_copy(void *context)
{
    copy_t *c = context;
    return backend_copy(self.backend, c->to, c->from, c->n_bytes);
}

/* A row: bytes that have to be moved, a second, beside a copy that moves as many. */
static err_t bandwidth_row(const char *name, work_t *ours, double n_bytes)
{
    copy_t copy = {.n_bytes = (size_t)(n_bytes / 2)};
    work_t peer = {.run = run_copy, .context = &copy};
    turns_t t;
    TRY(make_block((int64_t)(copy.n_bytes / sizeof(float)), false, &copy.from));
    TRY(make_block((int64_t)(copy.n_bytes / sizeof(float)), false, &copy.to));
    copy.n_bytes &= ~(size_t)3;
    TRY(take_turns(ours, &peer, &t));
    printf("| %s | %.1f | %.0f | %.0f | **%.2f** | %.2f to %.2f |\n", name, 1e6 * t.ours_sec,
           1e-9 * n_bytes / t.ours_sec, 1e-9 * n_bytes / t.peer_sec, t.ratio[1], t.ratio[0], t.ratio[2]);
    fflush(stdout);
    return ERR_OK;
}

/* Boxes of image 0, for RoIAlign: squares whose areas are even in their logarithm, from 16² to half the canvas. */
static err_t put_regions(const subject_t *s, int64_t height, int64_t width)
{
    const tensor_t *to = &s->args.x[ROI_ALIGN_LEVELS];
    hd_buffer_t regions = {0};
    rng_t rng = rng_new(1, RNG_TEST, 1);
    TRY(hd_buffer_new(self.backend, (size_t)shape_count(to->shape) * sizeof(float), "regions", &regions));
    float *r = regions.host;
    for (int64_t i = 0; i < to->shape.dim[0]; i++, r += ROI_ALIGN_VALUES) {
        const float side = 16 * powf((float)height / 32, (float)rng_uniform(&rng));
        r[1] = (float)rng_uniform(&rng) * ((float)width - side);
        r[2] = (float)rng_uniform(&rng) * ((float)height - side);
        r[3] = r[1] + side, r[4] = r[2] + side;
    }
    err_t err = self.backend->memory->upload(to->data, regions.host, regions.n_bytes);
    if (err == ERR_OK) err = backend_sync(self.backend);
    hd_buffer_free(&regions);
    return err;
}

static void operator_row(const char *name, op_desc_t desc, bool backward, double n_bytes)
{
    subject_t s;
    work_t ours = {.run = run_subject, .context = &s};
    err_t err = make_subject(desc, NULL, &s);
    if (err == ERR_OK && desc.kind == OP_ROI_ALIGN)
        err = put_regions(&s, 4 * desc.x[0].dim[1], 4 * desc.x[0].dim[2]);
    if (err == ERR_OK) err = op_forward(s.op, &s.args); /* what backward reads */
    s.backward = backward;
    if (err == ERR_OK) err = bandwidth_row(name, &ours, n_bytes);
    if (err != ERR_OK) row_failed(name);
    drop_subject(&s);
}

/* Batch norm with what it absorbs, and pooling, with tensors of this type. */
static void stored_as(dtype_t dtype, shape_t x)
{
    const double n = (double)shape_count(x), e = (double)dtype_size(dtype), mask = e / 16;
    const op_desc_t norm = {.kind = OP_BATCH_NORM,
                            .n_inputs = 1,
                            .x = {x, x},
                            .x_dtype = {dtype, dtype},
                            .y_dtype = {dtype},
                            .attr.batch_norm = {.momentum = 0.1, .epsilon = 1e-5}};
    const op_desc_t max = {.kind = OP_POOL2D,
                           .n_inputs = 1,
                           .x = {x},
                           .x_dtype = {dtype},
                           .y_dtype = {dtype},
                           .attr.pool2d = {POOL_MAX, 2, 2, 2, 2, 0, 0}};
    op_desc_t relu = norm, both = norm;
    relu.attr.batch_norm.epilogue.relu = both.attr.batch_norm.epilogue.relu = true;
    both.n_inputs = 2;
    printf("| in %s | | | | | |\n", dtype_name(dtype));
    operator_row("batch norm forward", norm, false, 3 * e * n);
    operator_row("batch norm backward", norm, true, 5 * e * n);
    operator_row("batch norm, ReLU forward", relu, false, 3 * e * n);
    operator_row("batch norm, ReLU backward", relu, true, 5 * e * n);
    operator_row("batch norm, add, ReLU forward", both, false, (4 * e + mask) * n);
    operator_row("batch norm, add, ReLU backward", both, true, (6 * e + 2 * mask) * n);
    operator_row("max pool 2×2 forward", max, false, (1.25 * e + 0.25) * n);
    operator_row("max pool 2×2 backward", max, true, (1.25 * e + 0.25) * n);
}

/* Losses of a selected half of all anchors (labels below 0: none): in sectors of 32 bytes, all logits are read,
 * and three quarters of the boxes. */
static void selected_losses(void)
{
    const shape_t anchors = shape_2d(16, 1 << 20), boxes = shape_2d(16, 1 << 22);
    const double n = (double)shape_count(anchors);
    op_desc_t bce = {.kind = OP_SIGMOID_BCE_AT, .n_inputs = 3, .x = {anchors, anchors, anchors}};
    op_desc_t l1 = {.kind = OP_SMOOTH_L1,
                    .n_inputs = 4,
                    .x = {boxes, anchors, anchors, boxes},
                    .attr.smooth_l1 = {1.0 / 9, 0}};
    operator_row("cross-entropy of anchors forward", bce, false, 12 * n);
    operator_row("cross-entropy of anchors backward", bce, true, 16 * n);
    operator_row("smooth L1 of anchors forward", l1, false, 32 * n);
    operator_row("smooth L1 of anchors backward", l1, true, 48 * n);
}

/* Regions of an image of 800 × 1088, 128 of them with masks. Forward reads about as many cells as it writes;
 * backward reads the regions and writes the features' gradients. deconv2d is also a product. */
static void detection(void)
{
    enum { CHANNELS = 256, BOXES = 512, MASKS = 128 };
    const shape_t levels[] = {shape_4d(1, 200, 272, CHANNELS), shape_4d(1, 100, 136, CHANNELS),
                              shape_4d(1, 50, 68, CHANNELS), shape_4d(1, 25, 34, CHANNELS)};
    op_desc_t box = {.kind = OP_ROI_ALIGN, .n_inputs = 5, .attr.roi_align = {7, 7, 2}};
    op_desc_t deconv = {.kind = OP_DECONV2D,
                        .n_inputs = 1,
                        .x = {shape_4d(MASKS, 14, 14, CHANNELS)},
                        .attr.deconv2d = {CHANNELS, 2, true}};
    const double n_boxes = BOXES * 7.0 * 7 * CHANNELS, n_masks = MASKS * 14.0 * 14 * CHANNELS,
                 weights = 4.0 * CHANNELS * CHANNELS;
    double n_cells = 0;
    for (int i = 0; i < ROI_ALIGN_LEVELS; i++) {
        box.x[i] = levels[i];
        n_cells += (double)shape_count(levels[i]);
    }
    box.x[ROI_ALIGN_LEVELS] = shape_2d(BOXES, ROI_ALIGN_VALUES);
    op_desc_t mask = box;
    mask.x[ROI_ALIGN_LEVELS] = shape_2d(MASKS, ROI_ALIGN_VALUES);
    mask.attr.roi_align = (roi_align_attr_t){.height = 14, .width = 14, .samples = 2};
    operator_row("RoIAlign 7×7 of 512 boxes forward", box, false, 8 * n_boxes);
    operator_row("RoIAlign 7×7 of 512 boxes backward", box, true, 4 * (n_boxes + n_cells));
    operator_row("RoIAlign 14×14 of 128 masks forward", mask, false, 8 * n_masks);
    operator_row("RoIAlign 14×14 of 128 masks backward", mask, true, 4 * (n_masks + n_cells));
    operator_row("deconv2d of 128 masks forward", deconv, false, 4 * (5 * n_masks + weights));
    operator_row("deconv2d of 128 masks backward", deconv, true, 4 * (6 * n_masks + 2 * weights));
}

static void operators(void)
{
    const shape_t x = shape_4d(64, 56, 56, 256), logits = shape_2d(65536, 1000);
    const double n = (double)shape_count(x), l = (double)shape_count(logits);
    op_desc_t relu = {.kind = OP_RELU, .n_inputs = 1, .x = {x}};
    op_desc_t add = {.kind = OP_ADD, .n_inputs = 2, .x = {x, x}};
    op_desc_t drop = {.kind = OP_DROPOUT, .n_inputs = 1, .x = {x}, .attr.dropout = {0.5}};
    op_desc_t mean = {
        .kind = OP_POOL2D, .n_inputs = 1, .x = {x}, .attr.pool2d = {POOL_AVG, 2, 2, 2, 2, 0, 0}};
    op_desc_t xent = {.kind = OP_SOFTMAX_XENT, .n_inputs = 2, .x = {logits, shape_1d(logits.dim[0])}};
    op_desc_t bce = {.kind = OP_SIGMOID_BCE, .n_inputs = 2, .x = {logits, logits}};
    op_desc_t up = {.kind = OP_UPSAMPLE_ADD, .n_inputs = 2, .x = {x, shape_4d(64, 28, 28, 256)}};
    printf("\n| operator | µs | GB/s | a copy, GB/s | ratio | middle half |\n|---|---|---|---|---|---|\n");
    operator_row("relu forward", relu, false, 8 * n);
    operator_row("relu backward", relu, true, 12 * n);
    operator_row("add forward", add, false, 12 * n);
    operator_row("add backward", add, true, 12 * n);
    operator_row("dropout forward", drop, false, 8 * n);
    operator_row("dropout backward", drop, true, 8 * n);
    operator_row("mean pool 2×2 forward", mean, false, 5 * n);
    operator_row("mean pool 2×2 backward", mean, true, 5 * n);
    operator_row("upsample and add forward", up, false, 9 * n);
    operator_row("upsample and add backward", up, true, 9 * n);
    operator_row("softmax cross-entropy forward", xent, false, 4 * l);
    operator_row("softmax cross-entropy backward", xent, true, 8 * l);
    operator_row("sigmoid binary cross-entropy forward", bce, false, 8 * l);
    operator_row("sigmoid binary cross-entropy backward", bce, true, 12 * l);
    selected_losses();
    detection();
    stored_as(DTYPE_F32, x);
    stored_as(DTYPE_BF16, x);
}

enum { N_RANGES = 128 };

typedef struct flat {
    optim_args_t args;
    optim_kind_t kind;
    float *a, *b;
    int64_t n;
    hd_buffer_t ranges; /* every other one has weight decay */
} flat_t;

static err_t run_optim(void *context)
{
    flat_t *f = context;
    return self.backend->optim[f->kind](&f->args);
}

static err_t run_ranges(void *context)
{
    flat_t *f = context;
    optim_args_t args = f->args;
    args.spans = f->ranges.device;
    args.n_spans = N_RANGES;
    args.weight_decay = 1e-4;
    return self.backend->optim[f->kind](&args);
}

static err_t run_accumulate(void *context)
{
    flat_t *f = context;
    return self.backend->accumulate(f->a, f->b, f->n, DTYPE_F32);
}

static err_t run_narrow(void *context)
{
    flat_t *f = context;
    return self.backend->narrow(f->a, (uint16_t *)(void *)f->b, f->n, self.backend->device()->stream);
}

static err_t run_widen(void *context)
{
    flat_t *f = context;
    return self.backend->widen((const uint16_t *)(const void *)f->b, f->a, f->n,
                               self.backend->device()->stream);
}

static err_t make_flat(flat_t *f)
{
    optim_args_t *a = &f->args;
    TRY(make_block(f->n, false, &f->a));
    TRY(make_block(f->n, false, &f->b));
    TRY(make_block(f->n, true, &a->state[0]));
    TRY(make_block(f->n, true, &a->state[1]));
    a->weight = f->a, a->gradient = f->b, a->n = f->n;
    TRY(hd_buffer_new(self.backend, N_RANGES * sizeof(optim_span_t), "ranges", &f->ranges));
    for (int64_t i = 0, n = f->n / N_RANGES; i < N_RANGES; i++)
        ((optim_span_t *)f->ranges.host)[i] = (optim_span_t){.first = i * n, .n = n, .is_weight = i % 2 == 0};
    return hd_buffer_push_all(&f->ranges);
}

static void flat_row(const char *name, err_t (*run)(void *context), optim_kind_t kind, double bytes_each)
{
    flat_t f = {.kind = kind, .n = (int64_t)1 << 26};
    f.args = (optim_args_t){.lr = 1e-3,
                            .gradient_scale = 1,
                            .momentum = 0.9,
                            .rho = 0.9,
                            .beta = {0.9, 0.999},
                            .correction = {0.1, 0.001},
                            .epsilon = 1e-6,
                            .trust_ratio = 0.01};
    work_t ours = {.run = run, .context = &f};
    err_t err = make_flat(&f);
    if (err == ERR_OK) err = bandwidth_row(name, &ours, bytes_each * (double)f.n);
    if (err != ERR_OK) row_failed(name);
    hd_buffer_free(&f.ranges);
    drop_blocks();
}

static void flat_buffers(void)
{
    flat_row("SGD with momentum", run_optim, OPTIM_SGD, 20);
    flat_row("SGD with momentum, weight decay", run_ranges, OPTIM_SGD, 20);
    flat_row("LARS", run_optim, OPTIM_LARS, 20);
    flat_row("Adadelta", run_optim, OPTIM_ADADELTA, 28);
    flat_row("AdamW", run_optim, OPTIM_ADAMW, 28);
    flat_row("accumulate", run_accumulate, OPTIM_SGD, 12);
    flat_row("to bf16", run_narrow, OPTIM_SGD, 6);
    flat_row("from bf16", run_widen, OPTIM_SGD, 6);
}

int main(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--quick") != 0)) {
        fprintf(stderr, "usage: gpu_ops [--quick]\n");
        return ERR_USAGE;
    }
    if (!open_gpu(argc == 2)) return ERR_SYSTEM;
    operators();
    flat_buffers();
    close_gpu();
    return 0;
}
