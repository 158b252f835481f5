/* SPDX-License-Identifier: MIT */
/* Tensor core instructions of compute capability 8.0 and later: asynchronous copies to shared memory
 * (cp.async), 8 × 8 matrices from there to registers (ldmatrix), and the product of 16 × 16 and 16 × 8
 * bfloat16 values (mma); see the PTX ISA. The emulator has its own (tests/emu/include/emu_mma.h). */
#ifndef KERNELS_CUDA_CONV_MMA_CUH
#define KERNELS_CUDA_CONV_MMA_CUH

#include <cuda_runtime.h>

#include <stdint.h>

#ifdef __CUDACC__
/* An address in shared memory. */
typedef uint32_t shared_t;

static __device__ inline shared_t shared_of(const void *in_shared)
{
    return static_cast<shared_t>(__cvta_generic_to_shared(in_shared));
}

/* Copies 16 bytes, both addresses multiples of 16, or writes zeros if they are not `inside`; from is then not
 * read. CACHED: in the L1 cache too. */
template <bool CACHED>
static __device__ inline void copy_async(shared_t to, const uint16_t *from, bool inside)
{
    int n = inside ? 16 : 0;
    if (CACHED)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");
}

/* Ends a group of copies of this thread. */
static __device__ inline void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all groups of this thread but the LATEST. */
template <int LATEST> static __device__ inline void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
}

/* Four 8 × 8 matrices; lane l gives the address of row l % 8 of matrix l / 8, and gets elements 2·(l % 4) and
 * the next of row l / 4 of each; TURNED: of its column l / 4. */
template <bool TURNED> static __device__ inline void load_matrices(uint32_t (&out)[4], shared_t row)
{
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(row)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(row)
                     : "memory");
}

/* sum += A · B. A's quarters: rows 0 and 8, then the same of columns from 8; B's halves: rows 0 and 8. Lane l
 * has row l / 4 of A's, column l / 4 of B's, and of sum rows l / 4 and 8 more, columns 2·(l % 4) and the
 * next. */
static __device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
#include <emu_mma.h>
#endif

#endif
