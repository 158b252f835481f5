/* SPDX-License-Identifier: MIT */
/* The bytes that kernels have to move. On a backend that counts (backend_t.counted) a launch reports them
 * instead of running. */
#ifndef KERNELS_CUDA_TRAFFIC_H
#define KERNELS_CUDA_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern bool traffic_counts; /* launches are reported, not run */

/* Before each launch: its name, and the bytes of every array that it reads or writes, once each. What a cache
 * could save is not subtracted. Does nothing unless kernels are counted. */
void traffic_count(const char *kernel, int64_t n_bytes);
/* The launch itself; without traffic_count before it, it is reported as "unknown", with 0 bytes. */
void traffic_launch(void);
/* Both, for what is not launched by launch.cuh. */
void traffic_report(const char *kernel, int64_t n_bytes);

#ifdef __cplusplus
}
#endif

#endif
