/* SPDX-License-Identifier: MIT */
/* GPU health: what nvidia-smi says of memory, clocks, power and persistence. The check itself is in gpu.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/host.h"

/* ---- nvidia-smi: memory errors, clocks, power and persistence of each GPU ---- */
/* Fields in the order of parse_gpu. Newer drivers say clocks_event_reasons, but accept the old name, too. */
static const char query[] =
    "--query-gpu=index,uuid,name,pci.bus_id,driver_version,persistence_mode,power.limit,"
    "power.default_limit,clocks_throttle_reasons.active,"
    "ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total,"
    "retired_pages.pending,remapped_rows.pending,remapped_rows.failure,"
    "utilization.gpu,memory.used,memory.total";
enum { N_FIELDS = 17, FIELD_TEXT = 64 };
typedef char field_t[FIELD_TEXT];

/* Splits a line at commas; returns the number of fields. */
static int split_fields(const char *line, size_t n_bytes, field_t fields[N_FIELDS])
{
    int n = 0;
    for (const char *at = line, *end = line + n_bytes; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        const char *next = stop + 1;
        while (at < stop && *at == ' ') at++;
        while (stop > at && (stop[-1] == ' ' || stop[-1] == '\r')) stop--;
        if (n < N_FIELDS) snprintf(fields[n], FIELD_TEXT, "%.*s", (int)(stop - at), at);
        n++;
        at = next;
    }
    return n;
}

/* "700.00"; -1 for "[N/A]" and similar. */
static double parse_number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return end == text || *end || !isfinite(value) ? -1 : value;
}

/* 1 for "Yes", "Enabled", "1"; 0 for "No", "Disabled", "0"; otherwise -1. */
static int parse_bool(const char *text)
{
    if (strcmp(text, "Yes") == 0 || strcmp(text, "Enabled") == 0 || strcmp(text, "1") == 0) return 1;
    if (strcmp(text, "No") == 0 || strcmp(text, "Disabled") == 0 || strcmp(text, "0") == 0) return 0;
    return -1;
}

static int64_t parse_bits(const char *text)
{
    char *end;
    if (strncmp(text, "0x", 2) != 0) return -1;
    unsigned long long value = strtoull(text, &end, 16);
    return *end ? -1 : (int64_t)(value & INT64_MAX);
}

void smi_plain_uuid(const char *text, char *out, size_t n_bytes)
{
    size_t used = 0;
    for (int n_dashes = 0; *text && used < n_bytes - 1; text++)
        if (*text != '-' || n_dashes++ == 0) out[used++] = *text;
    out[used] = '\0';
}

static bool parse_gpu(const char *line, size_t n_bytes, smi_gpu_t *gpu)
{
    field_t f[N_FIELDS];
    if (split_fields(line, n_bytes, f) != N_FIELDS || parse_number(f[0]) < 0) return false;
    *gpu = (smi_gpu_t){.index = (int)parse_number(f[0]),
                       .persistence = parse_bool(f[5]),
                       .power_limit = parse_number(f[6]),
                       .power_default = parse_number(f[7]),
                       .slowdown = parse_bits(f[8]),
                       .ecc_volatile = (int64_t)parse_number(f[9]),
                       .ecc_aggregate = (int64_t)parse_number(f[10]),
                       .pages_pending = parse_bool(f[11]),
                       .rows_pending = parse_bool(f[12]),
                       .rows_failed = parse_bool(f[13]),
                       .busy = parse_number(f[14]),
                       .memory_used = 1024 * 1024 * parse_number(f[15]),
                       .memory_total = 1024 * 1024 * parse_number(f[16])};
    smi_plain_uuid(f[1], gpu->uuid, sizeof gpu->uuid);
    snprintf(gpu->name, sizeof gpu->name, "%s", f[2]);
    snprintf(gpu->pci, sizeof gpu->pci, "%.23s", f[3]);
    snprintf(gpu->driver, sizeof gpu->driver, "%.31s", f[4]);
    return true;
}

err_t smi_parse(const char *text, smi_gpu_t gpus[SMI_MAX_GPUS], int *n)
{
    *n = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length > 0) {
            if (*n == SMI_MAX_GPUS) RAISE(ERR_DATA, "nvidia-smi lists more than %d GPUs", SMI_MAX_GPUS);
            if (!parse_gpu(text, length, &gpus[*n]))
                RAISE(ERR_DATA, "unexpected output of nvidia-smi: %.*s", length < 200 ? (int)length : 200,
                      text);
            ++*n;
        }
        text += length + (text[length] == '\n');
    }
    return ERR_OK;
}

err_t smi_query(double timeout_sec, smi_gpu_t gpus[SMI_MAX_GPUS], int *n)
{
    static const char *const argv[] = {"nvidia-smi", query, "--format=csv,noheader,nounits", NULL};
    char text[SMI_MAX_GPUS * 512];
    int exit_code;
    *n = 0;
    TRY(process_run(argv, timeout_sec, text, sizeof text, &exit_code));
    if (exit_code != 0)
        RAISE(ERR_SYSTEM, "nvidia-smi exited with code %d: %.*s", exit_code,
              strcspn(text, "\n") < 200 ? (int)strcspn(text, "\n") : 200, text);
    return smi_parse(text, gpus, n) == ERR_OK ? ERR_OK : ERR_SYSTEM;
}

static int judge_gpu_memory(check_t *check, const smi_gpu_t *gpu)
{
    check_where_t where = check_host(check);
    if (gpu->rows_failed == 1)
        check_line(check, where, "GPU memory", CHECK_FAIL, "take the GPU out of service and have it replaced",
                   "GPU %d: remapping a bad row failed", gpu->index);
    else if (gpu->rows_pending == 1 || gpu->pages_pending == 1)
        check_line(
            check, where, "GPU memory", CHECK_FAIL,
            "stop all work on the GPU and reset it (nvidia-smi --gpu-reset -i INDEX), or restart the host",
            "GPU %d: bad memory will be remapped at the next reset", gpu->index);
    else if (gpu->ecc_volatile > 0)
        check_line(check, where, "GPU memory", CHECK_FAIL,
                   "results since then may be wrong; reset the GPU or restart the host, and watch it",
                   "GPU %d: %lld uncorrected ECC errors since the driver was loaded", gpu->index,
                   (long long)gpu->ecc_volatile);
    else if (gpu->ecc_aggregate > 0)
        check_line(check, where, "GPU memory", CHECK_WARN, "if the count grows, have the GPU replaced",
                   "GPU %d: %lld uncorrected ECC errors over its lifetime", gpu->index,
                   (long long)gpu->ecc_aggregate);
    else
        return 0;
    return 1;
}

static int judge_clocks(check_t *check, const smi_gpu_t *gpu)
{
    static const struct {
        int64_t bit;
        const char *why, *advice;
    } reasons[] = {
        {SMI_HW_THERMAL, "heat", "check fans, air flow and room cooling"},
        {SMI_SW_THERMAL, "heat", "check fans, air flow and room cooling"},
        {SMI_POWER_BRAKE, "the power supply", "check the host's power supplies"},
        {SMI_HW_SLOWDOWN, "heat or power (hardware slowdown)", "check cooling and power supplies"},
    };
    for (size_t i = 0; gpu->slowdown > 0 && i < sizeof reasons / sizeof reasons[0]; i++) {
        if (!(gpu->slowdown & reasons[i].bit)) continue;
        check_line(check, check_host(check), "GPU clocks", CHECK_WARN, reasons[i].advice,
                   "GPU %d: slowed by %s", gpu->index, reasons[i].why);
        return 1;
    }
    return 0;
}

static int judge_power(check_t *check, const smi_gpu_t *gpu)
{
    if (gpu->power_limit < 0 || gpu->power_default < 0 || gpu->power_limit > gpu->power_default - 0.5)
        return 0;
    check_line(check, check_host(check), "GPU power", CHECK_WARN,
               "all ranks wait for this GPU; if the limit is not intended, set it with nvidia-smi -pl WATTS",
               "GPU %d: limited to %.0f W of %.0f W", gpu->index, gpu->power_limit, gpu->power_default);
    return 1;
}

static int judge_persistence(check_t *check, const smi_gpu_t *gpu)
{
    if (gpu->persistence != 0) return 0;
    check_line(check, check_host(check), "GPU persistence", CHECK_WARN,
               "jobs start slowly and settings are lost; start nvidia-persistenced or run nvidia-smi -pm 1",
               "GPU %d: persistence mode is off", gpu->index);
    return 1;
}

void smi_judge(check_t *check, const smi_gpu_t *gpus, int n)
{
    static const struct {
        const char *name, *well;
        int (*judge)(check_t *check, const smi_gpu_t *gpu);
    } parts[] = {
        {"GPU memory", "no uncorrected errors", judge_gpu_memory},
        {"GPU clocks", "not throttled", judge_clocks},
        {"GPU power", "limits at the default or above", judge_power},
        {"GPU persistence", "on", judge_persistence},
    };
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        int n_bad = 0;
        for (int i = 0; i < n; i++) n_bad += parts[p].judge(check, &gpus[i]);
        if (n_bad == 0)
            check_line(check, check_host(check), parts[p].name, CHECK_OK, NULL, "%s", parts[p].well);
    }
}
