/* SPDX-License-Identifier: MIT */
/* The emulated cublasLt against a naive loop: transposes, orders, types, epilogues. */
#include <cmath>
#include <vector>

#include <cublasLt.h>

#include "cuda_runtime.h"

#include "check.h"

static const int M = 5, N = 7, K = 11;

struct case_t {
    bool trans_a, trans_b, row_a, row_b, row_d;
    uint32_t epilogue;
};

static cublasLtMatrixLayout_t layout(int rows, int cols, bool row_order, int *ld)
{
    cublasLtMatrixLayout_t l;
    int32_t order = row_order ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL, batches = 2;
    *ld = (row_order ? cols : rows) + 1;
    int64_t stride = static_cast<int64_t>(*ld) * (row_order ? rows : cols);
    cublasLtMatrixLayoutCreate(&l, CUDA_R_32F, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), *ld);
    cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
    cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    return l;
}

struct matrix_t {
    std::vector<float> host;
    float *device;
    int rows, cols, ld;
    bool row_order;
    cublasLtMatrixLayout_t layout;

    matrix_t(int r, int c, bool order, int seed) : rows(r), cols(c), row_order(order)
    {
        layout = ::layout(r, c, order, &ld);
        host.resize(static_cast<size_t>(2 * ld * (order ? r : c)));
        for (size_t i = 0; i < host.size(); i++) host[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 9 - 4);
        cudaMalloc(&device, host.size() * sizeof(float));
        cudaMemcpy(device, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    ~matrix_t()
    {
        cudaFree(device);
        cublasLtMatrixLayoutDestroy(layout);
    }
    float &at(int b, int i, int j)
    {
        int stride = ld * (row_order ? rows : cols);
        return host[static_cast<size_t>(b * stride + (row_order ? i * ld + j : j * ld + i))];
    }
};

static void expected(const case_t &t, matrix_t &a, matrix_t &b, matrix_t &d, std::vector<float> &bias)
{
    auto op_a = [&](int n, int i, int k) { return t.trans_a ? a.at(n, k, i) : a.at(n, i, k); };
    auto op_b = [&](int n, int k, int j) { return t.trans_b ? b.at(n, j, k) : b.at(n, k, j); };
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float sum = 0.0f;
                for (int k = 0; k < K; k++) sum += op_a(n, i, k) * op_b(n, k, j);
                sum = 2.0f * sum + 3.0f * d.at(n, i, j);
                if (t.epilogue & CUBLASLT_EPILOGUE_BIAS) sum += bias[static_cast<size_t>(i)];
                d.at(n, i, j) = (t.epilogue & CUBLASLT_EPILOGUE_RELU) && sum < 0.0f ? 0.0f : sum;
            }
    for (int i = 0; i < N; i++) {
        bool of_a = t.epilogue == CUBLASLT_EPILOGUE_BGRADA && i < M;
        if (!of_a && t.epilogue != CUBLASLT_EPILOGUE_BGRADB) continue;
        bias[static_cast<size_t>(i)] = 0.0f; /* of the last batch: both write to the same address */
        for (int k = 0; k < K; k++) bias[static_cast<size_t>(i)] += of_a ? op_a(1, i, k) : op_b(1, k, i);
    }
}

static bool run_case(cublasLtHandle_t handle, const case_t &t)
{
    matrix_t a(t.trans_a ? K : M, t.trans_a ? M : K, t.row_a, 1), b(t.trans_b ? N : K, t.trans_b ? K : N, t.row_b, 2), d(M, N, t.row_d, 3);
    std::vector<float> bias(N, 5.0f), got_bias(N), got(d.host.size());
    float *device_bias, *workspace, alpha = 2.0f, beta = 3.0f;
    cudaMalloc(&device_bias, N * sizeof(float));
    cudaMalloc(&workspace, 65536);
    cudaMemcpy(device_bias, bias.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t results[4];
    int32_t op_a = t.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = t.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t room = 65536;
    int found = 0;
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &t.epilogue, sizeof t.epilogue);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &device_bias, sizeof device_bias);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    bool good = !cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout, d.layout, d.layout, preference, 4, results, &found);
    good = good && found == 2 && results[0].workspaceSize == 0 && results[1].workspaceSize <= room;
    good = good && !cublasLtMatmul(handle, desc, &alpha, a.device, a.layout, b.device, b.layout, &beta, d.device, d.layout,
                                   d.device, d.layout, &results[1].algo, workspace, room, nullptr);
    cudaMemcpy(got.data(), d.device, got.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(got_bias.data(), device_bias, N * sizeof(float), cudaMemcpyDeviceToHost);
    expected(t, a, b, d, bias);
    good = good && got == d.host && got_bias == bias; /* small integers, so results are exact; padding between rows must keep its value */
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    cudaFree(device_bias);
    cudaFree(workspace);
    return good;
}

/* The product of two 1 × 1 matrices. */
static float one_by_one(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType in, cudaDataType out, const void *x,
                        cublasStatus_t *status)
{
    char *device;
    float result[2] = {0, 0}, one = 1.0f, zero = 0.0f;
    uint16_t bits = 0;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t l_in, l_out;
    cudaMalloc(&device, 1024);
    cudaMemcpy(device, x, 4, cudaMemcpyHostToDevice);
    cudaMemcpy(device + 256, x, 4, cudaMemcpyHostToDevice);
    cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&l_in, in, 1, 1, 1);
    cublasLtMatrixLayoutCreate(&l_out, out, 1, 1, 1);
    *status = cublasLtMatmul(handle, desc, &one, device, l_in, device + 256, l_in, &zero, device + 512, l_out, device + 512, l_out,
                             nullptr, nullptr, 0, nullptr);
    cudaMemcpy(result, device + 512, 4, cudaMemcpyDeviceToHost);
    if (out == CUDA_R_16BF) {
        std::memcpy(&bits, result, 2);
        uint32_t wide = uint32_t{bits} << 16;
        std::memcpy(result, &wide, 4);
    }
    cublasLtMatrixLayoutDestroy(l_in);
    cublasLtMatrixLayoutDestroy(l_out);
    cublasLtMatmulDescDestroy(desc);
    cudaFree(device);
    return result[0];
}

static void test_types(cublasLtHandle_t handle)
{
    float x = 1.0f + 1.0f / 4096; /* rounded away in TF32, kept in fp32 */
    uint16_t one_and_half[2] = {0x3fc0, 0};
    cublasStatus_t status;
    OK(one_by_one(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, &x, &status) > 1.0f, "fp32");
    OK(one_by_one(handle, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, &x, &status) == 1.0f, "TF32 rounds its inputs");
    OK(one_by_one(handle, CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_32F, one_and_half, &status) == 2.25f, "bfloat16 to float");
    OK(one_by_one(handle, CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, one_and_half, &status) == 2.25f, "bfloat16 to bfloat16");
    one_by_one(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, &x, &status);
    OK(status == CUBLAS_STATUS_NOT_SUPPORTED, "float to bfloat16 is not supported");
}

int main()
{
    const uint32_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,   CUBLASLT_EPILOGUE_BIAS,
                                  CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB};
    const char *names[] = {"default", "relu", "bias", "relu + bias", "bias gradient of A", "bias gradient of B"};
    cublasLtHandle_t handle;
    setenv("DPTRAIN_EMU_LT_ALGORITHMS", "2", 1);
    std::printf("1..11\n");
    cublasLtCreate(&handle);
    for (int e = 0; e < 6; e++) {
        bool good = true;
        for (int bits = 0; bits < 32; bits++)
            good = good && run_case(handle, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0, epilogues[e]});
        OK(good, std::string("products of every order and transpose, epilogue ") + names[e]);
    }
    test_types(handle);
    cublasLtDestroy(handle);
    return check_done(11);
}
