/* SPDX-License-Identifier: MIT */
/* Arithmetic of the emulated NCCL, one type at a time. */
#include "cuda_runtime.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#include "nccl_shm.h"

namespace emu
{
namespace
{

float widen(__half x) { return __half2float(x); }
float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> T widen(T x) { return x; }
template <typename T, typename W> struct narrow_t {
    static T from(W x) { return static_cast<T>(x); }
};
template <> struct narrow_t<__half, float> {
    static __half from(float x) { return __float2half(x); }
};
template <> struct narrow_t<__nv_bfloat16, float> {
    static __nv_bfloat16 from(float x) { return __float2bfloat16(x); }
};

template <typename T> void reduce_as(void *to, const void *from, size_t n, ncclRedOp_t op)
{
    T *acc = static_cast<T *>(to);
    const T *x = static_cast<const T *>(from);
    for (size_t i = 0; i < n; i++) {
        auto a = widen(acc[i]), b = widen(x[i]);
        using W = decltype(a);
        W result = a;
        switch (op) {
        case ncclProd: result = static_cast<W>(a * b); break;
        case ncclMax: result = a > b ? a : b; break;
        case ncclMin: result = a < b ? a : b; break;
        default: result = static_cast<W>(a + b); break;
        }
        acc[i] = narrow_t<T, W>::from(result);
    }
}

template <typename T> void divide_as(void *to, size_t n, int by)
{
    T *acc = static_cast<T *>(to);
    for (size_t i = 0; i < n; i++) {
        auto a = widen(acc[i]);
        using W = decltype(a);
        acc[i] = narrow_t<T, W>::from(static_cast<W>(a / static_cast<W>(by)));
    }
}

template <typename T> void scale_as(void *to, size_t n, double by)
{
    T *x = static_cast<T *>(to);
    for (size_t i = 0; i < n; i++) {
        auto a = widen(x[i]);
        using W = decltype(a);
        x[i] = narrow_t<T, W>::from(static_cast<W>(static_cast<double>(a) * by));
    }
}

} // namespace

#define EMU_EACH_TYPE(DO)                                                                                         \
    switch (type) {                                                                                               \
    case ncclInt8: DO(int8_t); break;                                                                             \
    case ncclUint8: DO(uint8_t); break;                                                                           \
    case ncclInt32: DO(int32_t); break;                                                                           \
    case ncclUint32: DO(uint32_t); break;                                                                         \
    case ncclInt64: DO(int64_t); break;                                                                           \
    case ncclUint64: DO(uint64_t); break;                                                                         \
    case ncclFloat16: DO(__half); break;                                                                          \
    case ncclFloat32: DO(float); break;                                                                           \
    case ncclFloat64: DO(double); break;                                                                          \
    case ncclBfloat16: DO(__nv_bfloat16); break;                                                                  \
    default: break;                                                                                               \
    }

size_t type_size(ncclDataType_t type)
{
    size_t size = 0;
#define EMU_SIZE(T) size = sizeof(T)
    EMU_EACH_TYPE(EMU_SIZE)
    return size;
}

void reduce(void *acc, const void *x, size_t n, ncclDataType_t type, ncclRedOp_t op)
{
#define EMU_REDUCE(T) reduce_as<T>(acc, x, n, op)
    EMU_EACH_TYPE(EMU_REDUCE)
}

void divide(void *acc, size_t n, ncclDataType_t type, int by)
{
#define EMU_DIVIDE(T) divide_as<T>(acc, n, by)
    EMU_EACH_TYPE(EMU_DIVIDE)
}

void scale(void *x, size_t n, ncclDataType_t type, double by)
{
#define EMU_SCALE(T) scale_as<T>(x, n, by)
    EMU_EACH_TYPE(EMU_SCALE)
}

} // namespace emu
