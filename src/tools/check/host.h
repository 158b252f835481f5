/* SPDX-License-Identifier: MIT */
/* Facts about hosts and GPUs and their judgement, which tests supply with facts. Private to src/tools/check. */
#ifndef TOOLS_CHECK_HOST_H
#define TOOLS_CHECK_HOST_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/process.h"
#include "tools/check/check.h"

/* ---- Programs that a check runs ---- */
/* Runs a program without input. Not collective. ERR_PEER: killed after timeout_sec. ERR_DATA: not found.
 *
 *   argv       NULL-terminated; the program is found on PATH
 *   out        receives the beginning of stdout and stderr, NUL-terminated
 *   exit_code  of the program, or 128 + signal */
err_t process_run(const char *const *argv, double timeout_sec, char *out, size_t n_bytes, int *exit_code);

/* Tests whether a path's file system responds. A dead network mount blocks any process that touches it,
 * so a separate process does. ERR_PEER: no response in time; do not touch the path. ERR_OK in all other
 * cases, even if the path is missing. */
err_t process_probe(const char *path, double timeout_sec);

/* ---- The host ---- */
/* In bytes; -1: unknown. */
typedef struct host_facts {
    int n_ranks; /* on this host */
    int size;    /* ranks of the job */
    bool rdma;   /* the host has InfiniBand or EFA devices */
    int64_t memory_free, memory_total, swap_used;
    int64_t memlock;            /* INT64_MAX: unlimited */
    int64_t n_files;            /* limit of open files */
    int64_t n_processes, stack; /* limits */
    int64_t shm_total, shm_free;
    int64_t out_free, temp_free;
    bool out_hangs; /* the file system of --out does not respond */
    bool out_writable, temp_writable;
    peer_memory_t copies;
} host_facts_t;

/* Adds a line about each fact. */
void host_judge(check_t *check, const host_facts_t *facts);

/* ---- The machine: hardware and kernel ---- */
/* Adds the facts of this host that ROOT/proc and ROOT/sys show; "": its own. */
void machine_add_facts(check_t *check, const char *root);
/* Adds the fact of the CPUs that the host's ranks may use, and judges it by --expect-cpus.
 *
 *   is_even  all hosts have the same number of ranks: otherwise the hosts are not compared */
void machine_add_cpus(check_t *check, int n_cpus, bool is_even);

/* ---- Libraries ---- */
/* Adds a fact about the bytes of each library that the process has mapped.
 *
 *   maps  /proc/self/maps, or a test's file */
err_t versions_add_libraries(check_t *check, const char *maps);

/* ---- Clocks ---- */
/* Adds a line about this host's clock. Not collective.
 *
 *   offset_sec  how far the clock is behind rank 0's
 *   error_sec   uncertainty of offset_sec */
void clock_judge(check_t *check, double offset_sec, double error_sec);

/* ---- Placement of ranks ---- */
/* Facts about one rank, exchanged between ranks. A core is identified by its first hardware thread. */
typedef struct topology_facts {
    int host;
    bool known; /* the affinity mask could be read */
    bool bound; /* to fewer CPUs than are online */
    int n_cpus; /* available to the rank */
    int n_host_cores, n_host_cpus;
    cpu_set_t cores; /* available to the rank */
    uint64_t nodes;  /* their NUMA nodes, as bits */
    int n_host_nodes;
    int gpu_node;     /* NUMA node of its GPU; -1: no GPU, or unknown */
    int gpu_distance; /* NUMA distance from the nearest of `nodes` to gpu_node (10: the same); 0: unknown */
} topology_facts_t;

/* Adds lines about this rank and, on local rank 0, its host.
 *
 *   all  [comm->size] */
void topology_judge(check_t *check, const topology_facts_t *all);

/* ---- Other work on the host ---- */
enum { LOAD_MAX_CULPRITS = 3, LOAD_MAX_LEFTOVERS = 16 };

typedef struct load_process {
    process_t at;      /* as of the snapshot */
    bool of_job, mine; /* a rank of this job or its launcher; of this user */
    double cpus;       /* CPUs that it used between two snapshots */
} load_process_t;

/* The state of the CPUs and processes at one moment. */
typedef struct load_snapshot {
    double sec;
    int64_t busy, stolen; /* ticks of the CPUs asked for; stolen -1: not reported */
    load_process_t *processes;
    int64_t n;
} load_snapshot_t;

/* Reads a snapshot; load_snapshot_free it.
 *
 *   proc  "/proc", or another folder for tests
 *   cpus  the CPUs that count
 *   pids  [n_pids]: the ranks of this job on this machine */
err_t load_snapshot_read(const char *proc, const cpu_set_t *cpus, const int *pids, int n_pids,
                         load_snapshot_t *out);
void load_snapshot_free(load_snapshot_t *snapshot);

/* Of one host. */
typedef struct load_facts {
    int n_cpus;     /* that the job's ranks may use */
    double busy;    /* of those, used by other processes while the ranks slept; -1: unknown */
    double average; /* the kernel's 1-minute load average; -1: unknown */
    double stolen;  /* share of the CPU time, while the ranks computed; -1: not reported */
    load_process_t culprits[LOAD_MAX_CULPRITS]; /* the processes that used most of `busy`, in that order */
    int n_culprits;
    load_process_t leftovers[LOAD_MAX_LEFTOVERS]; /* other dptrain processes of this user */
    int n_leftovers;                              /* all of them */
    double oldest_sec;                            /* age of the oldest of them */
} load_facts_t;

/* Sets busy, culprits and leftovers from two snapshots. */
void load_compare(const load_snapshot_t *before, load_snapshot_t *after, const cpu_set_t *cpus,
                  load_facts_t *facts);

/* Adds lines about this host. */
void load_judge(check_t *check, const load_facts_t *facts);
/* Adds the line about this rank.
 *
 *   got   share of a CPU that it got while it computed
 *   fair  its share if nothing else ran */
void load_judge_rank(check_t *check, double got, double fair);

/* ---- Speed ---- */
/* Marks the values that are more than CHECK_SLOW below the upper median of their kind; returns their number.
 *
 *   values   [n], as are all; NAN: not measured
 *   scratch  of the function */
int speed_suspects(const double *values, const uint64_t *kinds, int n, double *scratch, bool *suspect);

typedef struct speed_cpu {
    int cpu;
    double rate; /* FLOP/s */
} speed_cpu_t;

/* Adds a line about this rank's CPUs: names the slowest if it is more than CHECK_SLOWER below their median.
 *
 *   n        at least 1
 *   scratch  [n] */
void speed_judge_cpus(check_t *check, const speed_cpu_t *cpus, int n, double *scratch);

typedef struct speed_burn {
    int64_t n_products, n_wrong;
    double first, last; /* FLOP/s in the first and the last third */
} speed_burn_t;

/* Adds a line about this rank's burn-in. */
void speed_judge_burn(check_t *check, const speed_burn_t *burn);

/* ---- GPU health ---- */
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

/* Parses the output of the query (csv, noheader, nounits). ERR_DATA quotes an unexpected line. */
err_t smi_parse(const char *text, smi_gpu_t gpus[SMI_MAX_GPUS], int *n);

/* Adds a line for each fault of each GPU, or one CHECK_OK line per part without faults. */
void smi_judge(check_t *check, const smi_gpu_t *gpus, int n);

/* ---- Other work on the GPUs ---- */
enum { SMI_MAX_APPS = 256 };

/* A process with a context on a GPU. */
typedef struct smi_app {
    char uuid[48]; /* as in smi_gpu_t */
    int pid;       /* within a container, possibly the number outside */
    bool visible;  /* a process of this number exists here */
    double memory; /* bytes; -1: not reported */
    char name[64];
} smi_app_t;

/* A rank on this host. */
typedef struct smi_rank {
    char uuid[48]; /* of its GPU; "": none */
    int pid;
} smi_rank_t;

/* Parses the output of the query (csv, noheader, nounits). ERR_DATA quotes an unexpected line. */
err_t smi_apps_parse(const char *text, smi_app_t apps[SMI_MAX_APPS], int *n);

/* Adds a line for each of the ranks' GPUs with other processes, computations or memory in use, or one CHECK_OK
 * line. In a container, processes of unknown numbers count only beyond the number of ranks on the GPU.
 *
 *   n_apps  -1: unknown */
typedef struct smi_use {
    const smi_gpu_t *gpus;
    const smi_app_t *apps;
    const smi_rank_t *ranks;
    int n_gpus, n_apps, n_ranks;
} smi_use_t;
void smi_judge_use(check_t *check, const smi_use_t *use);

/* ---- The shared folder ---- */
/* Reference hosts look for the files of all hosts, and all hosts look for theirs. Up to SHARED_ALL
 * hosts, every host is one; beyond, only 3 are, because n² look-ups would overload a file server. */
enum { SHARED_ALL = 32 };
bool shared_is_reference(int host, int n_hosts);

/* The reference host that shares its folder with most hosts. Hosts that do not share it with this one are
 * reported.
 *
 *   seen  [n_hosts × n_hosts]: the row's host has seen the file of the column's */
int shared_find_root(const bool *seen, int n_hosts);
/* Whether two hosts, at least one of them a reference, see each other's files. */
bool shared_mutual(const bool *seen, int n_hosts, int a, int b);

/* ---- nvidia-smi ---- */
/* Copies "GPU-1b2c3d4e-…", keeping only the first dash. */
void smi_plain_uuid(const char *text, char *out, size_t n_bytes);
/* Runs nvidia-smi. ERR_DATA: not installed. ERR_PEER: no response in time. ERR_SYSTEM: quotes its error. */
err_t smi_query(double timeout_sec, smi_gpu_t gpus[SMI_MAX_GPUS], int *n);

/* ---- Links and corrected memory errors of GPUs ---- */
/* Numbers that are not reported are -1. */
typedef struct smi_detail {
    int index;
    char name[64];
    bool full_clocks;                   /* performance state P0: the PCIe link is not slowed to save power */
    int gen, gen_max, width, width_max; /* of the PCIe link: now, and at most with this GPU in its slot */
    int64_t corrected;                  /* ECC errors since the driver was loaded */
    int64_t rows;                       /* of memory, remapped over the lifetime */
} smi_detail_t;

/* Parses the output of the query (csv, noheader, nounits). ERR_DATA quotes an unexpected line. */
err_t smi_detail_parse(const char *text, smi_detail_t gpus[SMI_MAX_GPUS], int *n);
/* Adds lines about PCIe and ECC.
 *
 *   hours  in which the corrected errors occurred */
void smi_judge_detail(check_t *check, const smi_detail_t *gpus, int n, double hours);

typedef struct smi_nvlink {
    int index;
    char name[64];
    int n_links, n_active; /* 0: no NVLink, or all inactive */
    char inactive[48];     /* "4, 7" */
} smi_nvlink_t;

/* Parses the output of `nvidia-smi nvlink --status`. ERR_DATA quotes an unexpected line about a link. */
err_t smi_nvlink_parse(const char *text, smi_nvlink_t gpus[SMI_MAX_GPUS], int *n);
/* Adds a line about each GPU with fewer links than others of its model or, on a board, than it has; or one about all. */
void smi_judge_nvlink(check_t *check, const smi_nvlink_t *gpus, int n);

/* Reads and judges both. What this nvidia-smi does not report is skipped. */
void smi_report_links(check_t *check);

/* ---- Xid errors: what NVIDIA's driver reports in the kernel log ---- */
enum { XID_MAX = 128 };

/* Errors of one number of one GPU. */
typedef struct xid_count {
    char gpu[20]; /* its PCI address: "0000:3b:00" */
    int number, n;
} xid_count_t;

typedef struct xid_log {
    xid_count_t count[XID_MAX];
    int n;
} xid_log_t;

/* Parses the output of dmesg; takes no other line than the driver's. */
void xid_parse(const char *text, xid_log_t *out);
/* Adds a line about each GPU with errors that programs do not cause, or one CHECK_OK line. */
void xid_judge(check_t *check, const xid_log_t *log);
/* Reads and judges the log, since boot or the last `dmesg --clear`. */
void xid_report(check_t *check);

#endif
