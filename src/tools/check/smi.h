/* SPDX-License-Identifier: MIT */
/* Health of a host's GPUs, from nvidia-smi. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_SMI_H
#define TOOLS_CHECK_SMI_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/check/check.h"

enum { SMI_MAX_GPUS = 64 };

/* Numbers that the GPU or the driver does not report are -1. */
typedef struct smi_gpu {
    int index;
    char uuid[48]; /* "GPU-1b2c…", only the first dash is kept, as in backend_device_t */
    char name[64], pci[24], driver[32];
    int persistence;                   /* 1 on, 0 off */
    double power_limit, power_default; /* watts */
    int64_t slowdown;                  /* NVML's clock event reasons, bits */
    int64_t ecc_volatile,
        ecc_aggregate; /* uncorrected errors: since the driver was loaded; over the lifetime */
    int64_t pages_pending, rows_pending; /* 1: a memory repair is pending until a reset */
    int64_t rows_failed;                 /* 1: a memory repair failed */
    double busy;                         /* percent of the last second with a kernel running */
    double memory_used, memory_total;    /* bytes */
} smi_gpu_t;

/* Bits of slowdown (nvml.h: nvmlClocksEventReason…). */
enum { SMI_HW_SLOWDOWN = 0x8, SMI_SW_THERMAL = 0x20, SMI_HW_THERMAL = 0x40, SMI_POWER_BRAKE = 0x80 };

/* Copies "GPU-1b2c3d4e-…", keeping only the first dash. */
void smi_plain_uuid(const char *text, char *out, size_t n_bytes);

/* Parses the output of the query (csv, noheader, nounits). ERR_DATA quotes an unexpected line. */
err_t smi_parse(const char *text, smi_gpu_t gpus[SMI_MAX_GPUS], int *n);

/* Runs nvidia-smi. ERR_DATA: not installed. ERR_PEER: no response in time. ERR_SYSTEM: quotes its error. */
err_t smi_query(double timeout_sec, smi_gpu_t gpus[SMI_MAX_GPUS], int *n);

/* Adds a line for each fault of each GPU, or one CHECK_OK line per part without faults. */
void smi_judge(check_t *check, const smi_gpu_t *gpus, int n);

#endif
