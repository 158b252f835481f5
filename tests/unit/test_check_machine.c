/* SPDX-License-Identifier: MIT */
/* The check `machine` on made-up hosts, and the hashes of mapped libraries. RUN np=0 */
#include <string.h>

#include "base/mem.h"
#include "tests/folder.h"
#include "tests/tap.h"
#include "tools/check/host.h"
#include "tools/check/lines.h"

static check_options_t options;
static check_rank_t ranks[2] = {{.host = 0, .host_name = "node1"}, {.host = 1, .host_name = "node2"}};
static comm_t comms[2] = {{.rank = 0, .size = 2}, {.rank = 1, .size = 2}};
static check_t checks[2];
static check_lines_t lines;

static void begin(void)
{
    for (int h = 0; h < 2; h++)
        checks[h] = (check_t){.options = &options,
                              .comm = &comms[h],
                              .ranks = ranks,
                              .host = h,
                              .n_hosts = 2,
                              .current = "machine"};
}

static void judge(void)
{
    lines = (check_lines_t){0};
    for (int h = 0; h < 2; h++)
        if (checks[h].text) check_lines_unpack(checks[h].text, checks[h].n_text, &lines);
    ASSERT(check_facts_judge(&checks[0], NULL, &lines) == ERR_OK);
}

static void end(void)
{
    check_lines_free(&lines);
    for (int h = 0; h < 2; h++) mem_free(&checks[h].text);
}

static bool says(int host, const char *name, check_status_t status, const char *found)
{
    for (int64_t i = 0; i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        if (line->index != host || strcmp(line->name, name) != 0) continue;
        if (line->status == status && strcmp(line->found, found) == 0) return true;
        printf("# %s of %d: %s '%s'\n", name, host, check_status_names[line->status], line->found);
    }
    return false;
}

/* Writes HOST/FILE. */
static void put(const char *host, const char *file, const char *text)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%s", host, file);
    folder_put(name, text, strlen(text));
}

/* 4 cores of 2 threads in 2 sockets. */
static void put_host(const char *host)
{
    for (int cpu = 0; cpu < 8; cpu++) {
        char file[128], text[32];
        snprintf(file, sizeof file, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        snprintf(text, sizeof text, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        put(host, file, text);
        snprintf(file, sizeof file, "sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
        put(host, file, cpu % 4 < 2 ? "0\n" : "36\n");
    }
    put(host, "sys/devices/system/cpu/online", "0-7\n");
    put(host, "sys/devices/system/cpu/smt/control", "on\n");
    put(host, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    put(host, "sys/devices/system/node/has_cpu", "0-1\n");
    put(host, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    put(host, "sys/kernel/mm/transparent_hugepage/defrag", "always defer [never]\n");
    put(host, "proc/cpuinfo",
        "processor : 0\nvendor_id : GenuineIntel\nmodel name : Xeon\nmodel : 143\nmicrocode : 0x2b000603\n");
    put(host, "proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 5 kB\n");
    put(host, "proc/cmdline", "root=UUID=1 iommu=pt quiet mitigations=off\n");
    put(host, "proc/self/cgroup", "0::/job\n");
    put(host, "sys/fs/cgroup/job/cpu.max", "max 100000\n");
    put(host, "proc/sys/kernel/osrelease", "6.1.0-31\n");
    put(host, "proc/sys/net/core/rmem_max", "212992\n");
    put(host, "proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    put(host, "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5 22:23:56 UTC 2024\n");
}

static void test_machine(void)
{
    begin();
    for (int h = 0; h < 2; h++) machine_add_facts(&checks[h], folder_path("none"));
    judge();
    bool skipped = lines.n > 0;
    for (int64_t i = 0; i < lines.n; i++)
        skipped &= lines.line[i].status == CHECK_SKIP || strstr("CPU quota memory limit", lines.line[i].name);
    OK(skipped && says(0, "CPU quota", CHECK_OK, "none"), "what a kernel does not report is skipped");
    end();

    put_host("a");
    put_host("b");
    begin();
    machine_add_facts(&checks[0], folder_path("a"));
    machine_add_facts(&checks[1], folder_path("b"));
    judge();
    OK(says(0, "processors", CHECK_OK, "8 CPUs, 4 cores, 2 sockets, SMT on") &&
           says(0, "NUMA nodes", CHECK_OK, "2") && says(0, "CPU", CHECK_OK, "Xeon, GenuineIntel model 143") &&
           says(0, "microcode", CHECK_OK, "0x2b000603") && says(0, "memory", CHECK_OK, "16 GiB"),
       "hardware");
    OK(says(0, "huge pages", CHECK_OK, "madvise") &&
           says(0, "boot options", CHECK_OK, "iommu=pt mitigations=off") &&
           says(0, "kernel", CHECK_OK, "6.1.0-31") &&
           says(0, "kernel settings", CHECK_OK, "3 as they should be") &&
           says(0, "NVIDIA driver", CHECK_OK, "550.54.15"),
       "the kernel");
    OK(says(1, "CPU governor", CHECK_WARN, "powersave"), "powersave, even on all hosts");
    end();

    put("b", "sys/devices/system/cpu/online", "0-3\n");
    put("b", "sys/devices/system/cpu/smt/control", "forceoff\n");
    put("b", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    put("b", "sys/devices/system/node/has_cpu", "0-3\n");
    put("b", "sys/kernel/mm/transparent_hugepage/defrag", "always [defer] never\n");
    put("b", "proc/meminfo", "MemTotal:       15777216 kB\n");
    put("b", "proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t4194304\n");
    put("b", "sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    put("b", "sys/fs/cgroup/memory.max", "8589934592\n");
    put("b", "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n");
    begin();
    machine_add_facts(&checks[0], folder_path("a"));
    machine_add_facts(&checks[1], folder_path("b"));
    judge();
    OK(says(1, "processors", CHECK_WARN,
            "4 CPUs, 4 cores, 2 sockets, SMT off; node1 has 8 CPUs, 4 cores, 2 sockets, SMT on") &&
           says(1, "NUMA nodes", CHECK_FAIL, "4; node1 has 2") &&
           says(1, "memory", CHECK_WARN, "15 GiB; node1 has 16 GiB") &&
           says(1, "CPU governor", CHECK_WARN, "performance; node1 has powersave"),
       "other hardware");
    OK(says(1, "CPU quota", CHECK_FAIL, "2.5 CPUs; node1 has none") &&
           says(1, "memory limit", CHECK_WARN, "8.0 GiB; node1 has none"),
       "limits of control groups");
    OK(says(1, "kernel settings", CHECK_WARN,
            "net.ipv4.tcp_rmem: 4096 131072 4194304; node1 has 4096 131072 6291456") &&
           says(1, "kernel settings", CHECK_WARN,
                "/sys/kernel/mm/transparent_hugepage/defrag: defer; node1 has never") &&
           says(1, "NVIDIA driver", CHECK_WARN, "570.86.15, open kernel module; node1 has 550.54.15"),
       "other settings");
    end();

    put("a", "proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n");
    put("a", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
    put("a", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    put("a", "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    begin();
    machine_add_facts(&checks[0], folder_path("a"));
    judge();
    OK(says(0, "CPU quota", CHECK_OK, "1 CPU") && says(0, "memory limit", CHECK_OK, "none"), "of version 1");
    end();
}

static void test_cpus(void)
{
    for (int even = 0; even < 2; even++) {
        begin();
        options.expect_cpus = even ? 64 : 0;
        machine_add_cpus(&checks[0], 64, even);
        machine_add_cpus(&checks[1], 63, even);
        judge();
        OK(says(1, "usable CPUs", even ? CHECK_FAIL : CHECK_OK, even ? "63; node1 has 64" : "63") &&
               says(0, "usable CPUs", CHECK_OK, "64"),
           "CPUs of %s numbers of ranks", even ? "equal" : "other");
        OK(lines.n == (even ? 4 : 2) && (!even || (says(0, "expected CPUs", CHECK_OK, "64") &&
                                                   says(1, "expected CPUs", CHECK_FAIL, "63 instead of 64"))),
           "%s --expect-cpus", even ? "with" : "without");
        end();
    }
}

/* A map of a file of the folder; code is executable. */
static void map(char *maps, const char *rights, const char *file)
{
    const size_t n = strlen(maps);
    snprintf(maps + n, 4096 - n, "7f00-7f01 %s 00001000 fe:00 1234                       %s\n", rights,
             folder_path(file));
}

static void test_libraries(void)
{
    enum { LARGE = 40 << 20 };
    for (int h = 0; h < 2; h++) {
        char maps[4096] = "7ffe-7fff r-xp 00000000 00:00 0       [vdso]\n", *large;
        put("usr", "libsmall.so.1.2.3", h ? "other" : "bytes");
        put("usr", "mca_btl_tcp.so", "bytes");
        put("usr", "data.sound", "bytes");
        put("opt", "libsmall.so.1.2.3", "bytes");
        ASSERT(mem_new_array(LARGE, 1, "a library", &large) == ERR_OK);
        large[h * (LARGE - 1)] = 1;
        folder_put("usr/liblarge.so.2", large, LARGE);
        mem_free(&large);
        map(maps, "r--p", "usr/libsmall.so.1.2.3");
        map(maps, "r-xp", "usr/libsmall.so.1.2.3");
        map(maps, "r-xp", "usr/libsmall.so.1.2.3");
        map(maps, "r-xp", "opt/libsmall.so.1.2.3");
        map(maps, "r-xp", "usr/liblarge.so.2");
        map(maps, "r-xp", "usr/mca_btl_tcp.so");
        map(maps, "r-xp", "usr/data.sound");
        map(maps, "r--p", "usr/liboff.so.2");
        map(maps, "r-xp", h ? "usr/libgone.so.4 (deleted)" : "usr/libgone.so.4");
        folder_put("maps", maps, strlen(maps));
        if (h == 0) begin();
        OK(versions_add_libraries(&checks[h], folder_path("maps")) == ERR_OK, "the libraries of a process");
    }
    judge();
    OK(says(0, "libraries", CHECK_OK, "5 as they should be"), "code of shared libraries, each file once");
    int n_small = 0, n_large = 0, n_gone = 0, n_all = 0;
    for (int64_t i = 0; i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        if (line->index == 0 || line->status != CHECK_WARN) continue;
        printf("# %s\n", line->found);
        n_small += strstr(line->found, "libsmall.so.1 #2: libsmall.so.1.2.3 ") == line->found;
        n_large += strstr(line->found, "liblarge.so.2: ") == line->found;
        n_gone += strstr(line->found, "libgone.so.4: replaced after") == line->found;
        n_all++;
    }
    OK(n_small == 1 && n_large == 1 && n_gone == 1 && n_all == 3,
       "other bytes of the same version, at the end of a large file, and a file that was replaced");
    end();
}

int main(void)
{
    if (!folder_begin()) tap_skip_all("no folder can be made in /tmp");
    tap_plan(8 + 4 + 4 + 1);
    begin();
    test_machine();
    test_cpus();
    test_libraries();
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
