/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: one rank's dnnl_sgemm takes longer, or returns a wrong element once in ten calls.
 *
 *   SGEMM="RANK slow"     twice as long
 *   SGEMM="RANK slow 10"  10 % longer
 *   SGEMM="RANK cpu"      twice as long, only on CPU 1
 *   SGEMM="RANK wrong" */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int64_t dim_t;
typedef int sgemm_t(char, char, dim_t, dim_t, dim_t, float, const float *, dim_t, const float *, dim_t, float,
                    float *, dim_t);

static int64_t now_nsec(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

sgemm_t dnnl_sgemm;

int dnnl_sgemm(char ta, char tb, dim_t m, dim_t n, dim_t k, float alpha, const float *a, dim_t lda,
               const float *b, dim_t ldb, float beta, float *c, dim_t ldc)
{
    static sgemm_t *real;
    static char fault[16];
    static int n_calls, percent = 100;
    if (!real) {
        const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *orders = getenv("SGEMM");
        char whose[16] = "";
        *(void **)&real = dlsym(RTLD_NEXT, "dnnl_sgemm");
        if (!rank || !orders || sscanf(orders, "%15s %15s %d", whose, fault, &percent) < 2 ||
            strcmp(rank, whose) != 0)
            fault[0] = '\0';
    }
    const int64_t start = now_nsec();
    const int status = real(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    const int64_t end = now_nsec();
    const bool slow = strcmp(fault, "slow") == 0 || (strcmp(fault, "cpu") == 0 && sched_getcpu() == 1);
    while (slow && now_nsec() < end + (end - start) * percent / 100) continue;
    if (strcmp(fault, "wrong") == 0 && ++n_calls % 10 == 0) c[(m / 2) * ldc + n / 3] += 1;
    return status;
}
