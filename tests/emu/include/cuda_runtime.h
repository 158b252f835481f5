/* SPDX-License-Identifier: MIT */
/* CUDA C++ for g++: the language features that kernels need, over the toolkit's real types. Shadows the toolkit's
 * cuda_runtime.h for files under kernels/cuda and tests/emu only. runtime_fiber.cc runs the threads of a block. */
#ifndef TESTS_EMU_CUDA_RUNTIME_H
#define TESTS_EMU_CUDA_RUNTIME_H

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __forceinline__
#undef __launch_bounds__
#undef __maxnreg__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__      static /* blocks run one after another */
#define __constant__    static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

/* CUDA has these in the global namespace; <cmath> hides C's macros. */
using std::isfinite;
using std::isinf;
using std::isnan;

/* Of the running thread. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

enum emu_warp_op { EMU_SYNC, EMU_IDX, EMU_UP, EMU_DOWN, EMU_XOR, EMU_BALLOT };
enum emu_block_op { EMU_BARRIER, EMU_COUNT };
/* Synchronizes the threads of a block; returns how many passed a nonzero predicate. */
int emu_block_meet(emu_block_op op, int predicate, const char *file, int line);
/* Synchronizes the threads of a warp in `mask`; returns the value for this one. */
uint64_t emu_warp_meet(emu_warp_op op, unsigned mask, uint64_t value, int argument, int width);
unsigned emu_active_mask();
[[noreturn]] void emu_trap(const char *what);
cudaError_t emu_launch(const cudaLaunchConfig_t *config, const void *function, std::function<void()> thread);

/* Copies the arguments, as the real call does: the kernel gets their values at the launch. */
template <typename... P, typename... A>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                      A &&...arguments)
{
    static_assert(sizeof...(P) == sizeof...(A), "a kernel takes all of its arguments");
    static_assert((std::is_trivially_copyable<P>::value && ...), "a kernel's arguments are copied as bytes");
    std::tuple<P...> copy{static_cast<P>(std::forward<A>(arguments))...};
    return emu_launch(config, reinterpret_cast<const void *>(kernel),
                      [kernel, copy] { std::apply(kernel, copy); });
}

template <typename T> inline cudaError_t cudaMalloc(T **p, size_t n)
{
    return ::cudaMalloc(reinterpret_cast<void **>(p), n);
}
template <typename T> inline cudaError_t cudaMallocHost(T **p, size_t n, unsigned = 0)
{
    return ::cudaMallocHost(reinterpret_cast<void **>(p), n);
}

/* The caller's line identifies the barrier. */
inline void __syncthreads(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    emu_block_meet(EMU_BARRIER, 0, file, line);
}
inline int __syncthreads_count(int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return emu_block_meet(EMU_COUNT, p, file, line);
}
inline int __syncthreads_or(int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return emu_block_meet(EMU_COUNT, p, file, line) != 0;
}
inline int __syncthreads_and(int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return emu_block_meet(EMU_COUNT, !p, file, line) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    emu_warp_meet(EMU_SYNC, mask, 0, 0, 32);
}

template <typename T> inline T emu_shuffle(emu_warp_op op, unsigned mask, T value, int argument, int width)
{
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = emu_warp_meet(op, mask, bits, argument, width);
    std::memcpy(static_cast<void *>(&value), &bits, sizeof value);
    return value;
}
template <typename T> inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32)
{
    return emu_shuffle(EMU_IDX, mask, value, lane, width);
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    return emu_shuffle(EMU_UP, mask, value, static_cast<int>(delta), width);
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    return emu_shuffle(EMU_DOWN, mask, value, static_cast<int>(delta), width);
}
template <typename T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32)
{
    return emu_shuffle(EMU_XOR, mask, value, lanes, width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return static_cast<unsigned>(emu_warp_meet(EMU_BALLOT, mask, predicate != 0, 0, 32));
}
inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
}
inline unsigned __activemask()
{
    return emu_active_mask();
}
inline void __threadfence()
{
}
inline void __threadfence_block()
{
}
inline void __trap()
{
    emu_trap("__trap()");
}

#include "emu_device.h"

#endif
