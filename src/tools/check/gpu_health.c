/* SPDX-License-Identifier: MIT */
/* GPU health: what nvidia-smi says of memory, clocks, power, PCIe and NVLink, and what the driver wrote to the kernel log. The
 * check itself is in gpu.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
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

static bool parse_gpu(const char *line, size_t n_bytes, void *out)
{
    smi_gpu_t *gpu = out;
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

/* Parses each line into the next element of `out`, whose size is n_bytes. */
static err_t parse_lines(const char *text, bool (*parse)(const char *line, size_t length, void *out),
                         size_t n_bytes, void *out, int *n)
{
    *n = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length > 0) {
            if (*n == SMI_MAX_GPUS) RAISE(ERR_DATA, "nvidia-smi lists more than %d GPUs", SMI_MAX_GPUS);
            if (!parse(text, length, (char *)out + (size_t)*n * n_bytes))
                RAISE(ERR_DATA, "unexpected output of nvidia-smi: %.*s", length < 200 ? (int)length : 200,
                      text);
            ++*n;
        }
        text += length + (text[length] == '\n');
    }
    return ERR_OK;
}

err_t smi_parse(const char *text, smi_gpu_t gpus[SMI_MAX_GPUS], int *n)
{
    return parse_lines(text, parse_gpu, sizeof *gpus, gpus, n);
}

/* Runs nvidia-smi; errors as smi_query. */
static err_t run_smi(double timeout_sec, const char *const *argv, char *text, size_t n_bytes)
{
    int exit_code;
    TRY(process_run(argv, timeout_sec, text, n_bytes, &exit_code));
    if (exit_code != 0)
        RAISE(ERR_SYSTEM, "nvidia-smi exited with code %d: %.*s", exit_code,
              strcspn(text, "\n") < 200 ? (int)strcspn(text, "\n") : 200, text);
    return ERR_OK;
}

err_t smi_query(double timeout_sec, smi_gpu_t gpus[SMI_MAX_GPUS], int *n)
{
    static const char *const argv[] = {"nvidia-smi", query, "--format=csv,noheader,nounits", NULL};
    char text[SMI_MAX_GPUS * 512];
    *n = 0;
    TRY(run_smi(timeout_sec, argv, text, sizeof text));
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

/* ---- PCIe links and corrected errors: a query of its own, because a driver that lacks one field answers none ---- */
static const char detail_query[] =
    "--query-gpu=index,name,pstate,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max,ecc.errors.corrected.volatile.total,remapped_rows.correctable,"
    "remapped_rows.uncorrectable";
enum { N_DETAILS = 10 };

/* Corrected errors an hour. A cell that fails again and again costs time, and is on its way to an error that cannot be corrected. */
static const double most_corrected = 100;

static const char reseat[] =
    "reseat GPU and riser and power the host off and on; if it stays, try another slot, then have slot or GPU replaced";

static bool parse_detail(const char *line, size_t n_bytes, void *out)
{
    smi_detail_t *gpu = out;
    field_t f[N_FIELDS];
    if (split_fields(line, n_bytes, f) != N_DETAILS || parse_number(f[0]) < 0) return false;
    *gpu = (smi_detail_t){.index = (int)parse_number(f[0]),
                          .full_clocks = strcmp(f[2], "P0") == 0,
                          .gen = (int)parse_number(f[3]),
                          .gen_max = (int)parse_number(f[4]),
                          .width = (int)parse_number(f[5]),
                          .width_max = (int)parse_number(f[6]),
                          .corrected = (int64_t)parse_number(f[7])};
    int64_t some = (int64_t)parse_number(f[8]), others = (int64_t)parse_number(f[9]);
    gpu->rows = some < 0 || others < 0 ? -1 : some + others;
    snprintf(gpu->name, sizeof gpu->name, "%s", f[1]);
    return true;
}

err_t smi_detail_parse(const char *text, smi_detail_t gpus[SMI_MAX_GPUS], int *n)
{
    return parse_lines(text, parse_detail, sizeof *gpus, gpus, n);
}

/* Returns the number of lines. The maxima are those of the GPU in its slot: a slot with less shows beside GPUs of the same model.
 * Idle GPUs lower their generation, some even in P0: it counts if the GPU is the only one. */
static int judge_pcie(check_t *check, const smi_detail_t *gpus, int n, const smi_detail_t *gpu)
{
    int width = 0, gen_max = 0, n_faster = 0, n_alike = 0;
    for (int i = 0; i < n; i++) {
        const smi_detail_t *other = &gpus[i];
        if (strcmp(other->name, gpu->name) != 0) continue;
        if (other->width_max > width) width = other->width_max;
        if (other->gen_max > gen_max) gen_max = other->gen_max;
        n_faster += other->full_clocks && other->gen > gpu->gen;
        n_alike += other->full_clocks && other->gen <= gpu->gen;
    }
    bool slow = gpu->full_clocks && gpu->gen > 0 && n_alike == 1 && n_faster > 1;
    if (gpu->width > 0 && gpu->width < width)
        check_line(check, check_host(check), "GPU PCIe",
                   gpu->width < gpu->width_max ? CHECK_FAIL : CHECK_WARN, reseat, "GPU %d: %d of %d lanes",
                   gpu->index, gpu->width, width);
    else if (slow || (gpu->gen_max > 0 && gpu->gen_max < gen_max))
        check_line(check, check_host(check), "GPU PCIe", CHECK_WARN, reseat, "GPU %d: generation %d of %d",
                   gpu->index, slow ? gpu->gen : gpu->gen_max, gen_max);
    else
        return 0;
    return 1;
}

void smi_judge_detail(check_t *check, const smi_detail_t *gpus, int n, double hours)
{
    check_where_t where = check_host(check);
    int n_bad = 0, n_worn = 0, shown = -1;
    int64_t corrected = -1, rows = 0;
    for (int i = 0; i < n; i++) {
        const smi_detail_t *gpu = &gpus[i];
        double rate = (double)gpu->corrected / (hours > 1 ? hours : 1);
        if (shown < 0 && gpu->width > 0) shown = i;
        n_bad += judge_pcie(check, gpus, n, gpu);
        if (gpu->corrected >= 0) corrected = (corrected < 0 ? 0 : corrected) + gpu->corrected;
        if (gpu->rows > 0) rows += gpu->rows;
        if (rate <= most_corrected) continue;
        n_worn++;
        check_line(
            check, where, "GPU ECC", CHECK_WARN,
            "the GPU corrects them, but its memory wears out: reset it, so that bad rows are remapped; if the rate "
            "stays, have it replaced",
            "GPU %d: %lld corrected errors, %.0f an hour", gpu->index, (long long)gpu->corrected, rate);
    }
    if (n_bad == 0 && shown < 0) check_line(check, where, "GPU PCIe", CHECK_SKIP, NULL, "not reported");
    if (n_bad == 0 && shown >= 0) {
        char text[48];
        snprintf(text, sizeof text, "%d lanes, generation %d", gpus[shown].width, gpus[shown].gen_max);
        check_equal(check, "GPU PCIe", CHECK_WARN, reseat, text);
    }
    if (n_worn == 0 && corrected < 0)
        check_line(check, where, "GPU ECC", CHECK_SKIP, NULL, "off, or not reported");
    else if (n_worn == 0)
        check_measured(check, where, "GPU ECC", CHECK_OK, NULL, check_less((double)corrected),
                       "%lld corrected errors, %lld rows remapped", (long long)corrected, (long long)rows);
}

/* ---- NVLink ---- */
/* "Link 4: 26.562 GB/s", "Link 4: <inactive>". */
static bool parse_link(const char *line, smi_nvlink_t *gpu)
{
    int link, end = 0;
    float speed = 0;
    size_t used = strlen(gpu->inactive);
    if (sscanf(line, "Link %3d: %15f GB/s%n", &link, &speed, &end) != 2 || end == 0)
        sscanf(line, "Link %3d: <inactive>%n", &link, &end);
    if (end == 0 || line[end]) return false;
    gpu->n_links++;
    gpu->n_active += speed > 0;
    if (speed <= 0)
        snprintf(gpu->inactive + used, sizeof gpu->inactive - used, "%s%d", used ? ", " : "", link);
    return true;
}

err_t smi_nvlink_parse(const char *text, smi_nvlink_t gpus[SMI_MAX_GPUS], int *n)
{
    *n = 0;
    while (*text) {
        char line[200];
        int index;
        size_t length = strcspn(text, "\n"), blank = strspn(text, " \t");
        snprintf(line, sizeof line, "%.*s", blank < length ? (int)(length - blank) : 0, text + blank);
        line[strcspn(line, "\r")] = '\0';
        text += length + (text[length] == '\n');
        if (sscanf(line, "GPU %3d: ", &index) == 1 && *n < SMI_MAX_GPUS) {
            smi_nvlink_t *gpu = &gpus[(*n)++];
            *gpu = (smi_nvlink_t){.index = index};
            sscanf(line, "GPU %*d: %63[^(]", gpu->name);
        } else if (strncmp(line, "Link ", 5) == 0 && (*n == 0 || !parse_link(line, &gpus[*n - 1]))) {
            RAISE(ERR_DATA, "unexpected output of nvidia-smi: %s", line);
        } /* otherwise a remark that a GPU has no NVLink, or that all links are inactive */
    }
    return ERR_OK;
}

/* Whether all links of the model lead to a board or to NVSwitches, rather than to bridges that may be absent. */
static bool on_board(const char *name)
{
    static const char *const names[] = {"SXM4", "SXM5", "HBM3", " H20", " B200", " B300", " GB200", " GB300"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) found |= strstr(name, names[i]) != NULL;
    return found && !strstr(name, "NVL");
}

void smi_judge_nvlink(check_t *check, const smi_nvlink_t *gpus, int n)
{
    check_where_t where = check_host(check);
    int n_bad = 0, best = 0;
    for (int i = 0; i < n; i++) {
        const smi_nvlink_t *gpu = &gpus[i];
        bool board = on_board(gpu->name) && n > 1;
        int most = board ? gpu->n_links : 0;
        for (int k = 0; k < n; k++)
            if (strcmp(gpus[k].name, gpu->name) == 0 && gpus[k].n_active > most) most = gpus[k].n_active;
        if (most > best) best = most;
        if (gpu->n_active == most) continue;
        n_bad++;
        check_line(
            check, where, "NVLink", board ? CHECK_FAIL : CHECK_WARN,
            "look for Xid 74, nvidia-smi nvlink -e and systemctl status nvidia-fabricmanager; reset the GPUs or "
            "restart the host; if it stays, reseat the bridge or have the GPU replaced",
            "GPU %d: %d of %d links active%s%s", gpu->index, gpu->n_active, most,
            gpu->n_active > 0 ? ", not " : "", gpu->n_active > 0 ? gpu->inactive : "");
    }
    if (n_bad == 0)
        check_line(check, where, "NVLink", best > 0 ? CHECK_OK : CHECK_SKIP, NULL,
                   best > 0 ? "%d links active" : "none", best);
}

/* ---- Xid errors in the kernel log ---- */
/* The application's own errors are CHECK_OK. Numbers that are not listed are warnings. */
static const struct {
    int first, last;
    check_status_t status;
    const char *means;
} xids[] = {
    {13, 13, CHECK_OK, ""},   /* an exception in a kernel */
    {31, 31, CHECK_OK, ""},   /* an access to an invalid address */
    {43, 43, CHECK_OK, ""},   /* stopped after an error of the program */
    {45, 45, CHECK_OK, ""},   /* cleanup after a killed program */
    {137, 137, CHECK_OK, ""}, /* 31 through NVLink */
    {46, 46, CHECK_FAIL, "stopped processing"},
    {48, 48, CHECK_FAIL, "double-bit ECC error"},
    {54, 54, CHECK_FAIL, "no auxiliary power"},
    {61, 62, CHECK_FAIL, "microcontroller halted"},
    {63, 63, CHECK_WARN, "bad memory remapped"},
    {64, 64, CHECK_FAIL, "bad memory not remapped"},
    {74, 74, CHECK_FAIL, "NVLink error"},
    {79, 79, CHECK_FAIL, "fell off the bus"},
    {92, 92, CHECK_WARN, "many corrected ECC errors"},
    {94, 94, CHECK_WARN, "contained ECC error"},
    {95, 95, CHECK_FAIL, "uncontained ECC error"},
    {119, 120, CHECK_FAIL, "GSP firmware failed"},
    {122, 123, CHECK_FAIL, "power controller failed"},
    {136, 136, CHECK_FAIL, "NVLink training failed"},
    {140, 140, CHECK_FAIL, "uncorrected ECC error"},
    {143, 143, CHECK_FAIL, "initialization failed"},
    {144, 150, CHECK_FAIL, "NVLink error"},
    {154, 154, CHECK_FAIL, "needs a reset or restart"},
};
enum { LOG_BYTES = 8 << 20 };

/* The message of a line of dmesg, behind "[  966.503025] " and "[    T912] ". */
static const char *log_message(const char *line)
{
    while (*line == '[') {
        const char *end = strpbrk(line, "]\n");
        if (!end || *end == '\n') return line;
        line = end + 1 + strspn(end + 1, " ");
    }
    return line;
}

/* Parses "NVRM: Xid (PCI:0000:3b:00): 79, …", older drivers' "Xid (0000:3b:00)" and MIG's "(PCI:0000:3b:00 GPU-I:05)". */
static bool parse_xid(const char *message, xid_count_t *out)
{
    static const char head[] = "NVRM: Xid (";
    int end = 0;
    *out = (xid_count_t){.n = 1};
    if (strncmp(message, head, sizeof head - 1) != 0) return false;
    message += sizeof head - 1;
    if (strncmp(message, "PCI:", 4) == 0) message += 4;
    size_t n = strspn(message, "0123456789abcdefABCDEF:."), close = strcspn(message, ")\n");
    if (n < 7 || n >= sizeof out->gpu || (message[n] != ')' && message[n] != ' ')) return false;
    memcpy(out->gpu, message, n);
    message += close;
    if (sscanf(message, "): %3d%n", &out->number, &end) != 1 || out->number <= 0 || message[end] != ',')
        return false;
    if (out->number != 154) return true;
    /* A recovery action that is not needed any more. */
    const char *none = strstr(message, " to 0x0 (None)");
    return !none || none > message + strcspn(message, "\n");
}

void xid_parse(const char *text, xid_log_t *out)
{
    *out = (xid_log_t){0};
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        xid_count_t found;
        int i = 0;
        if (!parse_xid(log_message(text), &found)) continue;
        while (i < out->n &&
               (out->count[i].number != found.number || strcmp(out->count[i].gpu, found.gpu) != 0))
            i++;
        if (i < out->n)
            out->count[i].n++;
        else if (out->n < XID_MAX)
            out->count[out->n++] = found;
    }
}

static check_status_t xid_status(int number, const char **means)
{
    *means = NULL;
    for (size_t i = 0; i < sizeof xids / sizeof xids[0]; i++) {
        if (number < xids[i].first || number > xids[i].last) continue;
        *means = xids[i].means;
        return xids[i].status;
    }
    return CHECK_WARN;
}

/* Adds a line about a GPU; returns the number of lines. */
static int judge_xids_of(check_t *check, const xid_log_t *log, const char *gpu)
{
    static const char broken[] =
        "take the host out of service: reset the GPU (nvidia-smi --gpu-reset -i INDEX) or restart the host; if "
        "it comes back, have the GPU replaced; after a reset, dmesg --clear forgets it";
    static const char unsure[] =
        "see dmesg | grep Xid and NVIDIA's Xid catalog, and watch the GPU; dmesg --clear forgets it";
    check_status_t worst = CHECK_OK;
    char text[160] = "";
    for (int i = 0; i < log->n; i++) {
        const xid_count_t *c = &log->count[i];
        const char *means;
        char times[32] = "";
        size_t used = strlen(text);
        check_status_t status = xid_status(c->number, &means);
        if (status == CHECK_OK || strcmp(c->gpu, gpu) != 0) continue;
        if (status > worst) worst = status;
        if (c->n > 1) snprintf(times, sizeof times, ", %d times", c->n);
        snprintf(text + used, sizeof text - used, "%s%d (%s%s)", used ? ", " : "", c->number,
                 means ? means : "see the catalog", times);
    }
    if (worst == CHECK_OK) return 0;
    check_line(check, check_host(check), "Xid errors", worst, worst == CHECK_FAIL ? broken : unsure, "%s: %s",
               gpu, text);
    return 1;
}

void xid_judge(check_t *check, const xid_log_t *log)
{
    int n_bad = 0, n = 0;
    for (int i = 0; i < log->n; i++) {
        bool first = true;
        for (int k = 0; k < i; k++) first &= strcmp(log->count[k].gpu, log->count[i].gpu) != 0;
        if (first) n_bad += judge_xids_of(check, log, log->count[i].gpu);
        n += log->count[i].n;
    }
    if (n_bad == 0)
        check_line(check, check_host(check), "Xid errors", CHECK_OK, NULL,
                   n == 0 ? "none since boot" : "only of programs: %d", n);
}

void xid_report(check_t *check)
{
    static const char *const argv[] = {"dmesg", NULL};
    char *text = NULL;
    xid_log_t log;
    int exit_code = 0;
    err_t err = mem_new(LOG_BYTES, "the kernel log", &text);
    if (err == ERR_OK) err = process_run(argv, check->options->smi_timeout_sec, text, LOG_BYTES, &exit_code);
    if (err == ERR_OK && exit_code == 0) {
        xid_parse(text, &log);
        xid_judge(check, &log);
    } else {
        check_line(check, check_host(check), "Xid errors", CHECK_SKIP, NULL, "%.*s",
                   err == ERR_OK && strcspn(text, "\n") < 160 ? (int)strcspn(text, "\n") : 160,
                   err == ERR_OK ? text : err_message());
    }
    mem_free(&text);
}

/* ---- Reading links and corrected errors ---- */
void smi_report_links(check_t *check)
{
    static const char *const details[] = {"nvidia-smi", detail_query, "--format=csv,noheader,nounits", NULL};
    static const char *const links[] = {"nvidia-smi", "nvlink", "--status", NULL};
    double timeout = check->options->smi_timeout_sec, up_sec = 0;
    char text[SMI_MAX_GPUS * 1200], line[64];
    smi_detail_t gpus[SMI_MAX_GPUS];
    smi_nvlink_t nvlinks[SMI_MAX_GPUS];
    int n;
    /* Counted since the driver was loaded, which is not known; usually at boot. */
    if (fs_read_line("/proc/uptime", line, sizeof line)) up_sec = strtod(line, NULL);
    err_t err = run_smi(timeout, details, text, sizeof text);
    if (err == ERR_OK) err = smi_detail_parse(text, gpus, &n);
    if (err == ERR_OK && n > 0)
        smi_judge_detail(check, gpus, n, up_sec / 3600);
    else
        check_line(check, check_host(check), "GPU PCIe, ECC", CHECK_SKIP, NULL, "%.200s",
                   err == ERR_OK ? "not reported" : err_message());
    err = run_smi(timeout, links, text, sizeof text);
    if (err == ERR_OK) err = smi_nvlink_parse(text, nvlinks, &n);
    if (err == ERR_OK)
        smi_judge_nvlink(check, nvlinks, n);
    else
        check_line(check, check_host(check), "NVLink", CHECK_SKIP, NULL, "%.200s", err_message());
}
