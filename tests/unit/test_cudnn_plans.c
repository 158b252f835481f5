/* SPDX-License-Identifier: MIT */
/* RUN np=0 : what the real cuDNN proposes for an H200 that is not there. It plans without a GPU if it is given the
 * description of one. Every pass of the convolutions of networks has an engine that may be used, and dx one that
 * adds. */
#include <stdio.h>
#include <string.h>

#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "tools/bench/cases.h"

#ifndef DPTRAIN_CUDNN
int main(void)
{
    tap_skip_all("this build has no cuDNN");
}
#else
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/dnn.h"

/* memoryBusWidth and the two after it: since 9.28. */
static const char h200[] =
    "{\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,\"smVersion\":900,\"maxGridSize\":[2147483647,65535,"
    "65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
    "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"memoryBusWidth\":6144,\"smCountOrigin\":0,\"oversizedSharedMemoryPerBlock\":0,"
    "\"l2CacheSize\":62914560,\"totalGlobalMem\":150754820096,\"deviceName\":\"NVIDIA H200\",\"memBusWidth\":6144}";

/* Of Mask R-CNN, 800 × 1088 pixels: the first layer, the pyramid, the proposals, the mask's head; then groups and
 * dilation. */
static const op_desc_t more[] = {
    CONV(2, 800, 1088, 3, 64, 7, 7, 2, 2, 3, 3, 1, 1, 1, false),
    CONV(2, 200, 272, 256, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(2, 100, 136, 512, 256, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(2, 13, 17, 256, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {true, 0, 0}),
    CONV(256, 14, 14, 256, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {true, 0, 0}),
    CONV(256, 28, 28, 256, 91, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(64, 56, 56, 128, 128, 3, 3, 1, 1, 1, 1, 1, 1, 32, false),
    CONV(32, 28, 28, 256, 256, 3, 3, 1, 1, 2, 2, 2, 2, 1, false),
};

static const dtype_t types[] = {DTYPE_BF16, DTYPE_TF32, DTYPE_F32};

/* Of all passes and types: each has an engine. */
static bool is_planned(op_desc_t desc, const char *name)
{
    bool all = true;
    for (int t = 0; t < 3; t++) {
        desc.compute = types[t];
        desc.x_dtype[0] = desc.y_dtype[0] = types[t] == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
        must(op_infer(&desc), name);
        for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
            const conv_problem_t problem = {&desc, &desc, (op_pass_t)pass, true, 0};
            const int n = cuda_conv_cudnn.count(&cuda_conv_cudnn, &problem);
            all = all && n > 0 && n <= DNN_PROPOSALS;
            if (n == 0) printf("# %s, %s, %s: none\n", name, dtype_name(types[t]), op_pass_names[pass]);
        }
    }
    return all;
}

/* The workspace of the plan of a proposal. */
static size_t plan(op_desc_t desc, op_pass_t pass, int variant)
{
    const conv_problem_t problem = {&desc, &desc, pass, true, variant};
    void *made = NULL;
    size_t n_bytes = 0;
    must(cuda_conv_cudnn.plan(&cuda_conv_cudnn, &problem, &made, &n_bytes), "a plan");
    cuda_conv_cudnn.unplan(&made);
    return n_bytes;
}

int main(void)
{
    enum { N_MORE = sizeof more / sizeof more[0] };
    const int64_t batch = 256;
    backend_options_t options = {.n_threads = 1};
    if (UNDER_SANITIZER) tap_skip_all("what cuDNN itself does would be reported");
    if (dnn_pretend(h200) != ERR_OK) tap_skip_all(err_message());
    tap_plan(n_conv_layers + N_MORE + 6);
    cuda_device_pretend(&options);
    for (int i = 0; i < n_conv_layers; i++) {
        const conv_layer_t *l = &conv_layers[i];
        const op_desc_t desc =
            CONV(strcmp(l->net, "vgg16") == 0 ? 64 : batch, l->side, l->side, l->in, l->out, l->kernel,
                 l->kernel, l->stride, l->stride, l->pad, l->pad, 1, 1, 1, l->bias);
        OK(is_planned(desc, l->name), "%s, %s", l->net, l->name);
    }
    for (int i = 0; i < N_MORE; i++)
        OK(is_planned(more[i], "another"), "%s to %d channels", shape_format(more[i].x[0]).text,
           (int)more[i].attr.conv2d.out_channels);
    op_desc_t desc = CONV(batch, 56, 56, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, false);
    desc.compute = desc.x_dtype[0] = desc.y_dtype[0] = DTYPE_BF16;
    must(op_infer(&desc), "op_infer");
    const conv_problem_t weights = {&desc, &desc, OP_BACKWARD_WEIGHTS, true, 0};
    OK(cuda_conv_cudnn.count(&cuda_conv_cudnn, &weights) == DNN_PROPOSALS,
       "a usual convolution has %d proposals", DNN_PROPOSALS);
    OK(plan(desc, OP_BACKWARD_WEIGHTS, 0) >= (size_t)shape_count(desc.param[0]) * 2,
       "the gradient of its weight has room as bfloat16");
    OK(plan(desc, OP_BACKWARD_DATA, DNN_PROPOSALS - 1) <= (size_t)cuda_workspace_bytes(),
       "the last is planned");
    op_desc_t mixed = desc;
    mixed.y_dtype[0] = DTYPE_F32;
    const conv_problem_t wide = {&mixed, &mixed, OP_FORWARD, true, 0};
    OK(cuda_conv_cudnn.count(&cuda_conv_cudnn, &wide) == 0, "bfloat16 products have no float32 result");
    options.workspace_bytes = 4 << 20;
    cuda_device_pretend(&options);
    op_desc_t first = CONV(batch, 224, 224, 3, 64, 7, 7, 2, 2, 3, 3, 1, 1, 1, false);
    must(op_infer(&first), "op_infer");
    const conv_problem_t small = {&first, &first, OP_BACKWARD_WEIGHTS, true, 0};
    const int n = cuda_conv_cudnn.count(&cuda_conv_cudnn, &small);
    OK(n == 0 || plan(first, OP_BACKWARD_WEIGHTS, n - 1) <= (size_t)options.workspace_bytes,
       "%d proposals within 4 MiB of scratch", n);
    dnn_pretend(NULL);
    cuda_device_pretend(NULL);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
#endif
