/* SPDX-License-Identifier: MIT */
/* What nvidia-smi tells of a host's GPUs. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_SMI_H
#define TOOLS_CHECK_SMI_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/check/check.h"

enum { SMI_MAX_GPUS = 64 };

/* Numbers that a GPU or a driver does not tell are -1. */
typedef struct smi_gpu {
    int index;
    char uuid[48]; /* "GPU-1b2c…", without its dashes but the first: as backend_device_t has it */
    char name[64], pci[24], driver[32];
    int persistence;                     /* 1 on, 0 off */
    double power_limit, power_default;   /* watts */
    int64_t slowdown;                    /* NVML's clock event reasons, bits */
    int64_t ecc_volatile, ecc_aggregate; /* uncorrected errors: since the driver was loaded, ever */
    int64_t pages_pending, rows_pending,
        rows_failed; /* 1: a repair of memory waits for a reset, has failed */
} smi_gpu_t;

/* Bits of slowdown (nvml.h: nvmlClocksEventReason…). */
enum { SMI_HW_SLOWDOWN = 0x8, SMI_SW_THERMAL = 0x20, SMI_HW_THERMAL = 0x40, SMI_POWER_BRAKE = 0x80 };

/* The query's answer (csv, noheader, nounits). ERR_DATA with the line where it is something else. */
err_t smi_parse(const char *text, smi_gpu_t gpus[SMI_MAX_GPUS], int *n);

/* Asks. ERR_DATA: not installed. ERR_PEER: no answer in time. ERR_SYSTEM: its own error, in its words. */
err_t smi_query(double timeout_sec, smi_gpu_t gpus[SMI_MAX_GPUS], int *n);

/* Says what is wrong with a host's GPUs: a line each, or one that all is well. */
void smi_judge(check_t *check, const smi_gpu_t *gpus, int n);

#endif
