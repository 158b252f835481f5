/* SPDX-License-Identifier: MIT */
/* The emulated cuDNN: a convolution of known result, and what it refuses. */
#include <vector>

#include <cudnn.h>

#include "cuda_runtime.h"

#include "check.h"

using D = cudnnBackendDescriptor_t;

static cudnnHandle_t handle;
static std::vector<D> made;

static D make(cudnnBackendDescriptorType_t type)
{
    D d = nullptr;
    cudnnBackendCreateDescriptor(type, &d);
    made.push_back(d);
    return d;
}

template <typename T> static cudnnStatus_t set(D d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::vector<T> values)
{
    return cudnnBackendSetAttribute(d, name, type, static_cast<int64_t>(values.size()), values.data());
}

static D tensor(int64_t id, std::vector<int64_t> dims, cudnnDataType_t type, bool finalize = true)
{
    D d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t c = dims[1], h = dims[2], w = dims[3];
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector<cudnnDataType_t>{type});
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::vector<int64_t>{c * h * w, 1, w * c, c});
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector<int64_t>{id});
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector<int64_t>{16});
    if (finalize) cudnnBackendFinalize(d);
    return d;
}

/* The gradient of a weight of two filters, of 1 × 1 × 3 × 3 pixels. */
static D operation(cudnnDataType_t x_type, cudnnDataType_t w_type, int64_t width, cudnnStatus_t *status)
{
    D conv = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR), d = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    set(conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::vector<int64_t>{2});
    set(conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector<cudnnDataType_t>{CUDNN_DATA_FLOAT});
    set(conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector<cudnnConvolutionMode_t>{CUDNN_CROSS_CORRELATION});
    for (auto name : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
        set(conv, name, CUDNN_TYPE_INT64, std::vector<int64_t>{0, 0});
    for (auto name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES})
        set(conv, name, CUDNN_TYPE_INT64, std::vector<int64_t>{1, 1});
    cudnnBackendFinalize(conv);
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{tensor('x', {1, 1, 3, 3}, x_type)});
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{tensor('w', {2, 1, 2, 2}, w_type)});
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{tensor('y', {1, 2, 2, width}, x_type)});
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{conv});
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, std::vector<float>{1.0f});
    set(d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, std::vector<float>{0.0f});
    *status = cudnnBackendFinalize(d);
    return d;
}

/* The configurations that the fallback proposes. */
static std::vector<D> propose(D op)
{
    D graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t most = 0, n = 0;
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{op});
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector<cudnnHandle_t>{handle});
    cudnnBackendFinalize(graph);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{graph});
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector<cudnnBackendHeurMode_t>{CUDNN_HEUR_MODE_FALLBACK});
    cudnnBackendFinalize(heuristic);
    cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &most, nullptr);
    std::vector<D> all(static_cast<size_t>(most));
    for (D &d : all) d = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &n, all.data());
    OK(n < most, "the number of results is known once they are read");
    all.resize(static_cast<size_t>(n));
    return all;
}

static cudnnStatus_t execute(D plan, void *x, void *w, void *y, void *workspace)
{
    D pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::vector<int64_t>{'x', 'w', 'y'});
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::vector<void *>{x, w, y});
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector<void *>{workspace});
    cudnnBackendFinalize(pack);
    return cudnnBackendExecute(handle, plan, pack);
}

int main()
{
    cudnnStatus_t status;
    std::printf("1..12\n");
    OK(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS && cudnnGetVersion() == CUDNN_VERSION, "a handle, and the headers' version");
    D op = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR), raw = tensor('x', {1, 1, 3, 3}, CUDNN_DATA_FLOAT, false);
    OK(set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{raw}) == CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
       "a tensor that is not finalized is refused");
    operation(CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, 3, &status);
    OK(status == CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a shape that does not follow from the convolution is refused");
    op = operation(CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, 2, &status);
    OK(propose(op).empty(), "a float32 gradient of bfloat16 tensors has no engine");
    op = operation(CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, 2, &status);
    std::vector<D> configs = propose(op);
    OK(configs.size() == 5, "three that must not be taken, one of tensor cores, one exact");
    D plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector<cudnnHandle_t>{handle});
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<D>{configs.back()});
    OK(cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS, "the last makes a plan");
    const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, dy = {1, 10, 0, 0, 0, 0, 1, -1}; /* two channels each */
    std::vector<float> dw(8);
    float *device, *workspace;
    cudaMalloc(reinterpret_cast<void **>(&device), 64 * sizeof(float));
    cudaMalloc(reinterpret_cast<void **>(&workspace), 1 << 16);
    cudaMemcpy(device, x.data(), 9 * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(device + 16, dy.data(), 8 * sizeof(float), cudaMemcpyHostToDevice);
    OK(execute(plan, device + 1, device + 32, device + 16, workspace) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "alignment is checked");
    OK(execute(plan, device, device + 32, device + 16, nullptr) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "so is the workspace");
    OK(execute(plan, device, device + 32, device + 16, workspace) == CUDNN_STATUS_SUCCESS, "it runs");
    cudaDeviceSynchronize();
    cudaMemcpy(dw.data(), device + 32, 8 * sizeof(float), cudaMemcpyDeviceToHost);
    OK(dw == std::vector<float>({1 + 5, 2 + 6, 4 + 8, 5 + 9, 10 - 5, 20 - 6, 40 - 8, 50 - 9}), "with the sums over all pixels");
    cudaFree(device), cudaFree(workspace);
    for (D d : made) cudnnBackendDestroyDescriptor(d);
    cudnnDestroy(handle);
    return check_done(12);
}
