/* SPDX-License-Identifier: MIT */
/* Reads CPU, memory and network ports of this machine from /proc and /sys. What is missing there is reported
 * as unknown, never as an error. */
#include "cluster/hosts/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/process.h"
#include "cluster/hosts/topo.h"

/* Fields of /proc/cpuinfo that make up the type, in this order; x86, ARM, RISC-V. */
static const struct {
    const char *field, *word;
} type_fields[] = {
    {"vendor_id", ""},
    {"cpu family", "family "},
    {"model", "model "},
    {"stepping", "stepping "},
    {"CPU implementer", "implementer "},
    {"CPU part", "part "},
    {"CPU variant", "variant "},
    {"CPU revision", "revision "},
    {"mvendorid", "vendor "},
    {"marchid", "architecture "},
    {"uarch", ""},
};
enum { N_TYPE_FIELDS = sizeof type_fields / sizeof *type_fields, FIELD_TEXT_MAX = 64 };

/* Sets that kernels choose by, of oneDNN and of this program. A list, not all flags: these depend on the kernel's
 * version, and recordings of one machine are compared over updates. */
static const char *const instruction_sets[] = {
    "avx",      "avx2",     "fma",      "f16c",        "bmi2",        "avx512f",     "avx512bw",
    "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni",
    "amx_tile", "amx_int8", "amx_bf16", "asimd",       "asimdhp",     "asimddp",     "bf16",
    "i8mm",     "sve",      "sve2",     "sme",
};

/* One processor's part of the file. */
typedef struct cpu_block {
    bool is_processor; /* otherwise of the board, at the end */
    char fields[N_TYPE_FIELDS][FIELD_TEXT_MAX];
} cpu_block_t;

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

static void append(char *out, size_t n_bytes, const char *separator, const char *text)
{
    const size_t n = strlen(out);
    snprintf(out + n, n_bytes - n, "%s%s", n ? separator : "", text);
}

/* Adds the block's type, unless an earlier processor had it, and empties the block. */
static void end_block(cpu_block_t *block, machine_cpu_t *out)
{
    char type[sizeof out->type] = "", text[FIELD_TEXT_MAX + 16];
    for (int i = 0; i < N_TYPE_FIELDS && block->is_processor; i++) {
        if (!block->fields[i][0]) continue;
        snprintf(text, sizeof text, "%s%s", type_fields[i].word, block->fields[i]);
        append(type, sizeof type, " ", text);
    }
    char item[sizeof type + 4], list[sizeof out->type + 4];
    snprintf(item, sizeof item, ", %s,", type);
    snprintf(list, sizeof list, ", %s,", out->type);
    if (type[0] && !strstr(list, item)) append(out->type, sizeof out->type, ", ", type);
    *block = (cpu_block_t){.is_processor = false};
}

void machine_cpu_read(FILE *cpuinfo, machine_cpu_t *out)
{
    char line[16384];
    cpu_block_t block = {.is_processor = false};
    int last_socket = -1;
    *out = (machine_cpu_t){.sockets = 0};
    while (fgets(line, sizeof line, cpuinfo)) {
        char *colon = strchr(line, ':'), *end = colon;
        if (!colon) {
            if (line[0] == '\n') end_block(&block, out);
            continue;
        }
        while (end > line && (end[-1] == ' ' || end[-1] == '\t')) end--;
        *end = '\0';
        char *value = colon + 1 + strspn(colon + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        if (strcmp(line, "processor") == 0) block.is_processor = true;
        for (int i = 0; i < N_TYPE_FIELDS; i++)
            if (strcmp(line, type_fields[i].field) == 0)
                snprintf(block.fields[i], FIELD_TEXT_MAX, "%.*s", FIELD_TEXT_MAX - 1, value);
        if ((strcmp(line, "model name") == 0 || strcmp(line, "cpu") == 0) && !out->name[0])
            snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, value);
        /* "32 KB"; on x86 the largest that the kernel names, used where /sys has none. */
        if (strcmp(line, "cache size") == 0 && !out->caches[0])
            snprintf(out->caches, sizeof out->caches, "%.*s", (int)sizeof out->caches - 1, value);
        if ((strcmp(line, "flags") == 0 || strcmp(line, "Features") == 0) && !out->instructions[0])
            for (size_t i = 0; i < sizeof instruction_sets / sizeof *instruction_sets; i++)
                if (has_word(value, instruction_sets[i]))
                    append(out->instructions, sizeof out->instructions, " ", instruction_sets[i]);
        if (strcmp(line, "microcode") == 0 && !out->microcode[0])
            snprintf(out->microcode, sizeof out->microcode, "%.*s", (int)sizeof out->microcode - 1, value);
        /* Numbered from 0. */
        if (strcmp(line, "physical id") == 0 && atoi(value) > last_socket) last_socket = atoi(value);
    }
    end_block(&block, out);
    out->sockets = last_socket + 1;
    if (!out->name[0]) snprintf(out->name, sizeof out->name, "unknown CPU");
}

int64_t machine_cpu_list(const char *text, cpu_set_t *out, size_t n_bytes)
{
    enum { MOST = 1 << 20 };
    int64_t n = 0;
    if (out) CPU_ZERO_S(n_bytes, out);
    while (isdigit((unsigned char)*text)) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1])) return -1;
            last = strtol(end + 1, &end, 10);
        }
        if (last < first || last >= (out ? 8 * (long)n_bytes : MOST)) return -1;
        for (long cpu = first; out && cpu <= last; cpu++) CPU_SET_S((size_t)cpu, n_bytes, out);
        n += last - first + 1;
        text = end + (*end == ',');
    }
    return *text == '\0' || *text == '\n' ? n : -1;
}

/* The first number of ROOT/sys/devices/system/cpu/cpuN/topology/NAME. */
static int read_place(const char *root, int cpu, const char *name, int otherwise)
{
    char path[FS_PATH_MAX], line[1024];
    int value;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/%s", root, cpu, name);
    return fs_read_line(path, line, sizeof line) && sscanf(line, "%d", &value) == 1 ? value : otherwise;
}

int machine_core(int cpu)
{
    const int first = read_place("", cpu, "thread_siblings_list", cpu);
    return first >= 0 && first < cpu ? first : cpu;
}

void machine_layout_read(const char *root, machine_layout_t *out)
{
    enum { MAX_SOCKETS = 64, N_SETS = 8 };
    char path[FS_PATH_MAX], list[4096];
    cpu_set_t online[N_SETS];
    int sockets[MAX_SOCKETS];
    *out = (machine_layout_t){.cpus = 0};
    snprintf(path, sizeof path, "%s/sys/devices/system/node/has_cpu", root);
    if (fs_read_line(path, list, sizeof list)) out->nodes = (int)machine_cpu_list(list, NULL, 0);
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/online", root);
    if (!fs_read_line(path, list, sizeof list) || machine_cpu_list(list, online, sizeof online) < 0) return;
    out->cpus = CPU_COUNT_S(sizeof online, online);
    for (int cpu = 0; cpu < N_SETS * CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, sizeof online, online)) continue;
        out->cores += read_place(root, cpu, "thread_siblings_list", cpu) == cpu;
        const int socket = read_place(root, cpu, "physical_package_id", -1);
        int known = 0;
        while (known < out->sockets && sockets[known] != socket) known++;
        if (socket >= 0 && known == out->sockets && known < MAX_SOCKETS) sockets[out->sockets++] = socket;
    }
}

int machine_caches(const char *folder, machine_cache_t out[MACHINE_MAX_CACHES])
{
    enum { TYPE, LEVEL, SIZE, SHARERS, N_FILES };
    static const char *const files[N_FILES] = {"type", "level", "size", "shared_cpu_list"};
    if (!folder) folder = "/sys/devices/system/cpu/cpu0/cache";
    int n = 0;
    for (int index = 0; n < MACHINE_MAX_CACHES; index++) {
        char path[FS_PATH_MAX], text[N_FILES][1024], *unit;
        for (int i = 0; i < N_FILES; i++) {
            snprintf(path, sizeof path, "%s/index%d/%s", folder, index, files[i]);
            if (!fs_read_line(path, text[i], sizeof text[i])) text[i][0] = '\0';
        }
        if (!text[TYPE][0]) break;
        machine_cache_t cache = {.level = atoi(text[LEVEL]), .n_bytes = strtoll(text[SIZE], &unit, 10)};
        cache.n_bytes <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : 0;
        cache.n_sharers = (int)machine_cpu_list(text[SHARERS], NULL, 0);
        if (cache.n_sharers < 1) cache.n_sharers = 1;
        if (strcmp(text[TYPE], "Instruction") != 0 && cache.level > 0 && cache.n_bytes > 0) out[n++] = cache;
    }
    return n;
}

int64_t machine_cache_bytes(int n_cpus, int n_ranks)
{
    machine_cache_t caches[MACHINE_MAX_CACHES];
    const int n = machine_caches(NULL, caches);
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        const int64_t n_caches =
            caches[i].n_sharers < machine_cpus() ? machine_cpus() / caches[i].n_sharers : 1;
        sum +=
            n_cpus < n_caches / n_ranks ? n_cpus * caches[i].n_bytes : n_caches * caches[i].n_bytes / n_ranks;
    }
    return sum;
}

void machine_cpu(machine_cpu_t *out)
{
    machine_cache_t caches[MACHINE_MAX_CACHES];
    const int n = machine_caches(NULL, caches);
    FILE *file = fopen("/proc/cpuinfo", "re");
    *out = (machine_cpu_t){.name = "unknown CPU"};
    if (file) {
        machine_cpu_read(file, out);
        fclose(file);
    }
    if (n > 0) out->caches[0] = '\0';
    for (int i = 0; i < n; i++) {
        char size[32];
        snprintf(size, sizeof size, "%lldK", (long long)(caches[i].n_bytes >> 10));
        append(out->caches, sizeof out->caches, " ", size);
    }
}

void machine_cpu_name(char *out, size_t n_bytes)
{
    machine_cpu_t cpu;
    machine_cpu(&cpu);
    snprintf(out, n_bytes, "%s", cpu.name);
}

void machine_cpu_text(char out[MACHINE_CPU_TEXT])
{
    machine_cpu_t cpu;
    machine_cpu(&cpu);
    snprintf(out, MACHINE_CPU_TEXT, "%s", cpu.name);
    if (cpu.type[0]) append(out, MACHINE_CPU_TEXT, ", ", cpu.type);
    if (cpu.caches[0]) append(out, MACHINE_CPU_TEXT, ", ", cpu.caches);
    if (cpu.instructions[0]) append(out, MACHINE_CPU_TEXT, ", ", cpu.instructions);
}

int machine_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* A number behind a key that begins a line. */
static int64_t read_field(const char *path, const char *key, int64_t otherwise)
{
    char line[128];
    int64_t value = otherwise;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) value = strtoll(line + strlen(key), NULL, 10);
    if (file) fclose(file);
    return value;
}

/* Reads a file with one number; returns `otherwise` if it has none ("max"). */
static int64_t read_number(const char *path, int64_t otherwise)
{
    long long value;
    char line[64];
    return fs_read_line(path, line, sizeof line) && sscanf(line, "%lld", &value) == 1 ? value : otherwise;
}

int64_t machine_memory_bytes(void)
{
    return 1024 * read_field("/proc/meminfo", "MemTotal:", 0);
}

/* The files of a control group, of both versions, and how its limit is read. */
typedef struct group_kind group_kind_t;
struct group_kind {
    const char *controllers, *folder;
    /* INT64_MAX: no limit.
     *
     *   files  the path of the group's folder, with a slash; names can be appended */
    int64_t (*read)(const group_kind_t *kind, char *files);
    const char *limit, *used, *cached;
};

/* This process's group, "/a/b", from a line "4:memory:/a/b"; "" if it has none. */
static void read_cgroup(const char *groups, const char *controllers, char *out, size_t n_bytes)
{
    char line[FS_PATH_MAX];
    const size_t n = strlen(controllers);
    FILE *file = fopen(groups, "re");
    out[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        const char *at = strchr(line, ':');
        line[strcspn(line, "\n")] = '\0';
        if (at && strncmp(at + 1, controllers, n) == 0 && at[1 + n] == ':')
            snprintf(out, n_bytes, "%s", at + 2 + n);
    }
    if (file) fclose(file);
}

enum { GROUP_FILE_MAX = 64 };

/* The path of a file, until the next call. */
static const char *group_file(char *files, const char *name)
{
    snprintf(strrchr(files, '/') + 1, GROUP_FILE_MAX, "%s", name);
    return files;
}

static int64_t group_memory(const group_kind_t *kind, char *files)
{
    const int64_t limit = read_number(group_file(files, kind->limit), INT64_MAX);
    if (limit == INT64_MAX || !kind->used) return limit;
    int64_t used = read_number(group_file(files, kind->used), 0);
    used -= read_field(group_file(files, "memory.stat"), kind->cached, 0);
    return used < limit ? limit - used : 0;
}

/* CPU time per time, in thousandths. Version 2 has "QUOTA PERIOD" or "max PERIOD" in one file. */
static int64_t group_quota(const group_kind_t *kind, char *files)
{
    char line[64];
    long long quota = -1, period = -1;
    if (!fs_read_line(group_file(files, kind->limit), line, sizeof line)) return INT64_MAX;
    if (sscanf(line, "%lld %lld", &quota, &period) == 1)
        period = read_number(group_file(files, "cpu.cfs_period_us"), -1);
    return quota > 0 && period > 0 ? 1000 * quota / period : INT64_MAX;
}

/* The least that this process's groups and those above leave. */
static int64_t least_of_groups(const group_kind_t *kinds, int n_kinds, const char *groups, const char *root)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < n_kinds; i++) {
        char group[FS_PATH_MAX], files[2 * FS_PATH_MAX + GROUP_FILE_MAX];
        read_cgroup(groups, kinds[i].controllers, group, sizeof group);
        /* Limits of all groups above hold, too. The root is last: there a container sees its own group. */
        for (;;) {
            const int n = snprintf(files, sizeof files, "%s%s%s/", root, kinds[i].folder, group);
            const int64_t left = n > 0 && n < FS_PATH_MAX ? kinds[i].read(&kinds[i], files) : INT64_MAX;
            if (left < least) least = left;
            char *end = strrchr(group, '/');
            if (!end) break;
            *end = '\0';
        }
    }
    return least;
}

int64_t machine_group_free_bytes(const char *groups, const char *root)
{
    static const group_kind_t kinds[] = {
        {"", "", group_memory, "memory.max", "memory.current", "inactive_file "},
        {"memory", "/memory", group_memory, "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file "},
    };
    return least_of_groups(kinds, 2, groups, root);
}

void machine_group_limits(const char *groups, const char *root, machine_group_limits_t *out)
{
    static const group_kind_t memory[] = {
        {"", "", group_memory, "memory.max", NULL, NULL},
        {"memory", "/memory", group_memory, "memory.limit_in_bytes", NULL, NULL},
    };
    static const group_kind_t cpu[] = {
        {"", "", group_quota, "cpu.max", NULL, NULL},
        {"cpu", "/cpu", group_quota, "cpu.cfs_quota_us", NULL, NULL},
        {"cpu,cpuacct", "/cpu,cpuacct", group_quota, "cpu.cfs_quota_us", NULL, NULL},
    };
    const int64_t quota = least_of_groups(cpu, 3, groups, root);
    out->memory_bytes = least_of_groups(memory, 2, groups, root);
    out->cpus = quota < INT64_MAX ? 1e-3 * (double)quota : INFINITY;
}

int64_t machine_free_bytes(void)
{
    const int64_t host = read_field("/proc/meminfo", "MemAvailable:", -1);
    const int64_t group = machine_group_free_bytes("/proc/self/cgroup", "/sys/fs/cgroup");
    return host >= 0 && 1024 * host < group ? 1024 * host : group;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Calls `add` for each entry of a folder, sorted by name. */
static void each_entry(const char *folder, void (*add)(const char *name, machine_port_t *out, int *n),
                       machine_port_t *out, int *n)
{
    struct dirent **entries;
    int n_entries = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n_entries; i++) {
        if (*n < MACHINE_MAX_PORTS) add(entries[i]->d_name, out, n);
        free(entries[i]);
    }
    if (n_entries >= 0) free(entries);
}

/* /sys/class/infiniband/NAME/ports/1/rate: "200 Gb/sec (4X HDR)". */
static void add_infiniband(const char *name, machine_port_t *out, int *n)
{
    char path[256], line[64];
    double gbits = 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.64s/ports/1/rate", name);
    if (!fs_exists(path)) return;
    if (!fs_read_line(path, line, sizeof line) || sscanf(line, "%lf", &gbits) != 1) gbits = 0;
    snprintf(out[*n].name, sizeof out[*n].name, "%.60s:1", name);
    out[(*n)++].bits_per_sec = 1e9 * gbits;
}

/* The file holds Mbit/s; -1 or an error if the driver does not know. */
static void add_interface(const char *name, machine_port_t *out, int *n)
{
    char path[256], state[16];
    if (strcmp(name, "lo") == 0) return;
    snprintf(path, sizeof path, "/sys/class/net/%.64s/operstate", name);
    if (!fs_read_line(path, state, sizeof state) || strcmp(state, "up") != 0) return;
    snprintf(path, sizeof path, "/sys/class/net/%.64s/speed", name);
    int64_t megabits = read_number(path, 0);
    snprintf(out[*n].name, sizeof out[*n].name, "%.63s", name);
    out[(*n)++].bits_per_sec = megabits > 0 ? 1e6 * (double)megabits : 0;
}

int machine_ports(machine_port_t out[MACHINE_MAX_PORTS])
{
    int n = 0;
    each_entry("/sys/class/infiniband", add_infiniband, out, &n);
    each_entry("/sys/class/net", add_interface, out, &n);
    return n;
}

void machine_record(const char *device, json_t *j)
{
    machine_cpu_t cpu;
    struct utsname os;
    machine_cpu(&cpu);
    uname(&os);
    json_string(j, "cpu", cpu.name);
    json_string(j, "cpu_type", cpu.type[0] ? cpu.type : NULL);
    json_string(j, "instructions", cpu.instructions[0] ? cpu.instructions : NULL);
    json_string(j, "caches", cpu.caches[0] ? cpu.caches : NULL);
    json_string(j, "architecture", os.machine);
    json_int(j, "sockets", cpu.sockets);
    json_int(j, "cpus", machine_cpus());
    /* In whole GiB: the kernel's own share varies between versions. */
    json_int(j, "memory_gib", (machine_memory_bytes() + (1 << 29)) >> 30);
    json_string(j, "device", device);
}

void topo_self(topo_t *out)
{
    *out = (topo_t){.size = 1, .n_hosts = 1, .local_size = 1, .max_local_size = 1};
    out->simulated = !launch_owns_process();
    launch_host_name(out->host_name, sizeof out->host_name);
}

int topo_cpus(void)
{
    /* The kernel's mask may exceed cpu_set_t's 1024 CPUs; EINVAL means that ours is too small. */
    for (int n_cpus = 1024; n_cpus <= 1 << 20; n_cpus *= 2) {
        cpu_set_t *mask = CPU_ALLOC((size_t)n_cpus);
        if (!mask) break;
        size_t n_bytes = CPU_ALLOC_SIZE((size_t)n_cpus);
        int count = sched_getaffinity(0, n_bytes, mask) == 0 ? CPU_COUNT_S(n_bytes, mask) : 0;
        CPU_FREE(mask);
        if (count > 0) return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
