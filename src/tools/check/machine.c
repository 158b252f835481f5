/* SPDX-License-Identifier: MIT */
/* The check `machine`: facts of each host's hardware and kernel, which should be the same on all. What makes all ranks wait or
 * breaks jobs fails; what merely differs is a warning. */
#include <ctype.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "cluster/hosts/machine.h"
#include "cluster/hosts/topo.h"
#include "text/figure.h"
#include "tools/check/cases.h"
#include "tools/check/host.h"

/* ---- Properties of a host ---- */
enum { TEXT_MAX = 512 };

typedef struct source {
    const char *root;
    machine_cpu_t cpu;
    machine_layout_t layout;
    machine_group_limits_t limits;
} source_t;

/* A kernel's file with one setting: "madvise", or of several the chosen one, "always [madvise] never". */
static void read_setting(const char *path, char out[TEXT_MAX])
{
    fs_read_line(path, out, TEXT_MAX);
    const char *open = strchr(out, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close) return;
    const size_t n = (size_t)(close - open - 1);
    memmove(out, open + 1, n);
    out[n] = '\0';
}

static double read_processors(const source_t *from, const char *path, char out[TEXT_MAX])
{
    const machine_layout_t *l = &from->layout;
    char smt[32] = "";
    int used = 0;
    fs_read_line(path, smt, sizeof smt);
    if (l->cpus == 0) return NAN;
    used += snprintf(out, TEXT_MAX, "%d CPU%s, %d core%s", l->cpus, l->cpus == 1 ? "" : "s", l->cores,
                     l->cores == 1 ? "" : "s");
    if (l->sockets)
        used += snprintf(out + used, TEXT_MAX - (size_t)used, ", %d socket%s", l->sockets,
                         l->sockets == 1 ? "" : "s");
    /* Otherwise it is not supported. */
    if (strcmp(smt, "on") == 0 || strcmp(smt, "off") == 0 || strcmp(smt, "forceoff") == 0)
        snprintf(out + used, TEXT_MAX - (size_t)used, ", SMT %s",
                 smt + (strcmp(smt, "forceoff") == 0 ? 5 : 0));
    return NAN;
}

static double read_cpu(const source_t *from, const char *path, char out[TEXT_MAX])
{
    (void)path;
    snprintf(out, TEXT_MAX, "%s%s%s", from->cpu.name, from->cpu.type[0] ? ", " : "", from->cpu.type);
    return NAN;
}

static double read_microcode(const source_t *from, const char *path, char out[TEXT_MAX])
{
    (void)path;
    snprintf(out, TEXT_MAX, "%s", from->cpu.microcode);
    return NAN;
}

static double read_nodes(const source_t *from, const char *path, char out[TEXT_MAX])
{
    (void)path;
    if (from->layout.nodes > 0) snprintf(out, TEXT_MAX, "%d", from->layout.nodes);
    return NAN;
}

static double read_memory(const source_t *from, const char *path, char out[TEXT_MAX])
{
    char line[128];
    double kb;
    (void)from;
    if (!fs_read_line(path, line, sizeof line) || sscanf(line, "MemTotal: %lf", &kb) != 1) return NAN;
    snprintf(out, TEXT_MAX, "%s", figure_bytes(1024 * kb).text);
    return 1024 * kb;
}

static double read_quota(const source_t *from, const char *path, char out[TEXT_MAX])
{
    const double cpus = from->limits.cpus;
    (void)path;
    if (cpus < INFINITY)
        snprintf(out, TEXT_MAX, "%g CPU%s", cpus, cpus == 1 ? "" : "s");
    else
        snprintf(out, TEXT_MAX, "none");
    return NAN;
}

/* Version 1 of control groups writes no limit as a number beyond all memory. */
static double read_memory_limit(const source_t *from, const char *path, char out[TEXT_MAX])
{
    const bool none = from->limits.memory_bytes >= INT64_MAX >> 1;
    (void)path;
    snprintf(out, TEXT_MAX, "%s", none ? "none" : figure_bytes((double)from->limits.memory_bytes).text);
    return NAN;
}

/* Words of the kernel's command line that change speed; others name disks and consoles. */
static double read_boot_options(const source_t *from, const char *path, char out[TEXT_MAX])
{
    static const char *const names[] = {
        "mitigations",
        "nosmt",
        "isolcpus",
        "nohz_full",
        "rcu_nocbs",
        "intel_pstate",
        "amd_pstate",
        "intel_idle.max_cstate",
        "processor.max_cstate",
        "idle",
        "clocksource",
        "tsc",
        "iommu",
        "intel_iommu",
        "amd_iommu",
        "pcie_aspm",
        "pci",
        "numa",
        "numa_balancing",
        "transparent_hugepage",
        "default_hugepagesz",
        "hugepagesz",
        "hugepages",
        "maxcpus",
        "nr_cpus",
        "mem",
        "preempt",
        "nmi_watchdog",
    };
    char line[4096], *rest;
    (void)from;
    if (!fs_read_line(path, line, sizeof line)) return NAN;
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const size_t used = strlen(out), n = strcspn(word, "=");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == n && memcmp(names[i], word, n) == 0)
                snprintf(out + used, TEXT_MAX - used, "%s%s", used ? " " : "", word);
    }
    if (!out[0]) snprintf(out, TEXT_MAX, "none");
    return NAN;
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build …": the first word with a point. */
static double read_driver(const source_t *from, const char *path, char out[TEXT_MAX])
{
    char line[TEXT_MAX], *rest;
    (void)from;
    if (!fs_read_line(path, line, sizeof line)) return NAN;
    const char *kind = strstr(line, "Open Kernel Module") ? ", open kernel module" : "";
    for (char *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
        if (isdigit((unsigned char)word[0]) && strchr(word, '.') && !out[0])
            snprintf(out, TEXT_MAX, "%.64s%s", word, kind);
    return NAN;
}

static const char same_kernel[] = "update the hosts to the same kernel";
static const char same_bios[] = "set its BIOS as on the other hosts, or look for failed hardware";
static const char same_limits[] =
    "start the job in the same way on all hosts: the same service, docker or Slurm options";

static const struct property {
    const char *name, *file;
    /* NULL: read_setting. Leaves `out` empty where the host has none; returns the value to compare, or NAN. */
    double (*read)(const source_t *from, const char *path, char out[TEXT_MAX]);
    check_status_t unequal;
    const char *advice;
    double tolerance;
    const char *poor; /* a value that is a warning even where all hosts have it */
} properties[] = {
    {"processors", "sys/devices/system/cpu/smt/control", read_processors, CHECK_WARN, same_bios, 0, NULL},
    {"CPU", "", read_cpu, CHECK_WARN, "all ranks wait for the slowest; exclude hosts that differ", 0, NULL},
    {"microcode", "", read_microcode, CHECK_WARN,
     "update the BIOS or the package of the CPU's microcode; its revisions differ in speed", 0, NULL},
    {"NUMA nodes", "", read_nodes, CHECK_FAIL,
     "set the same NUMA nodes per socket in its BIOS (NPS, SNC): ranks are bound by them", 0, NULL},
    /* Firmware and kernels keep different parts for themselves. */
    {"memory", "proc/meminfo", read_memory, CHECK_WARN,
     "look for a failed module (dmidecode -t memory, or the log of the BMC)", 0.02, NULL},
    {"CPU quota", "", read_quota, CHECK_FAIL, same_limits, 0, NULL},
    {"memory limit", "", read_memory_limit, CHECK_WARN, same_limits, 0, NULL},
    {"CPU governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", NULL, CHECK_WARN,
     "cores may stay slow: cpupower frequency-set -g performance", 0, "powersave"},
    {"huge pages", "sys/kernel/mm/transparent_hugepage/enabled", NULL, CHECK_WARN,
     "write the same word to /sys/kernel/mm/transparent_hugepage/enabled on all hosts", 0, NULL},
    {"kernel", "proc/sys/kernel/osrelease", NULL, CHECK_WARN, same_kernel, 0, NULL},
    {"boot options", "proc/cmdline", read_boot_options, CHECK_WARN,
     "give all hosts the same kernel command line (GRUB_CMDLINE_LINUX)", 0, NULL},
    {"NVIDIA driver", "proc/driver/nvidia/version", read_driver, CHECK_WARN,
     "install the same driver on all hosts", 0, NULL},
};

/* Of MPI, NCCL, the network and memory. A kernel or container without one leaves it out. */
static const char sysctl_folder[] = "proc/sys/";
static const char *const settings[] = {
    "proc/sys/net/core/rmem_max",
    "proc/sys/net/core/wmem_max",
    "proc/sys/net/core/netdev_max_backlog",
    "proc/sys/net/core/somaxconn",
    "proc/sys/net/core/busy_poll",
    "proc/sys/net/core/default_qdisc",
    "proc/sys/net/ipv4/tcp_rmem",
    "proc/sys/net/ipv4/tcp_wmem",
    "proc/sys/net/ipv4/tcp_congestion_control",
    "proc/sys/net/ipv4/tcp_mtu_probing",
    "proc/sys/net/ipv4/tcp_slow_start_after_idle",
    "proc/sys/net/ipv4/ip_local_port_range",
    "proc/sys/net/ipv4/neigh/default/gc_thresh3",
    "proc/sys/net/ipv4/conf/all/rp_filter",
    "proc/sys/net/ipv4/conf/all/arp_ignore",
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/zone_reclaim_mode",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/nr_hugepages",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/yama/ptrace_scope",
    "proc/sys/kernel/pid_max",
    "proc/sys/kernel/nmi_watchdog",
    "proc/sys/kernel/sched_rt_runtime_us",
    "sys/kernel/mm/transparent_hugepage/defrag",
};

static void add_settings(check_t *check, const char *root)
{
    const size_t prefix = strlen(sysctl_folder);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char path[FS_PATH_MAX], text[TEXT_MAX] = "", item[64];
        const bool is_sysctl = strncmp(settings[i], sysctl_folder, prefix) == 0;
        snprintf(path, sizeof path, "%s/%s", root, settings[i]);
        read_setting(path, text);
        if (!text[0]) continue;
        /* "net.core.rmem_max", "/sys/kernel/mm/…" */
        snprintf(item, sizeof item, "%s", is_sysctl ? settings[i] + prefix : path + strlen(root));
        for (char *at = item; is_sysctl && *at; at++)
            if (*at == '/') *at = '.';
        const check_fact_t fact = {.name = "kernel settings",
                                   .item = item,
                                   .rule = CHECK_EQUAL,
                                   .unequal = CHECK_WARN,
                                   .advice =
                                       "set it as on the other hosts: sysctl -w, and a file in /etc/sysctl.d",
                                   .value = NAN};
        check_fact(check, check_host(check), &fact, "%s", text);
    }
}

void machine_add_facts(check_t *check, const char *root)
{
    source_t from = {.root = root};
    char path[FS_PATH_MAX], groups[FS_PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    FILE *cpuinfo = fopen(path, "re");
    if (cpuinfo) {
        machine_cpu_read(cpuinfo, &from.cpu);
        fclose(cpuinfo);
    }
    machine_layout_read(root, &from.layout);
    snprintf(groups, sizeof groups, "%s/proc/self/cgroup", root);
    snprintf(path, sizeof path, "%s/sys/fs/cgroup", root);
    machine_group_limits(groups, path, &from.limits);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        const struct property *p = &properties[i];
        char text[TEXT_MAX] = "";
        double value = NAN;
        snprintf(path, sizeof path, "%s/%s", root, p->file);
        if (p->read)
            value = p->read(&from, path, text);
        else
            read_setting(path, text);
        const check_fact_t fact = {.name = p->name,
                                   .rule = CHECK_EQUAL,
                                   .unequal = p->unequal,
                                   .alone = p->poor && strcmp(text, p->poor) == 0 ? CHECK_WARN : CHECK_OK,
                                   .advice = p->advice,
                                   .value = value,
                                   .tolerance = p->tolerance};
        check_fact(check, check_host(check), &fact, "%s", text);
    }
    add_settings(check, root);
}

/* ---- CPUs that the job's ranks may use, and --expect-cpus ---- */
void machine_add_cpus(check_t *check, int n_cpus, bool is_even)
{
    const int expected = (int)check->options->expect_cpus;
    static const char advice[] =
        "all ranks wait for the slowest: look for taskset, a cpuset (docker --cpuset-cpus, "
        "Slurm), CPUs that are offline, other slots or binding of mpirun";
    /* Of the job: mpirun binds ranks, so that a host with more of them has more CPUs. */
    const check_fact_t fact = {.name = "usable CPUs",
                               .rule = CHECK_SAME,
                               .unequal = is_even ? CHECK_FAIL : CHECK_OK,
                               .advice = advice,
                               .value = NAN};
    check_fact(check, check_host(check), &fact, n_cpus > 0 ? "%d" : "", n_cpus);
    if (expected == 0) return;
    check_line(check, check_host(check), "expected CPUs", n_cpus == expected ? CHECK_OK : CHECK_FAIL, advice,
               n_cpus == expected ? "%d" : "%d instead of %d", n_cpus, expected);
}

static err_t machine_run(check_t *check)
{
    const comm_t *comm = check->comm;
    cpu_set_t together;
    if (!check_host(check).speaks) return ERR_OK;
    CPU_ZERO(&together);
    for (int r = 0; r < comm->size; r++)
        if (check->ranks[r].host == check->host) CPU_OR(&together, &together, &check->ranks[r].cpus);
    const int n_cpus = CPU_COUNT(&together) > 0 ? CPU_COUNT(&together) : topo_cpus();
    machine_add_cpus(check, n_cpus, comm->size == check->n_hosts * comm->topo.max_local_size);
    machine_add_facts(check, "");
    return ERR_OK;
}

const check_case_t check_machine = {"machine", "same CPUs, memory, limits and kernel settings on all hosts",
                                    false, machine_run};
