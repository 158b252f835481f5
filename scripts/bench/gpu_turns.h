/* SPDX-License-Identifier: MIT */
/* Two ways of the same work on the GPU in turn, timed by its own clock; for the benchmarks of this folder. */
#ifndef SCRIPTS_BENCH_GPU_TURNS_H
#define SCRIPTS_BENCH_GPU_TURNS_H

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/stats.h"
#include "compute/ops/hd_buffer.h"
#include "compute/tensor/float16.h"

enum { MAX_ROUNDS = 25, N_PATTERN = 1 << 22, MAX_BLOCKS = 16 };
static const double min_batch_sec = 2e-3;

typedef struct work {
    err_t (*run)(void *context);
    void *context;
    int64_t per_batch;
} work_t;

typedef struct turns {
    double ours_sec, peer_sec; /* medians */
    double ratio[3];           /* peer_sec / ours_sec within a round: quartiles */
} turns_t;

static struct bench_self {
    const backend_t *backend;
    int n_rounds;
    bool quick;
    void *pattern_block;
    float *pattern;
    void *block[MAX_BLOCKS]; /* of the case at hand */
    int n_blocks;
} self;

/* Device memory with numbers in it: zeros would make products faster than they are. */
static inline err_t make_block(int64_t n_floats, bool zero, void *out)
{
    void *block = NULL;
    ASSERT(self.n_blocks < MAX_BLOCKS);
    TRY(backend_alloc(self.backend, (size_t)n_floats * sizeof(float), "a benchmark's buffer", &block));
    self.block[self.n_blocks++] = block;
    for (int64_t i = 0; i < n_floats && !zero; i += N_PATTERN) {
        int64_t n = n_floats - i < N_PATTERN ? n_floats - i : N_PATTERN;
        TRY(self.backend->memory->upload((float *)block + i, self.pattern, (size_t)n * sizeof(float)));
    }
    memcpy(out, &block, sizeof block);
    return ERR_OK;
}

static inline void drop_blocks(void)
{
    while (self.n_blocks > 0) backend_release(self.backend, &self.block[--self.n_blocks]);
}

static inline err_t time_batch(work_t *w, double *out_sec)
{
    double sec = 0;
    TRY(self.backend->mark(0));
    for (int64_t i = 0; i < w->per_batch; i++) TRY(w->run(w->context));
    TRY(self.backend->mark(1));
    TRY(backend_sync(self.backend));
    TRY(self.backend->seconds(0, 1, &sec));
    *out_sec = sec / (double)w->per_batch;
    return ERR_OK;
}

/* Warms up, and finds how many calls make a batch long enough for the clock. */
static inline err_t prepare(work_t *w)
{
    double sec = 0;
    w->per_batch = 1;
    TRY(time_batch(w, &sec));
    do {
        TRY(time_batch(w, &sec));
        if (sec * (double)w->per_batch >= min_batch_sec || w->per_batch >= 4096) break;
        w->per_batch *= 2;
    } while (true);
    return ERR_OK;
}

static inline err_t take_turns(work_t *ours, work_t *peer, turns_t *out)
{
    double a[MAX_ROUNDS], b[MAX_ROUNDS], ratio[MAX_ROUNDS];
    TRY(prepare(ours));
    TRY(prepare(peer));
    for (int i = 0; i < self.n_rounds; i++) {
        /* A B, B A: a drift of the clocks meets both alike. */
        if (i % 2) TRY(time_batch(peer, &b[i]));
        TRY(time_batch(ours, &a[i]));
        if (i % 2 == 0) TRY(time_batch(peer, &b[i]));
        ratio[i] = b[i] / a[i];
    }
    stats_sort(ratio, self.n_rounds);
    for (int i = 0; i < 3; i++) out->ratio[i] = stats_quantile(ratio, self.n_rounds, 0.25 * (i + 1));
    out->ours_sec = stats_median(a, self.n_rounds);
    out->peer_sec = stats_median(b, self.n_rounds);
    return ERR_OK;
}

/* An operator with buffers of its own. */
typedef struct subject {
    op_t *op;
    op_args_t args;
    bool backward;
} subject_t;

static inline err_t run_subject(void *context)
{
    subject_t *s = context;
    return s->backward ? op_backward(s->op, &s->args) : op_forward(s->op, &s->args);
}

/* Labels are 0. */
static inline err_t make_blocks(tensor_t *tensors, int n, bool zero)
{
    for (int i = 0; i < n; i++)
        TRY(make_block(shape_count(tensors[i].shape), zero || tensors[i].dtype == DTYPE_I32,
                       &tensors[i].data));
    return ERR_OK;
}

static inline err_t make_subject(op_desc_t desc, const op_algorithms_t *wanted, subject_t *s)
{
    op_args_t *a = &s->args;
    *s = (subject_t){0};
    TRY(op_infer(&desc));
    TRY(op_plan(self.backend, &desc, true, wanted, &s->op));
    *a = op_args(s->op);
    TRY(make_blocks(a->x, desc.n_inputs, false));
    TRY(make_blocks(a->dx, desc.n_inputs, false));
    TRY(make_blocks(a->param, desc.n_params, false));
    TRY(make_blocks(a->dparam, desc.n_params, false));
    TRY(make_blocks(a->state, desc.n_states, true));
    TRY(make_blocks(a->y, desc.n_outputs, false));
    TRY(make_blocks(a->dy, 1, false));
    TRY(make_block((int64_t)(s->op->n_saved_bytes / sizeof(float)) + 1, true, &a->saved));
    TRY(make_block((int64_t)(s->op->n_workspace_bytes / sizeof(float)) + 1, true, &a->workspace));
    a->training = true, a->dropout.key = rng_key(1, RNG_DROPOUT), a->dropout.step = 1;
    return ERR_OK;
}

static inline void drop_subject(subject_t *s)
{
    op_free(&s->op);
    drop_blocks();
}

/* An error of one case is its row's, unless the GPU itself is gone. */
static inline void row_failed(const char *name)
{
    printf("| %s | not measured: %s |\n", name, err_message());
}

/* The GPU opened, and numbers to fill buffers with; false, with a message, where there is none. */
static inline bool open_gpu(bool quick)
{
    char why[BACKEND_WHY_MAX];
    rng_t rng = rng_new(1, RNG_TEST, 0);
    self.quick = quick, self.n_rounds = quick ? 5 : MAX_ROUNDS;
    if (backend_find("cuda", &self.backend, why) != ERR_OK || backend_open(self.backend, 1) != ERR_OK ||
        self.backend->memory->alloc_host(N_PATTERN * sizeof(float), "numbers", &self.pattern_block) !=
            ERR_OK) {
        fprintf(stderr, "%s\n", err_message());
        return false;
    }
    self.pattern = self.pattern_block;
    for (int64_t i = 0; i < N_PATTERN; i++) {
        uint32_t half = bf16_from_float((float)(2 * rng_uniform(&rng) - 1)), bits = half << 16 | half;
        memcpy(&self.pattern[i], &bits, sizeof bits); /* two numbers in bfloat16 */
    }
    return true;
}

static inline void close_gpu(void)
{
    self.backend->memory->release_host(self.pattern_block);
    self.backend->close();
}

#endif
