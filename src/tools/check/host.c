/* SPDX-License-Identifier: MIT */
/* The checks `host`: memory, /dev/shm, copies between ranks, resource limits, disk space; and `clock`. Reading
 * facts and judging them are separate, so that tests can supply facts. */
#include "tools/check/host.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cluster/comm/comm.h"
#include "cluster/hosts/machine.h"
#include "text/figure.h"
#include "tools/check/cases.h"

const char check_hung_advice[] = "a dead mount: check its server, then umount -f -l and mount again";

#define KB ((int64_t)1 << 10)
#define MB ((int64_t)1 << 20)
#define GB ((int64_t)1 << 30)

static int64_t limit_of(int resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) return -1;
    return limit.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)limit.rlim_cur;
}

static void read_space(const char *folder, int64_t *total, int64_t *left)
{
    struct statvfs info;
    bool known = statvfs(folder, &info) == 0;
    if (total) *total = known ? (int64_t)info.f_blocks * (int64_t)info.f_frsize : -1;
    *left = known ? (int64_t)info.f_bavail * (int64_t)info.f_frsize : -1;
}

/* The nearest folder above (or at) `path` that exists. */
static void existing_parent(const char *path, char out[FS_PATH_MAX])
{
    snprintf(out, FS_PATH_MAX, "%s", path);
    while (!fs_exists(out)) {
        char *slash = strrchr(out, '/');
        if (!slash || slash == out) {
            snprintf(out, FS_PATH_MAX, "%s", slash ? "/" : ".");
            return;
        }
        *slash = '\0';
    }
}

static int64_t read_swap(void)
{
    char line[128];
    long long total = -1, left = -1, value;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "SwapTotal: %lld", &value) == 1) total = value;
        if (sscanf(line, "SwapFree: %lld", &value) == 1) left = value;
    }
    if (file) fclose(file);
    return total < 0 || left < 0 ? -1 : KB * (total - left);
}

/* The folder of RDMA devices may exist but be empty, so this looks for ports. */
static bool has_rdma(void)
{
    machine_port_t ports[MACHINE_MAX_PORTS];
    return machine_ports(ports) > 0 && strchr(ports[0].name, ':');
}

/* Reads the facts of this host.
 *
 *   out  the folder of --out, which need not exist */
static void host_facts_read(const check_t *check, const char *out, host_facts_t *facts)
{
    char folder[FS_PATH_MAX];
    *facts = (host_facts_t){.n_ranks = check->comm->topo.local_size,
                            .size = check->comm->size,
                            .rdma = has_rdma(),
                            .copies = *peer_memory(),
                            .memory_free = machine_free_bytes(),
                            .memory_total = machine_memory_bytes(),
                            .swap_used = read_swap(),
                            .memlock = limit_of(RLIMIT_MEMLOCK),
                            .n_files = limit_of(RLIMIT_NOFILE),
                            .n_processes = limit_of(RLIMIT_NPROC),
                            .stack = limit_of(RLIMIT_STACK)};
    if (facts->memory_free == INT64_MAX) facts->memory_free = -1;
    read_space("/dev/shm", &facts->shm_total, &facts->shm_free);
    facts->out_hangs = process_probe(out, check->options->shared_timeout_sec) != ERR_OK;
    if (!facts->out_hangs) {
        existing_parent(out, folder);
        read_space(folder, NULL, &facts->out_free);
        facts->out_writable = access(folder, W_OK | X_OK) == 0;
    }
    read_space("/tmp", NULL, &facts->temp_free);
    facts->temp_writable = access("/tmp", W_OK | X_OK) == 0;
}

static void judge_host_memory(check_t *check, const host_facts_t *f)
{
    check_where_t where = check_host(check);
    int64_t share = f->memory_free / f->n_ranks;
    check_status_t status = share < 256 * MB ? CHECK_FAIL : share < GB ? CHECK_WARN : CHECK_OK;
    if (f->memory_free < 0) status = CHECK_SKIP;
    check_measured(check, where, "free memory", status,
                   "stop other programs on that host, or start fewer ranks",
                   check_more((double)f->memory_free), "%s of %s", figure_bytes((double)f->memory_free).text,
                   figure_bytes((double)f->memory_total).text);
    if (f->swap_used > 64 * MB)
        check_measured(check, where, "swap", CHECK_WARN,
                       "the host ran out of memory: stop other programs, then swapoff -a",
                       check_less((double)f->swap_used), "%s in use",
                       figure_bytes((double)f->swap_used).text);
    else
        check_line(check, where, "swap", f->swap_used < 0 ? CHECK_SKIP : CHECK_OK, NULL, "not in use");
}

/* Holds the segments of MPI's and NCCL's shared-memory transports, and gradient buffers. Docker's
 * default is 64 MB. */
static void judge_shm(check_t *check, const host_facts_t *f)
{
    static const char advice[] =
        "docker run --shm-size=1g or more (or --ipc=host); Kubernetes: an emptyDir of medium "
        "Memory at /dev/shm; otherwise mount -o remount,size=50% /dev/shm, and remove "
        "files that earlier jobs left in it";
    int64_t least = 16 * MB * f->n_ranks, enough = 128 * MB * f->n_ranks;
    check_status_t status = f->shm_free < least ? CHECK_FAIL : f->shm_free < enough ? CHECK_WARN : CHECK_OK;
    if (f->shm_total < 0)
        check_line(check, check_host(check), "/dev/shm", CHECK_FAIL, advice, "not mounted");
    else
        check_measured(check, check_host(check), "/dev/shm", status, advice, check_more((double)f->shm_free),
                       status == CHECK_OK ? "%s free" : "%s free of %s for %d ranks",
                       figure_bytes((double)f->shm_free).text, figure_bytes((double)f->shm_total).text,
                       f->n_ranks);
}

/* MPI then copies large messages between ranks of a host twice, through /dev/shm. */
static void judge_copies(check_t *check, const host_facts_t *f)
{
    if (!f->copies.refused)
        check_line(check, check_host(check), "memory copies", CHECK_OK, NULL, "from rank to rank");
    else if (f->n_ranks == 1)
        check_line(check, check_host(check), "memory copies", CHECK_OK, NULL, "none: one rank per host");
    else
        check_line(check, check_host(check), "memory copies", CHECK_WARN, f->copies.advice,
                   "slower, through /dev/shm: process_vm_readv is refused by %s", f->copies.cause);
}

/* A limit is judged alone, and compared with those of other hosts.
 *
 *   value  -1: unknown
 *   text   of a limited one */
static void add_limit(check_t *check, const char *name, int64_t value, check_status_t alone,
                      const char *advice, const char *text)
{
    const bool limited = value >= 0 && value < INT64_MAX;
    const check_fact_t fact = {.name = name,
                               .advice = advice,
                               .rule = CHECK_EQUAL,
                               .unequal = CHECK_WARN,
                               .alone = limited ? alone : CHECK_OK,
                               .value = limited ? (double)value : NAN,
                               .tolerance = 0.05}; /* -u depends on the memory */
    check_fact(check, check_host(check), &fact, "%s", limited ? text : value < 0 ? "" : "unlimited");
}

static void judge_limits(check_t *check, const host_facts_t *f)
{
    static const char raise_all[] =
        "set it as on the other hosts: /etc/security/limits.conf, and the service of sshd or slurmd";
    char text[96];
    /* Sockets to every rank; files of MPI, libraries and data. */
    const int64_t need = 256 + 4 * (int64_t)f->size;
    snprintf(text, sizeof text, "%" PRId64 " open files", f->n_files);
    add_limit(check, "ulimit -n", f->n_files, f->n_files < need ? CHECK_WARN : CHECK_OK,
              "raise nofile in /etc/security/limits.conf and in the service of sshd or slurmd", text);
    const check_status_t locked = f->rdma && f->memlock < GB ? CHECK_FAIL
                                  : f->memlock < 8 * MB      ? CHECK_WARN
                                                             : CHECK_OK;
    snprintf(text, sizeof text, "%s can be locked%s", figure_bytes((double)f->memlock).text,
             locked == CHECK_FAIL ? ", but RDMA needs more" : "");
    add_limit(check, "ulimit -l", f->memlock, locked,
              "RDMA needs locked memory: set memlock to unlimited in /etc/security/limits.conf and in the "
              "service of sshd or slurmd; docker run --ulimit memlock=-1",
              text);
    snprintf(text, sizeof text, "%" PRId64 " processes", f->n_processes);
    add_limit(check, "ulimit -u", f->n_processes, CHECK_OK, raise_all, text);
    add_limit(check, "ulimit -s", f->stack, CHECK_OK, raise_all, figure_bytes((double)f->stack).text);
}

static void judge_folder(check_t *check, const char *name, int64_t left, bool writable, bool needed)
{
    check_where_t where = check_host(check);
    check_status_t bad = needed ? CHECK_FAIL : CHECK_WARN;
    if (!writable)
        check_line(check, where, name, bad, "choose another folder, or fix its mount and owner",
                   "not writable");
    else
        check_measured(check, where, name,
                       left < 0          ? CHECK_SKIP
                       : left < 256 * MB ? bad
                       : left < 2 * GB   ? CHECK_WARN
                                         : CHECK_OK,
                       "remove old runs and logs, or choose another folder", check_more((double)left),
                       "%s free", figure_bytes((double)left).text);
}

void host_judge(check_t *check, const host_facts_t *f)
{
    judge_host_memory(check, f);
    judge_shm(check, f);
    judge_copies(check, f);
    judge_limits(check, f);
    /* Only rank 0 writes to --out. */
    if (check->host == 0 && f->out_hangs)
        check_line(check, check_host(check), "disk of --out", CHECK_FAIL, check_hung_advice,
                   "its file system does not respond");
    else if (check->host == 0)
        judge_folder(check, "disk of --out", f->out_free, f->out_writable, true);
    judge_folder(check, "disk of /tmp", f->temp_free, f->temp_writable, false);
}

static err_t host_run(check_t *check)
{
    host_facts_t facts;
    if (!check_host(check).speaks) return ERR_OK;
    host_facts_read(check, check->options->out ? check->options->out : "runs", &facts);
    host_judge(check, &facts);
    return ERR_OK;
}

const check_case_t check_host_case = {"host", "memory, /dev/shm, memory copies, limits, disks", false,
                                      host_run};

/* ---- The check `clock`: each host's offset from rank 0's wall clock, as measured by cluster/comm/comm.c ---- */
void clock_judge(check_t *check, double offset_sec, double error_sec)
{
    static const char advice[] = "start chrony or systemd-timesyncd on that host: times of files, logs and "
                                 "certificates are wrong";
    /* The least offset that the uncertainty allows. */
    double off = fmax(fabs(offset_sec) - error_sec, 0);
    check_status_t status = off > 60 ? CHECK_FAIL : off > 1 ? CHECK_WARN : CHECK_OK;
    /* A positive offset has to be added to this clock. */
    check_measured(check, check_host(check), "wall clock", status, advice, check_less(off),
                   "%.*f s %s rank 0's", off < 10 ? 3 : 0, fabs(offset_sec),
                   offset_sec > 0 ? "behind" : "ahead of");
}

static err_t clock_run(check_t *check)
{
    double offset, error;
    TRY(comm_clock_offset(check->comm, clock_unix_sec, &offset, &error));
    if (check->n_hosts == 1)
        check_line(check, check_job(check), "wall clock", CHECK_SKIP, NULL, "one host");
    else if (check->host != 0)
        clock_judge(check, offset, error);
    return ERR_OK;
}

const check_case_t check_clock = {"clock", "wall clocks of all hosts agree", true, clock_run};
