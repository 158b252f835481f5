/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3 device=cuda
 *
 * Gradients on GPUs, summed by NCCL, on exactly representable data. If there are fewer GPUs than ranks, ranks
 * share one, each with its own NCCL_HOSTID, because NCCL refuses that otherwise. The emulated device works
 * only while its host waits, so ranks wait for the device before they wait for each other.
 *
 * `test_nccl cuda sums` sums forever, for tests/cli/nccl.bats; with `stall` the last rank soon does something
 * else, with `stall-recorded` in a recorded step. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef DPTRAIN_CUDA
#include <cuda_runtime_api.h>
#endif

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/device.h"
#include "cluster/watch/watchdog.h"
#include "compute/ops/backend.h"
#include "tests/mpi/everyone.h"

/* COUNT: not a multiple of anything, and several pieces of the emulator. */
enum { COUNT = 300007, N_EXACT = 5, ROUNDS = 3 };

static const backend_t *cuda;
static comm_device_t device;
static int world_rank, world_size, n_gpus;
static bool emulated;
static float *host; /* pinned, COUNT */
static void *source, *result;

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static comm_options_t options(const char *name)
{
    return (comm_options_t){.name = name,
                            .timeout_sec = 60,
                            .share_gpu = n_gpus < world_size,
                            .nccl_register = true,
                            .abort_job = abort_job};
}

/* Integers below 128: bfloat16 represents them and the sums of three of them. */
static float value(int rank, int64_t i, int round)
{
    return (float)((i * 7 + rank * 5 + round) % 64 - 32);
}

static double expected(int size, int64_t i, int round)
{
    double sum = 0;
    for (int r = 0; r < size; r++) sum += (double)value(r, i, round);
    return sum;
}

static bool fill(int rank, int round)
{
    for (int64_t i = 0; i < COUNT; i++) host[i] = value(rank, i, round);
    return cuda->memory->upload(source, host, COUNT * sizeof *host) == ERR_OK &&
           cuda->memory->sync() == ERR_OK;
}

/* Checks the sums in `result`. */
static bool fetch(void)
{
    return cuda->memory->download(host, result, COUNT * sizeof *host) == ERR_OK &&
           cuda->memory->sync() == ERR_OK;
}

static int64_t count_wrong(int size, int64_t from, int64_t to, int round)
{
    int64_t n_wrong = 0;
    for (int64_t i = from; i < to; i++) n_wrong += (double)host[i] != expected(size, i, round);
    return n_wrong;
}

static float *floats(const comm_buffer_t *buffer, int64_t offset)
{
    return (float *)buffer->device + offset;
}

/* Gradients are written and read in the order of the device's stream; the host does not wait in between. */
static bool sum_whole(comm_t *comm, comm_buffer_t *buffer, int round)
{
    const size_t n_bytes = COUNT * sizeof *host;
    bool ok = fill(comm->rank, round) && cuda->memory->copy(buffer->device, source, n_bytes) == ERR_OK &&
              comm_buffer_allreduce(comm, buffer, COUNT, "a test's sum") == ERR_OK &&
              cuda->memory->copy(result, buffer->device, n_bytes) == ERR_OK;
    /* Work enqueued after the sum must not affect it. */
    ok = ok && cuda->memory->zero(buffer->device, n_bytes) == ERR_OK && fetch();
    return ok && count_wrong(comm->size, 0, COUNT, round) == 0;
}

/* Pieces from the end to the start, each begun as soon as it is final, as in a backward pass. */
static bool sum_pieces(comm_t *comm, comm_buffer_t *buffer, int64_t n_piece, int round)
{
    bool ok = fill(comm->rank, round);
    for (int64_t end = COUNT; ok && end > 0; end -= n_piece) {
        int64_t at = end > n_piece ? end - n_piece : 0;
        ok = cuda->memory->copy(floats(buffer, at), (float *)source + at,
                                (size_t)(end - at) * sizeof *host) == ERR_OK &&
             comm_buffer_begin(comm, buffer, at, end - at) == ERR_OK;
    }
    ok = ok && comm_buffer_finish(comm, buffer) == ERR_OK &&
         cuda->memory->copy(result, buffer->device, COUNT * sizeof *host) == ERR_OK && fetch();
    return ok && count_wrong(comm->size, 0, COUNT, round) == 0;
}

/* Only a part in the middle; the rest keeps this rank's values. */
static bool sum_part(comm_t *comm, comm_buffer_t *buffer)
{
    enum { FROM = 1001, TO = 2048 };
    bool ok = fill(comm->rank, 0) &&
              cuda->memory->copy(buffer->device, source, COUNT * sizeof *host) == ERR_OK &&
              comm_buffer_begin(comm, buffer, FROM, TO - FROM) == ERR_OK &&
              comm_buffer_finish(comm, buffer) == ERR_OK && comm_buffer_finish(comm, buffer) == ERR_OK &&
              cuda->memory->copy(result, buffer->device, COUNT * sizeof *host) == ERR_OK && fetch();
    int64_t n_wrong = count_wrong(comm->size, FROM, TO, 0);
    for (int64_t i = 0; i < COUNT; i++)
        if (i < FROM || i >= TO) n_wrong += host[i] != value(comm->rank, i, 0);
    return ok && n_wrong == 0;
}

static bool is_zero(const comm_buffer_t *buffer)
{
    bool ok = cuda->memory->copy(result, buffer->device, COUNT * sizeof *host) == ERR_OK && fetch();
    for (int64_t i = 0; ok && i < COUNT; i++) ok = host[i] == 0;
    return ok;
}

static comm_t *open(const comm_options_t *o)
{
    comm_t *comm = NULL;
    bool ok = comm_open(o, &comm) == ERR_OK && comm_use_device(comm, &device) == ERR_OK;
    if (!OK_ALL(ok, "a communicator of %d ranks with %s%s", world_size, o->name,
                o->wire_bf16 ? ", bf16 on the wire" : ""))
        MPI_Abort(MPI_COMM_WORLD, 1);
    return comm;
}

static void test_sums(void)
{
    comm_options_t o = options("nccl");
    comm_t *comm = open(&o);
    comm_buffer_t buffer;
    char text[256];
    OK_ALL(comm_on_device(comm) && comm_buffer_new(comm, COUNT * sizeof *host, &buffer) == ERR_OK &&
               buffer.device && !buffer.data,
           "a buffer on the device");
    OK_ALL(is_zero(&buffer), "zeroed");
    bool ok = true;
    for (int round = 0; round < ROUNDS; round++) ok = ok && sum_whole(comm, &buffer, round);
    OK_ALL(ok, "sums, in the order of the device's stream");
    ok = true;
    for (int round = 0; round < ROUNDS; round++)
        ok = ok && sum_pieces(comm, &buffer, 70001 - 31000 * round, round);
    OK_ALL(ok, "sums in pieces that overlap with later work");
    OK_ALL(sum_part(comm, &buffer), "the sum of a part");
    comm_describe_gradients(comm, text, sizeof text);
    OK_ALL(strncmp(text, "NCCL 2.", 7) == 0 && strstr(text, "registered"), "the description names NCCL: %s",
           text);
    int (*log_lines)(void) = NULL;
    *(void **)&log_lines = dlsym(RTLD_DEFAULT, "emu_nccl_log_lines");
    if (log_lines && world_rank == 0) printf("# %d lines in NCCL's log\n", log_lines());
    OK_ALL(!log_lines || world_rank != 0 || (log_lines() == 1 && strstr(text, "RING/SIMPLE")),
           "NCCL's log ends with the first sum, which names the algorithm");
    const comm_gpu_t *gpus = comm_gpus(comm);
    ok = gpus != NULL;
    for (int r = 0; ok && r < world_size; r++) ok = gpus[r].rank == r && gpus[r].name[0] && gpus[r].host[0];
    OK_ALL(ok && strcmp(gpus[world_rank].pci, device.pci) == 0, "every rank knows all GPUs");
    comm_buffer_free(comm, &buffer);
    OK_ALL(!buffer.device, "freed");
    comm_close(&comm);
}

/* Recorded once, run several times. */
static void test_graph(void)
{
    comm_options_t o = options("nccl");
    comm_t *comm = open(&o);
    comm_buffer_t buffer;
    const size_t n_bytes = COUNT * sizeof *host;
    const backend_step_t step = {0};
    void *graph = NULL;
    bool ok = comm_buffer_new(comm, n_bytes, &buffer) == ERR_OK && cuda->graph->begin(0) == ERR_OK;
    bool recorded = ok && cuda->memory->copy(buffer.device, source, n_bytes) == ERR_OK &&
                    comm_buffer_begin(comm, &buffer, 1000, COUNT - 1000) == ERR_OK &&
                    comm_buffer_begin(comm, &buffer, 0, 1000) == ERR_OK &&
                    comm_buffer_finish(comm, &buffer) == ERR_OK &&
                    cuda->memory->copy(result, buffer.device, n_bytes) == ERR_OK;
    ok = ok && cuda->graph->end(!recorded, &graph) == ERR_OK && graph;
    OK_ALL(ok && recorded, "a step with sums is recorded");
    for (int round = 0; ok && round < ROUNDS; round++)
        ok = fill(comm->rank, round) && cuda->graph->launch(graph, 0, &step) == ERR_OK && fetch() &&
             count_wrong(comm->size, 0, COUNT, round) == 0;
    OK_ALL(ok, "and run several times");
    if (graph) cuda->graph->release(graph);
    OK_ALL(sum_whole(comm, &buffer, 1), "then a sum outside it");
    comm_buffer_free(comm, &buffer);
    comm_close(&comm);
}

/* Sums values plus a small amount that bfloat16 rounds away; the last few floats are not rounded. */
static void test_wire(void)
{
    const float little = 0x1p-10f;
    comm_options_t o = options("nccl");
    o.wire_bf16 = true;
    o.nccl_register = false;
    comm_t *comm = open(&o);
    comm_buffer_t buffer;
    bool ok = comm_buffer_new(comm, COUNT * sizeof *host, &buffer) == ERR_OK;
    comm_buffer_set_exact(&buffer, N_EXACT);
    /* In pieces, one of which is rounded in its first half only. */
    static const int64_t begins[] = {COUNT - 9, 0, 5000};
    static const int64_t counts[] = {9, 5000, COUNT - 9 - 5000};
    for (int64_t i = 0; i < COUNT; i++) host[i] = 16 + value(comm->rank, i, 0) / 8 + little;
    ok = ok && cuda->memory->upload(buffer.device, host, COUNT * sizeof *host) == ERR_OK;
    for (int p = 0; ok && p < 3; p++) ok = comm_buffer_begin(comm, &buffer, begins[p], counts[p]) == ERR_OK;
    ok = ok && comm_buffer_finish(comm, &buffer) == ERR_OK &&
         cuda->memory->copy(result, buffer.device, COUNT * sizeof *host) == ERR_OK && fetch();
    int64_t n_wrong = 0, n_wrong_exact = 0, n_unrounded = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        double sum = 16 * comm->size + expected(comm->size, i, 0) / 8;
        if (i < COUNT - N_EXACT) {
            /* 8 bits of mantissa: each step rounds by at most 2^-3 below 64. */
            double off = (double)host[i] - sum, most = comm->size > 1 ? 0.125 * (comm->size - 1) : 0;
            n_wrong += off > most || -off > most || (comm->size == 1 && (double)host[i] != sum);
            n_unrounded += (double)host[i] == sum + comm->size * (double)little;
        } else {
            n_wrong_exact += (double)host[i] != sum + comm->size * (double)little;
        }
    }
    OK_ALL(ok && n_wrong == 0 && n_unrounded == 0, "gradients sent as bfloat16");
    OK_ALL(n_wrong_exact == 0, "and the last few floats, which are not rounded");
    comm_buffer_free(comm, &buffer);
    comm_close(&comm);
}

/* Checks sums of values plus `little`, of which bf16 keeps nothing beside a number. */
static int64_t count_wrong_shared(int size, int64_t n_rounded, int round, double little)
{
    int64_t n_wrong = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        const double sum = expected(size, i, round), off = fabs((double)host[i] - sum);
        if (i >= n_rounded)
            n_wrong += (double)host[i] != sum + size * little;
        else
            n_wrong += off > size * little || (little > 0 && fabs(sum) >= 4 && off > 0);
    }
    return n_wrong;
}

/* A buffer that is shared out, in a recorded step: two buckets at once, what follows them, then an allgather. */
static void test_shared(bool wire)
{
    enum { N = COUNT - 1000, GRAIN = 256, BUCKET = 70000 };
    const float little = wire ? 0x1p-10f : 0;
    const size_t n_bytes = COUNT * sizeof *host;
    const backend_step_t step = {0};
    comm_options_t o = options("nccl");
    o.wire_bf16 = wire;
    comm_t *comm = open(&o);
    comm_buffer_t buffer, weights = {.device = result};
    void *graph = NULL;
    if (comm->size == 1) {
        tap_skip("one rank");
        tap_skip("one rank");
        comm_close(&comm);
        return;
    }
    const comm_slices_t s = comm_slices(comm, N, GRAIN, BUCKET);
    const int64_t padded = comm_slices_padded(&s);
    bool ok = comm_buffer_new(comm, n_bytes, &buffer) == ERR_OK;
    comm_buffer_set_exact(&buffer, COUNT - padded);
    ok = ok && comm_buffer_share(comm, &buffer, &weights, &s) == ERR_OK && is_zero(&buffer);
    ok = ok && cuda->graph->begin(0) == ERR_OK;
    bool recorded = ok && cuda->memory->copy(buffer.device, source, n_bytes) == ERR_OK;
    for (int64_t at = 0, n = 2 * s.n_bucket; recorded && at < padded; at += n)
        recorded = comm_buffer_begin(comm, &buffer, at, padded - at < n ? padded - at : n) == ERR_OK;
    recorded = recorded && comm_buffer_begin(comm, &buffer, padded, COUNT - padded) == ERR_OK &&
               comm_buffer_finish(comm, &buffer) == ERR_OK &&
               cuda->memory->copy(result, buffer.device, n_bytes) == ERR_OK &&
               comm_buffer_gather(comm, &buffer, "a test's gather") == ERR_OK;
    ok = ok && cuda->graph->end(!recorded, &graph) == ERR_OK && graph;
    OK_ALL(ok && recorded, "a step that shares out %d buckets is recorded%s", (int)comm_slices_buckets(&s),
           wire ? ", bf16 on the wire" : "");
    for (int round = 0; ok && round < ROUNDS; round++) {
        for (int64_t i = 0; i < COUNT; i++) host[i] = value(comm->rank, i, round) + little;
        ok = cuda->memory->upload(source, host, n_bytes) == ERR_OK && cuda->memory->sync() == ERR_OK &&
             cuda->graph->launch(graph, 0, &step) == ERR_OK && fetch() &&
             count_wrong_shared(comm->size, padded, round, little) == 0;
    }
    OK_ALL(ok, "and run several times: all ranks get all sums");
    if (graph) cuda->graph->release(graph);
    comm_buffer_free(comm, &buffer);
    comm_close(&comm);
}

/* A subset has its own NCCL communicator; a single rank needs none. */
static void test_subset(void)
{
    comm_options_t o = options("nccl");
    comm_t *comm = open(&o), *part = NULL;
    for (int n = 1; n <= world_size; n++) {
        bool mine = world_rank < n, ok = comm_subset(comm, n, &part) == ERR_OK && (part != NULL) == mine;
        if (ok && mine) {
            comm_buffer_t buffer;
            ok = comm_on_device(part) == (n > 1);
            if (ok && n > 1) {
                ok = comm_buffer_new(part, COUNT * sizeof *host, &buffer) == ERR_OK &&
                     sum_whole(part, &buffer, n);
                comm_buffer_free(part, &buffer);
            }
            comm_close(&part);
        }
        OK_ALL(ok, "%d of %d ranks", n, world_size);
    }
    comm_close(&comm);
}

/* bf16 on the wire needs NCCL. */
static void test_wire_refused(void)
{
    comm_options_t o = options("mpi");
    comm_t *comm = NULL;
    o.wire_bf16 = true;
    bool ok = comm_open(&o, &comm) == ERR_OK;
    err_t err = ok ? comm_use_device(comm, &device) : ERR_SYSTEM;
    bool refused = err == ERR_USAGE && strstr(err_message(), "--wire fp32");
    OK_ALL(ok && (world_size > 1 ? refused : err == ERR_OK), "bf16 on the wire through MPI is refused");
    comm_close(&comm);
}

/* Sharing is allowed, but without NCCL_HOSTID. */
static void test_no_host_id(void)
{
    comm_options_t o = options("nccl");
    comm_t *comm = NULL;
    char id[32];
    snprintf(id, sizeof id, "%s", getenv("NCCL_HOSTID") ? getenv("NCCL_HOSTID") : "");
    unsetenv("NCCL_HOSTID");
    bool ok = comm_open(&o, &comm) == ERR_OK;
    err_t err = ok ? comm_use_device(comm, &device) : ERR_SYSTEM;
    bool refused = err == ERR_USAGE && strstr(err_message(), "NCCL_HOSTID") && !comm_on_device(comm);
    OK_ALL(ok && (n_gpus < world_size ? refused : err == ERR_OK),
           "NCCL refuses two ranks on one GPU of a host");
    comm_close(&comm);
    if (id[0]) setenv("NCCL_HOSTID", id, 1);
}

/* Before NCCL is started. */
static void test_sharing(void)
{
    comm_options_t o = options("auto");
    comm_t *comm = NULL;
    bool shares = n_gpus < world_size, ok;
    o.share_gpu = false;
    ok = comm_open(&o, &comm) == ERR_OK;
    err_t err = ok ? comm_use_device(comm, &device) : ERR_SYSTEM;
    ok = shares ? err == ERR_USAGE && strstr(err_message(), "--share-gpu") && !comm_on_device(comm)
                : err == ERR_OK && comm_on_device(comm) == (world_size > 1);
    OK_ALL(ok, shares ? "two ranks on one GPU are refused"
                      : "auto: NCCL for several ranks, each with its own GPU");
    comm_close(&comm);
    o = options("auto");
    ok = comm_open(&o, &comm) == ERR_OK && comm_use_device(comm, &device) == ERR_OK;
    OK_ALL(ok && comm_on_device(comm) == (world_size > 1 && !shares), "auto with --share-gpu: %s",
           shares ? "through host memory" : "the same");
    comm_close(&comm);
}

/* Records a step with a sum. */
static err_t record(comm_t *comm, comm_buffer_t *buffer, void **out)
{
    err_t err = cuda->graph->begin(0);
    if (err == ERR_OK) err = comm_buffer_allreduce(comm, buffer, COUNT, "gradient allreduce");
    err_t ended = cuda->graph->end(err != ERR_OK, out);
    return err == ERR_OK ? ended : err;
}

/* Runs until an error, or until it is killed. */
static int sum_for_ever(bool stalls, bool recorded)
{
    const backend_step_t step = {0};
    comm_options_t o = options("nccl");
    comm_t *comm = NULL;
    comm_buffer_t buffer;
    void *graph = NULL;
    o.timeout_sec = 10;
    err_t err = comm_open(&o, &comm);
    if (err == ERR_OK) err = comm_use_device(comm, &device);
    if (err == ERR_OK) err = comm_buffer_new(comm, COUNT * sizeof *host, &buffer);
    if (err == ERR_OK && recorded) err = record(comm, &buffer, &graph);
    stalls = stalls && world_rank == world_size - 1;
    for (int i = 0; err == ERR_OK; i++) {
        watchdog_phase(stalls && i == 3 ? "something else" : "computing step %d", i);
        while (stalls && i == 3) clock_sleep(0.1);
        err = graph ? cuda->graph->launch(graph, 0, &step)
                    : comm_buffer_allreduce(comm, &buffer, COUNT, "gradient allreduce");
        if (err == ERR_OK) err = cuda->memory->sync();
    }
    log_rank_error("%s", err_message());
    /* Another thread may end the job first; leave the report to it. */
    clock_sleep(5);
    abort_job(err);
    return 1;
}

/* 0: no GPU is usable. On the emulated device, which has NCCL linked in, two ranks share a GPU and three do
 * not. */
static int count_gpus(void)
{
    char why[BACKEND_WHY_MAX];
    int n = 0;
    emulated = dlsym(RTLD_DEFAULT, "ncclAllReduce") != NULL;
    if (emulated) setenv("DPTRAIN_EMU_GPUS", world_size == 2 ? "1" : "3", 0);
    if (backend_find("cuda", &cuda, why) != ERR_OK) return 0;
#ifdef DPTRAIN_CUDA
    if (cudaGetDeviceCount(&n) != cudaSuccess) n = 0;
#endif
    return n;
}

static bool open_device(void)
{
    backend_options_t o = {.n_threads = 1, .local_rank = world_rank};
    void *block = NULL;
    if (cuda->open(&o) != ERR_OK) return false;
    const backend_device_t *d = cuda->device();
    device = (comm_device_t){.index = d->index,
                             .uuid = d->uuid,
                             .name = d->name,
                             .pci = d->pci,
                             .stream = d->stream,
                             .narrow = cuda->narrow,
                             .widen = cuda->widen};
    bool ok = cuda->memory->alloc_host(COUNT * sizeof *host, "test", &block) == ERR_OK;
    host = block;
    return ok && cuda->memory->alloc(COUNT * sizeof *host, "test", &source) == ERR_OK &&
           cuda->memory->alloc(COUNT * sizeof *host, "test", &result) == ERR_OK;
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    tap_quiet = world_rank != 0;
    n_gpus = count_gpus();
    if (n_gpus == 0) {
        MPI_Finalize();
        tap_skip_all(err_message());
    }
    if (n_gpus < world_size) {
        char id[32];
        snprintf(id, sizeof id, "rank-%d", world_rank);
        setenv("NCCL_HOSTID", id, 1);
    }
    if (argc > 2)
        return open_device() ? sum_for_ever(strstr(argv[2], "stall"), strstr(argv[2], "recorded")) : 1;
    tap_plan(1 + 10 + 4 + 3 + 2 * 3 + 1 + world_size + 4 + 1);
    if (!OK_ALL(open_device(), "a device")) MPI_Abort(MPI_COMM_WORLD, 1);
    int64_t n_live = mem_live();
    test_sums();
    test_graph();
    test_wire();
    test_shared(false);
    test_shared(true);
    test_subset();
    test_sharing();
    test_wire_refused();
    if (emulated)
        test_no_host_id();
    else
        tap_skip("NCCL reads NCCL_HOSTID once");
    OK_ALL(mem_live() == n_live, "all host memory was freed");
    cuda->memory->release_host(host);
    cuda->memory->release(source);
    cuda->memory->release(result);
    cuda->close();
    MPI_Finalize();
    return tap_done();
}
