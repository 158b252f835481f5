/* SPDX-License-Identifier: MIT */
/* Linear layers and 1×1 convolutions of the CUDA backend beside one plain cublasLtMatmul of the same shape,
 * in turn; the times of ResNet-50's 3×3 convolutions, all three passes. Prints Markdown; the convolutions as
 * JSON lines into a file, too, for scripts/bench/peers/torch_conv.py: gpu_products [--quick] [FILE]. Exit code 4:
 * there is no GPU. */
#include <cublasLt.h>

#include "kernels/cuda/gemm.h"
#include "scripts/bench/gpu_turns.h"
#include "tools/bench/cases.h"

static const size_t lt_workspace = (size_t)64 << 20;

/* y[m, n] = x[m, k] · w[n, k]ᵀ, all row-major, by the first algorithm that cuBLASLt proposes. */
typedef struct plain {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t x, w, y;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    void *x_data, *w_data, *y_data, *workspace;
} plain_t;

static err_t run_plain(void *context)
{
    plain_t *p = context;
    const float one = 1, zero = 0;
    /* Column by column: yᵀ = w · xᵀ. */
    E_LT(lt.Matmul(lt_handle(), p->product, &one, p->w_data, p->w, p->x_data, p->x, &zero, p->y_data, p->y,
                   p->y_data, p->y, &p->found.algo, p->workspace, lt_workspace,
                   self.backend->device()->stream),
         "a plain product");
    return ERR_OK;
}

static err_t make_plain(int64_t m, int64_t n, int64_t k, const char *type, plain_t *p)
{
    const bool bf16 = strcmp(type, "bfloat16") == 0;
    const cudaDataType_t in = bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasOperation_t transpose = CUBLAS_OP_T;
    size_t most = lt_workspace;
    int n_found = 0;
    E_LT(lt.MatmulDescCreate(&p->product,
                             strcmp(type, "float32") == 0 || bf16 ? CUBLAS_COMPUTE_32F
                                                                  : CUBLAS_COMPUTE_32F_FAST_TF32,
                             CUDA_R_32F),
         "describing a product");
    E_LT(lt.MatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
         "transposing");
    E_LT(lt.MatrixLayoutCreate(&p->w, in, (uint64_t)k, (uint64_t)n, k), "describing a matrix");
    E_LT(lt.MatrixLayoutCreate(&p->x, in, (uint64_t)k, (uint64_t)m, k), "describing a matrix");
    E_LT(lt.MatrixLayoutCreate(&p->y, CUDA_R_32F, (uint64_t)n, (uint64_t)m, n), "describing a matrix");
    E_LT(lt.MatmulPreferenceCreate(&p->preference), "a preference");
    E_LT(lt.MatmulPreferenceSetAttribute(p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                         sizeof most),
         "a preference");
    E_LT(lt.MatmulAlgoGetHeuristic(lt_handle(), p->product, p->w, p->x, p->y, p->y, p->preference, 1,
                                   &p->found, &n_found),
         "asking for an algorithm");
    if (n_found == 0) RAISE(ERR_SYSTEM, "cuBLASLt has no algorithm for this product");
    TRY(make_block(m * k, false, &p->x_data));
    TRY(make_block(n * k, false, &p->w_data));
    TRY(make_block(m * n, false, &p->y_data));
    return make_block((int64_t)(lt_workspace / sizeof(float)), true, &p->workspace);
}

static void drop_plain(plain_t *p)
{
    if (p->preference) lt.MatmulPreferenceDestroy(p->preference);
    if (p->x) lt.MatrixLayoutDestroy(p->x);
    if (p->w) lt.MatrixLayoutDestroy(p->w);
    if (p->y) lt.MatrixLayoutDestroy(p->y);
    if (p->product) lt.MatmulDescDestroy(p->product);
}

/* The fastest of the operator's algorithms for a pass, as training would find it, except cuDNN's, which the peer
 * has; gives its name and time. */
static err_t fastest(op_desc_t desc, op_pass_t pass, op_algorithms_t *out, double *out_sec)
{
    const char *names[OP_MAX_ALGORITHMS] = {""};
    *out_sec = -1;
    TRY(op_infer(&desc));
    int n = op_list_algorithms(self.backend, &desc, pass, true, names, OP_MAX_ALGORITHMS);
    for (int i = 0; i < (n > 0 ? n : 1); i++) {
        op_algorithms_t wanted = {0};
        subject_t s;
        work_t work = {.run = run_subject, .context = &s};
        double sec[5];
        if (strncmp(names[i], "cudnn", strlen("cudnn")) == 0) continue;
        snprintf(wanted.name[pass], OP_ALGORITHM_MAX, "%s", names[i]);
        err_t err = make_subject(desc, &wanted, &s);
        s.backward = pass != OP_FORWARD;
        if (pass == OP_BACKWARD_DATA) s.args.dparam[0].data = s.args.dparam[1].data = NULL;
        if (pass == OP_BACKWARD_WEIGHTS) s.args.dx[0].data = NULL;
        if (err == ERR_OK) err = op_forward(s.op, &s.args);
        if (err == ERR_OK) err = prepare(&work);
        for (int k = 0; k < 5 && err == ERR_OK; k++) err = time_batch(&work, &sec[k]);
        drop_subject(&s);
        TRY(err);
        double median = stats_median(sec, 5);
        if (*out_sec < 0 || median < *out_sec) *out_sec = median, *out = wanted;
    }
    return ERR_OK;
}

/* A row: a linear layer or 1×1 convolution forward, at its fastest, beside the plain product. */
static err_t product_row(const char *name, op_desc_t desc, int64_t m, int64_t n, int64_t k)
{
    plain_t plain = {0};
    subject_t s = {0};
    op_algorithms_t wanted = {0};
    work_t ours = {.run = run_subject, .context = &s}, peer = {.run = run_plain, .context = &plain};
    turns_t t;
    double sec;
    const char *type = dtype_name(desc.compute);
    err_t err = fastest(desc, OP_FORWARD, &wanted, &sec);
    if (err == ERR_OK) err = make_subject(desc, &wanted, &s);
    if (err == ERR_OK) err = make_plain(m, n, k, type, &plain);
    if (err == ERR_OK) err = take_turns(&ours, &peer, &t);
    if (err == ERR_OK) {
        double flop = 2.0 * (double)m * (double)n * (double)k;
        printf("| %s | %s | %.1f | %.1f | %.1f | **%.2f** | %.2f to %.2f | %s |\n", name, type,
               1e6 * t.ours_sec, 1e-12 * flop / t.ours_sec, 1e-12 * flop / t.peer_sec, t.ratio[1], t.ratio[0],
               t.ratio[2], wanted.name[OP_FORWARD]);
        fflush(stdout);
    }
    drop_plain(&plain);
    drop_subject(&s);
    return err;
}

/* The ways in which this build multiplies. */
static int list_types(dtype_t out[DTYPE_COUNT])
{
    int n = 0;
    for (dtype_t d = 0; d < DTYPE_COUNT; d++) {
        const char *name = dtype_name(d);
        if (strcmp(name, "float32") == 0 || strcmp(name, "tfloat32") == 0 || strcmp(name, "bfloat16") == 0)
            out[n++] = d;
    }
    return n;
}

static op_desc_t conv_desc(const conv_layer_t *l, int64_t batch, dtype_t compute)
{
    return (op_desc_t){.kind = OP_CONV2D,
                       .compute = compute,
                       .n_inputs = 1,
                       .x = {shape_4d(batch, l->side, l->side, l->in)},
                       .attr.conv2d = {l->out, l->kernel, l->kernel, l->stride, l->stride, l->pad, l->pad, 1,
                                       1, 1, .has_bias = false}};
}

static void products(int64_t batch, const dtype_t *types, int n_types)
{
    static const int64_t sizes[][3] = {
        {4096, 4096, 4096}, {8192, 1024, 1024}, {64, 500, 800}, {1024, 500, 800}};
    printf("\n| product (m×n×k) | type | µs | TFLOP/s | cuBLASLt, TFLOP/s | ratio | middle half | by |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < n_types; i++) {
        const op_desc_t deconv = {.kind = OP_DECONV2D,
                                  .compute = types[i],
                                  .n_inputs = 1,
                                  .x = {shape_4d(128, 14, 14, 256)},
                                  .attr.deconv2d = {256, 2, false}};
        if (product_row("deconv2d, 128 masks", deconv, 128 * 14 * 14, 4 * 256, 256) != ERR_OK)
            row_failed("deconv2d");
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            const int64_t *s = sizes[j];
            char name[64];
            op_desc_t desc = {
                .kind = OP_LINEAR, .compute = types[i], .n_inputs = 1, .x = {shape_2d(s[0], s[2])}};
            desc.attr.linear = (linear_attr_t){.out_features = s[1]};
            snprintf(name, sizeof name, "linear %lldx%lldx%lld", (long long)s[0], (long long)s[1],
                     (long long)s[2]);
            if (product_row(name, desc, s[0], s[1], s[2]) != ERR_OK) row_failed(name);
        }
        for (int j = 0; j < n_conv_layers; j++) {
            const conv_layer_t *l = &conv_layers[j];
            char name[64];
            if (strcmp(l->net, "resnet50") != 0 || l->kernel != 1 || l->stride != 1 || (self.quick && j % 4))
                continue;
            snprintf(name, sizeof name, "1×1 %s", l->name);
            if (product_row(name, conv_desc(l, batch, types[i]), batch * l->side * l->side, l->out, l->in) !=
                ERR_OK)
                row_failed(name);
        }
    }
}

/* Times of the 3×3 layers alone: cuDNN is another program's (scripts/bench/peers/torch_conv.py), which reads these.
 */
static void convolutions(int64_t batch, const dtype_t *types, int n_types, FILE *json)
{
    printf("\n| 3×3 convolution | type | pass | µs | TFLOP/s | by |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < n_types * n_conv_layers * OP_PASS_COUNT; i++) {
        const conv_layer_t *l = &conv_layers[i / OP_PASS_COUNT % n_conv_layers];
        const op_pass_t pass = (op_pass_t)(i % OP_PASS_COUNT);
        const dtype_t type = types[i / OP_PASS_COUNT / n_conv_layers];
        op_algorithms_t by = {0};
        double sec;
        if (strcmp(l->net, "resnet50") != 0 || l->kernel != 3 || (self.quick && !l->quick)) continue;
        if (fastest(conv_desc(l, batch, type), pass, &by, &sec) != ERR_OK) {
            row_failed(l->name);
            continue;
        }
        printf("| %s | %s | %s | %.1f | %.1f | %s |\n", l->name, dtype_name(type), op_pass_names[pass],
               1e6 * sec, 2e-12 * (double)(batch * conv_layer_macs(l)) / sec, by.name[pass]);
        fflush(stdout);
        if (json)
            fprintf(
                json,
                "{\"layer\":\"%s\",\"type\":\"%s\",\"pass\":\"%s\",\"sec\":%.9g,\"batch\":%lld,\"side\":%d,"
                "\"in\":%d,\"out\":%d,\"stride\":%d,\"by\":\"%s\"}\n",
                l->name, dtype_name(type), op_pass_names[pass], sec, (long long)batch, l->side, l->in, l->out,
                l->stride, by.name[pass]);
    }
}

int main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    const char *path = argc > 1 + quick ? argv[1 + quick] : NULL;
    FILE *json = path ? fopen(path, "we") : NULL;
    dtype_t types[DTYPE_COUNT];
    if (argc > 2 + quick || (path && !json)) {
        fprintf(stderr, "usage: gpu_products [--quick] [FILE, which can be written]\n");
        return ERR_USAGE;
    }
    if (!open_gpu(quick)) return ERR_SYSTEM;
    int n_types = list_types(types);
    products(32, types, n_types);
    convolutions(32, types, n_types, json);
    close_gpu();
    return json && fclose(json) != 0 ? ERR_SYSTEM : 0;
}
