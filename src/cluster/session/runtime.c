/* SPDX-License-Identifier: MIT */
/* Options of every collective command, and its start and end: communicator, backend, threads, and the slowdown that a
 * hidden option injects. The work between them is left to the command. */
#include "cluster/session/runtime.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/version.h"
#include "cluster/comm/device.h"
#include "cluster/session/signals.h"
#include "cluster/watch/deadline.h"
#include "cluster/watch/watchdog.h"
#include "store/h5/file.h"
#include "text/opt.h"

static const char *const switches[] = {"auto", "on", "off", NULL};
static const char *const wires[] = {"fp32", "bf16", NULL};

#define FIELD(name) offsetof(runtime_options_t, name)
const opt_t runtime_option_table[] = {
    {"device", OPT_CHOICE, FIELD(device), "auto", 0, 0, backend_names, NULL, "compute backend", OPT_MORE},
    {"comm", OPT_CHOICE, FIELD(comm), "auto", 0, 0, comm_names, NULL, "communication backend", OPT_MORE},
    {"threads", OPT_INT, FIELD(threads), "0", 0, 4096, NULL, "N",
     "CPU threads per rank; 0: an equal share of the available CPUs; train takes fewer for small models that "
     "gain little from more",
     OPT_MORE},
    {"timeout", OPT_REAL, FIELD(timeout_sec), "300", 1, 86400, NULL, "SEC",
     "deadline of every wait, in seconds", OPT_MORE},
    {"stall-warning", OPT_REAL, FIELD(stall_sec), "60", 0, 86400, NULL, "SEC",
     "warn when ranks have waited this long, naming those that are missing; 0: never", OPT_MORE},
    {"allreduce", OPT_CHOICE, FIELD(allreduce), "auto", 0, 0, comm_allreduce_names, NULL,
     "gradient allreduce on the CPU: host: through shared memory; mpi: MPI_Allreduce; auto: the faster, "
     "measured at startup",
     OPT_MORE},
    {"ranks-per-host", OPT_INT, FIELD(ranks_per_host), "0", 0, 4096, NULL, "N",
     "treat each host as several hosts of N ranks", OPT_HIDDEN},
    {"burn", OPT_STRING, FIELD(slowdown), NULL, 0, 0, NULL, "PHASE:SHARE[@RANK]",
     "injected slowdown: relative time to waste in one phase", OPT_HIDDEN},
};
const int n_runtime_options = sizeof runtime_option_table / sizeof runtime_option_table[0];

const opt_t gpu_option_table[] = {
    {"gpus", OPT_STRING, FIELD(gpus), NULL, 0, 0, NULL, "LIST",
     "GPUs for the ranks of a host, in order, such as 0,2 [0,1,2,…]", OPT_MORE},
    {"share-gpu", OPT_FLAG, FIELD(share_gpu), "false", 0, 0, NULL, NULL,
     "allow several ranks per GPU; gradients then go through host memory, except with --comm nccl", OPT_MORE},
    {"workspace", OPT_SIZE, FIELD(workspace), "1G", 1 << 20, 1e12, NULL, "SIZE",
     "maximum GPU workspace per operator", OPT_MORE},
    {"bucket", OPT_SIZE, FIELD(bucket), "auto", 1 << 20, 128 << 20, NULL, "SIZE",
     "size of the gradient buckets that NCCL sums during the backward pass", OPT_MORE},
    {"cuda-graph", OPT_CHOICE, FIELD(cuda_graph), "auto", 0, 0, switches, NULL,
     "record each step as a CUDA graph and launch it in one call", OPT_MORE},
    {"wire", OPT_CHOICE, FIELD(wire), "fp32", 0, 0, wires, NULL,
     "number format of gradients in NCCL's allreduce", OPT_MORE},
    {"nccl-register", OPT_FLAG, FIELD(nccl_register), "true", 0, 0, NULL, NULL,
     "register gradient buffers with NCCL, if it supports that", OPT_MORE},
};
const int n_gpu_options = sizeof gpu_option_table / sizeof gpu_option_table[0];

static void (*abort_hook)(err_t code);

/* A process that a signal ends is left to finish its last acts. */
static void abort_unless_interrupted(err_t code)
{
    interrupt_wait();
    watchdog_say_goodbye();
    abort_hook(code);
}

typedef struct cpu_entry {
    int host;
    cpu_set_t allowed;
} cpu_entry_t;

/* Divides the CPUs of a host equally among its ranks: ranks bound to disjoint cores keep those, unbound ranks
 * split what their host allows. */
static err_t fair_threads(comm_t *comm, int *allowed, int *fair, int *on_host)
{
    cpu_entry_t mine = {.host = comm->topo.host};
    if (sched_getaffinity(0, sizeof mine.allowed, &mine.allowed) != 0) {
        CPU_ZERO(&mine.allowed);
        CPU_SET(0, &mine.allowed);
    }
    cpu_entry_t *all;
    TRY(mem_new_array(comm->size, sizeof *all, "CPU masks", &all));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, "sharing CPU masks");
    cpu_set_t host_cpus;
    CPU_ZERO(&host_cpus);
    for (int r = 0; err == ERR_OK && r < comm->size; r++)
        if (all[r].host == mine.host) CPU_OR(&host_cpus, &host_cpus, &all[r].allowed);
    mem_free(&all);
    TRY(err);
    /* A simulated host has a CPU for each rank. */
    *allowed = comm->topo.simulated ? 1 : CPU_COUNT(&mine.allowed);
    *on_host = comm->topo.simulated ? comm->topo.local_size : CPU_COUNT(&host_cpus);
    *fair = *on_host / comm->topo.local_size;
    if (*fair > *allowed) *fair = *allowed;
    if (*fair < 1) *fair = 1;
    return ERR_OK;
}

/* Refuses options for libraries between GPUs on a device other than a GPU. */
static err_t refuse_library(const runtime_options_t *options, const runtime_t *runtime)
{
    const char *device = runtime->backend->name, *why = runtime->why, *colon = why[0] ? ": " : "";
    if (comm_needs_device(options->comm))
        RAISE(ERR_USAGE, "--comm %s requires GPUs, but the device is %s%s%s; use --comm mpi", options->comm,
              device, colon, why);
    if (strcmp(options->wire, "fp32") != 0)
        RAISE(ERR_USAGE, "--wire %s applies to NCCL between GPUs, but the device is %s%s%s; use --wire fp32",
              options->wire, device, colon, why);
    return ERR_OK;
}

err_t runtime_use_device(comm_t *comm, const backend_t *backend)
{
    const backend_device_t *device = backend->device ? backend->device() : NULL;
    if (!device) return ERR_OK;
    comm_device_t gpu = {.index = device->index,
                         .uuid = device->uuid,
                         .name = device->name,
                         .pci = device->pci,
                         .stream = device->stream,
                         .narrow = backend->narrow,
                         .widen = backend->widen};
    return comm_use_device(comm, &gpu);
}

static err_t open_backend(const runtime_options_t *options, runtime_t *out)
{
    TRY(fair_threads(out->comm, &out->n_allowed_cpus, &out->n_cpus, &out->n_host_cpus));
    out->n_threads = options->threads > 0 ? (int)options->threads : out->n_cpus;
    if (out->n_threads > out->n_allowed_cpus)
        log_warn("--threads %d exceeds the %d CPUs that this rank may use: expect lower speed",
                 out->n_threads, out->n_allowed_cpus);
    backend_options_t backend = {.n_threads = out->n_threads,
                                 .local_rank = out->comm->topo.local_rank,
                                 .gpus = options->gpus,
                                 .workspace_bytes = options->workspace};
    if (out->backend->open) TRY(out->backend->open(&backend));
    out->backend->describe(out->device, sizeof out->device);
    return out->backend->device && out->backend->device() ? ERR_OK : refuse_library(options, out);
}

/* The choice of --device auto on one rank, and the reason. */
typedef struct auto_choice {
    char name[16], why[BACKEND_WHY_MAX];
} auto_choice_t;

/* Collective. A host that lost its GPUs must not silently compute on the CPU and slow the others down. */
static err_t compare_devices(runtime_t *out)
{
    auto_choice_t mine = {0}, *all;
    snprintf(mine.name, sizeof mine.name, "%s", out->backend->name);
    snprintf(mine.why, sizeof mine.why, "%s", out->why);
    TRY(mem_new_array(out->comm->size, sizeof *all, "devices", &all));
    err_t err = comm_allgather(out->comm, &mine, sizeof mine, all, "comparing devices");
    int without = -1;
    bool differ = false;
    for (int r = 0; err == ERR_OK && r < out->comm->size; r++) {
        differ |= strcmp(all[r].name, all[0].name) != 0;
        if (without < 0 && strcmp(all[r].name, "cpu") == 0) without = r;
    }
    if (differ && without == out->comm->rank)
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "--device auto: other ranks have a GPU, this one does not: %s; repair it, leave the host out, "
            "or use --device cpu",
            out->why);
    mem_free(&all);
    return comm_agree(out->comm, err, "comparing devices");
}

/* Ranks that wait for this one name its reader. */
static void note_blocked(bool begins)
{
    static char text[WATCHDOG_TEXT];
    if (!thread_is_main()) return;
    if (begins) snprintf(text, sizeof text, "printing: its output is not being read");
    watchdog_swap_phase(text);
}

/* The launcher says by DPTRAIN_HOSTS on how many hosts it has started ranks. */
static err_t check_hosts(const comm_t *comm)
{
    const char *text = getenv("DPTRAIN_HOSTS");
    const long wanted = text ? strtol(text, NULL, 10) : 0;
    if (comm->topo.size < wanted || comm->topo.n_hosts >= wanted || comm->topo.simulated) return ERR_OK;
    RAISE(
        ERR_SYSTEM,
        "the ranks are on %d host%s, and the list has %ld: mpirun takes names that lead to one host, or are alike to it, for "
        "one; give each host one name that no other has",
        comm->topo.n_hosts, comm->topo.n_hosts == 1 ? "" : "s", wanted);
}

err_t runtime_open_comm(const runtime_options_t *options, void (*abort_job)(err_t code), runtime_t *out)
{
    *out = (runtime_t){0};
    abort_hook = abort_job;
    log_set_blocked(note_blocked);
    comm_options_t comm_options = {.name = options->comm,
                                   .timeout_sec = options->timeout_sec,
                                   .stall_sec = options->stall_sec,
                                   .allreduce = options->allreduce,
                                   .share_gpu = options->share_gpu,
                                   .nccl_register = options->nccl_register,
                                   .wire_bf16 = strcmp(options->wire, "bf16") == 0,
                                   .ranks_per_host = (int)options->ranks_per_host,
                                   .abort_job = abort_unless_interrupted};
    TRY(comm_open(&comm_options, &out->comm));
    return comm_agree(out->comm, check_hosts(out->comm), "start-up");
}

/* Of a step; and of bench, the names of its cases. */
static const char *const phases[] = {"data", "forward", "backward", "allreduce", "optimizer",
                                     "comm", "gemm",    "conv",     "mem",       "io"};
enum { N_PHASES = sizeof phases / sizeof *phases };

/* Parses PHASE:SHARE or PHASE:SHARE@RANK, such as "backward:0.05"; NULL: none. */
static err_t slowdown_parse(const char *text, slowdown_t *out)
{
    *out = (slowdown_t){0};
    if (!text) return ERR_OK;
    const char *colon = strchr(text, ':');
    char *end = NULL;
    out->rank = -1;
    if (colon) out->share = strtod(colon + 1, &end);
    bool valid = colon && end > colon + 1 && out->share > 0 && out->share <= 1e9;
    if (valid && *end == '@') {
        const char *digits = end + 1;
        const long rank = strtol(digits, &end, 10);
        valid = end > digits && rank >= 0 && rank < INT_MAX;
        out->rank = (int)rank;
    }
    if (!valid || *end)
        RAISE(ERR_USAGE, "invalid --burn '%s': expected PHASE:SHARE such as backward:0.05", text);
    char phase[32];
    snprintf(phase, sizeof phase, "%.*s", (int)(colon - text), text);
    for (int i = 0; i < N_PHASES; i++)
        if (strcmp(phase, phases[i]) == 0) out->phase = phases[i];
    if (out->phase) return ERR_OK;
    const char *nearest = opt_nearest(phase, phases, N_PHASES);
    RAISE(ERR_USAGE, "--burn: unknown phase '%s'; did you mean %s?", phase, nearest ? nearest : phases[0]);
}

err_t runtime_open_backend(const runtime_options_t *options, runtime_t *out)
{
    TRY(comm_agree(out->comm, backend_find(options->device, &out->backend, out->why), "choosing the device"));
    if (strcmp(options->device, "auto") == 0) TRY(compare_devices(out));
    err_t err = slowdown_parse(options->slowdown, &out->slowdown);
    if (out->slowdown.phase && out->slowdown.rank >= 0 && out->slowdown.rank != out->comm->rank)
        out->slowdown.share = 0; /* the phase stays: ranks must agree on whether steps run ahead */
    TRY(comm_agree(out->comm, err == ERR_OK ? open_backend(options, out) : err, "start-up"));
    return runtime_use_device(out->comm, out->backend);
}

err_t runtime_open(const runtime_options_t *options, void (*abort_job)(err_t code), runtime_t *out)
{
    TRY(runtime_open_comm(options, abort_job, out));
    return runtime_open_backend(options, out);
}

err_t runtime_set_threads(runtime_t *runtime, int n_threads)
{
    const backend_t *backend = runtime->backend;
    if (n_threads == runtime->n_threads) return ERR_OK;
    runtime->n_threads = n_threads;
    if (!runtime_has_threads(runtime)) return ERR_OK;
    if (backend->close) backend->close();
    backend_options_t options = {.n_threads = n_threads, .local_rank = runtime->comm->topo.local_rank};
    return backend->open(&options);
}

bool runtime_has_threads(const runtime_t *runtime)
{
    return runtime->backend->open && !runtime->backend->memory;
}

void runtime_record_software(const runtime_t *runtime, json_t *j)
{
    char mpi[128], hdf5[32];
    comm_describe(runtime->comm, mpi, sizeof mpi);
    h5_version(hdf5, sizeof hdf5);
    json_string(j, "dptrain", version_number);
    json_string(j, "git", version_git_hash);
    json_string(j, "compiler", version_compiler);
    json_string(j, "flags", version_flags);
    json_string(j, "mpi", mpi);
    json_string(j, "hdf5", hdf5);
    json_string(j, "backend", runtime->device);
}

void runtime_abort_alone(const runtime_t *runtime, err_t err)
{
    const comm_t *comm = runtime->comm;
    if (err == ERR_OK || !comm || comm->size == 1 || comm->agreed == err) return;
    deadline_leave(err, DEADLINE_LEAVE_SEC);
    log_rank_error("%s", err_message());
    abort_unless_interrupted(err);
}

err_t runtime_close(runtime_t *runtime, err_t err)
{
    runtime_abort_alone(runtime, err);
    if (err != ERR_OK && !runtime->comm) {
        /* Other ranks may be waiting in MPI for this one. */
        log_early_error("%s", err_message());
        if (launch_present() && abort_hook) abort_unless_interrupted(err);
        return err;
    }
    if (err != ERR_OK && log_speaks()) log_error("%s", err_message());
    if (runtime->backend && runtime->backend->close) runtime->backend->close();
    comm_close(&runtime->comm);
    return err;
}

double slowdown_now(const slowdown_t *slowdown, const char *phase, double whole_sec)
{
    if (!slowdown->phase || strcmp(slowdown->phase, phase) != 0) return 0;
    double start = clock_sec(), now = start;
    while (now - start < slowdown->share * whole_sec) now = clock_sec();
    return now - start;
}
