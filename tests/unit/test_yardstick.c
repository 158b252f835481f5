/* SPDX-License-Identifier: MIT */
/* What a rank's hardware can do at most: the least time of a pass, what is kept for a machine, whatever its file holds,
 * and the peaks of the cpu backend under each limit of the instruction set. */
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/isa.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/yardstick.h"
#include "tests/folder.h"
#include "tests/tap.h"

static void test_least(void)
{
    const yardstick_t y = {.flops = 100, .bytes_per_sec = 10, .cache_bytes = 50}, unknown = {0};
    bound_t bound;
    OK(yardstick_least_sec(&y, 400, 60, &bound) == 4 && bound == BOUND_PRODUCTS, "products take longer");
    OK(yardstick_least_sec(&y, 400, 100, &bound) == 5 && bound == BOUND_BYTES,
       "bytes do; a cache may hold the first of them");
    OK(yardstick_least_sec(&y, 0, 50, &bound) == 0 && bound == BOUND_NONE, "all bytes may be in a cache");
    OK(yardstick_least_sec(&unknown, 400, 100, &bound) == 0 && bound == BOUND_NONE, "an unknown machine");
    OK(yardstick_least_sec(&y, 400, 100, NULL) == 5, "the bound need not be asked for");
}

/* Bytes of arrays on machines with 1 MiB of cache per core and 32 MiB shared by 8 or by all. */
static void test_array(void)
{
    enum { M = 1 << 20 };
    const int64_t plenty = (int64_t)64 << 30;
    OK(yardstick_array_bytes(1, 33 * M, 33 * M, plenty) == 66 * M, "twice the caches");
    OK(yardstick_array_bytes(2, 33 * M, 34 * M, plenty) == 128 * M,
       "of two threads, each as if the other paused, as far as that is affordable");
    OK(yardstick_array_bytes(64, 33 * M, 320 * M, plenty) == 640 * M, "at least twice those of all threads");
    OK(yardstick_array_bytes(2, 33 * M, 34 * M, 400 * M) == 100 * M, "a quarter of what is free");
    OK(yardstick_array_bytes(2, 33 * M, 34 * M, 270 * M) == 0 && yardstick_array_bytes(1, 0, 0, 400 * M) == 0,
       "not what fits into caches");
    OK(yardstick_array_bytes(1, 0, 0, plenty) == 128 * M, "unknown caches");
}

static bool rejects(const char *text)
{
    yardstick_kept_t kept;
    return yardstick_read(text, "a", &kept) == ERR_DATA && kept.flops == 0 && kept.bytes_per_sec == 0;
}

static void test_text(void)
{
    char text[YARDSTICK_TEXT_MAX];
    yardstick_kept_t in = {1.25e11, 0}, out;
    yardstick_write(&in, "a, b; c", text);
    OK_CALL(yardstick_read(text, "a, b; c", &out), "what was written is read");
    OK(out.flops == in.flops && out.bytes_per_sec == 0, "unchanged");
    OK(yardstick_read(text, "a, b", &out) == ERR_OK && out.flops == 0, "nothing is kept for another machine");
    const char *const damaged[] = {
        "",
        "machine = a",
        "machine = a\n",
        "flops = 1\nbytes_per_sec = 1\n",
        "machine = a\nflops = 1\n",
        "machine = a\nflops = 1\nbytes_per_sec = 1",
        "machine = a\nflops = 1\nbytes_per_sec = 1\n\n",
        "machine = a\nflops = 1 \nbytes_per_sec = 1\n",
        "machine = a\nflops =  1\nbytes_per_sec = 1\n",
        "machine = a\nbytes_per_sec = 1\nflops = 1\n",
        "machine = a\nflops = \nbytes_per_sec = 1\n",
        "machine = a\nflops = -1\nbytes_per_sec = 1\n",
        "machine = a\nflops = nan\nbytes_per_sec = 1\n",
        "machine = a\nflops = 1e400\nbytes_per_sec = 1\n",
        "machine = a\nflops = 0x1p9\nbytes_per_sec = 1\n",
        "machine = a\nflops = 1\nbytes_per_sec = 1e19\n",
    };
    bool all = true;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        if (rejects(damaged[i])) continue;
        printf("# accepted: %s\n", damaged[i]);
        all = false;
    }
    OK(all, "damaged texts and absurd values are refused");
}

static double flops_now, bytes_now;

static err_t made_up_flops(dtype_t compute, backend_peak_t *out)
{
    (void)compute;
    if (flops_now <= 0) RAISE(ERR_SYSTEM, "no room");
    *out = (backend_peak_t){.per_sec = flops_now, .n_threads = 2, .from = "a loop"};
    return ERR_OK;
}

static err_t made_up_bytes(int64_t n_bytes, backend_peak_t *out)
{
    *out = (backend_peak_t){.per_sec = n_bytes > 0 ? bytes_now : 0};
    return ERR_OK;
}

static yardstick_t measure(comm_t *comm, double flops, double bytes)
{
    static const backend_t made_up = {
        .name = "made up", .peak_flops = made_up_flops, .peak_bytes = made_up_bytes};
    yardstick_t y = {.flops = -1};
    flops_now = flops, bytes_now = bytes;
    if (yardstick_measure(comm, &made_up, DTYPE_F32, &y) != ERR_OK) y.flops = -1;
    return y;
}

static bool is(yardstick_t y, double flops, double bytes)
{
    if (y.flops == flops && y.bytes_per_sec == bytes) return true;
    printf("# %g FLOP/s, %g bytes per second\n", y.flops, y.bytes_per_sec);
    return false;
}

/* Replaces what is kept. False unless there is one file. */
static bool overwrite(const char *text)
{
    char command[512];
    snprintf(command, sizeof command,
             "set -- %s/dptrain/peak-*.txt; test $# -eq 1 && test -f $1 && printf '%%b' '%s' >$1", folder,
             text);
    return system(command) == 0;
}

static void test_kept(comm_t *comm)
{
    setenv("XDG_CACHE_HOME", folder, 1);
    yardstick_t y = measure(comm, 8e9, 6e9);
    OK(is(y, 8e9, 6e9) && strcmp(y.flops_from, "a loop, 2 threads") == 0, "what is measured");
    OK(y.cache_bytes == (double)machine_cache_bytes(2, 1), "the host's caches");
    OK(is(measure(comm, 7e9, 5e9), 8e9, 6e9), "a busy machine: what is kept holds");
    OK(is(measure(comm, 9e9, 4e9), 9e9, 6e9) && is(measure(comm, 8e9, 7e9), 9e9, 7e9), "either is raised");
    OK(is(measure(comm, 4e9, 7e9), 4e9, 7e9) && is(measure(comm, 4e9, 6e9), 4e9, 7e9),
       "more than twice what is measured is not believed, and is replaced");
    OK(overwrite("machine = another\\nflops = 5e9\\nbytes_per_sec = 8e9\\n") &&
           is(measure(comm, 4e9, 6e9), 4e9, 6e9),
       "another machine's values");
    OK(overwrite("machine = ") && is(measure(comm, 3e9, 6e9), 3e9, 6e9) &&
           is(measure(comm, 2e9, 2e9), 3e9, 6e9),
       "a damaged file is ignored, and replaced");
    OK(is(measure(comm, 2e9, 7e8), 3e9, 6e9) && is(measure(comm, 2e9, 5e8), 3e9, 5e8),
       "of memory's rate other load may leave a tenth");
    OK(is(measure(comm, 4e9, 0), 4e9, 0) && is(measure(comm, 4e9, 4e8), 4e9, 5e8),
       "a run that cannot measure memory does not use what is kept, and keeps it");
    OK(is(measure(comm, 0, 6e9), 0, 0) && SAYS("no room"), "without room: unknown");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    OK(is(measure(comm, 2e9, 2e9), 2e9, 2e9), "without a cache folder");
}

/* The cpu backend's, in a process of its own: the instruction set is read once. */
static int measure_capped(const char *cap, bool one_cpu)
{
    static const char *const names[] = {[ISA_AVX2] = "AVX2 FMA", [ISA_AVX512] = "AVX-512 FMA"};
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    backend_peak_t wide, narrow, bytes;
    isa_t most;
    cpu_set_t cpus;
    setenv("DPTRAIN_MAX_ISA", cap, 1);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 7;
    for (int i = 0, n = 0; i < CPU_SETSIZE && one_cpu; i++)
        if (CPU_ISSET(i, &cpus) && n++ > 0) CPU_CLR(i, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) return 7;
    const int n_threads = CPU_COUNT(&cpus) < 2 ? 1 : 2;
    if (backend_find("cpu", &backend, why) != ERR_OK || backend_open(backend, 2) != ERR_OK) return 1;
    if (backend->peak_flops(DTYPE_F32, &wide) != ERR_OK ||
        backend->peak_flops(DTYPE_BF16, &narrow) != ERR_OK || backend->peak_bytes(1 << 20, &bytes) != ERR_OK)
        return 2;
    backend->close();
    const isa_t isa = isa_best(), best = isa > ISA_AVX512 ? ISA_AVX512 : isa;
    const bool dots = strstr(narrow.from, "bf16ps") != NULL;
    if (!isa_capped(&most) || isa > most) return 3;
    if (names[best] && strcmp(wide.from, names[best]) != 0) return 4;
    if (dots != (isa >= ISA_AVX512_BF16) || (!dots && strcmp(narrow.from, wide.from) != 0)) return 5;
    bool finite = isfinite(wide.per_sec) && isfinite(narrow.per_sec) && isfinite(bytes.per_sec);
    const bool right = wide.n_threads == n_threads && bytes.n_threads == n_threads;
    return finite && right && wide.per_sec > 0 && narrow.per_sec > 0 && bytes.per_sec > 0 ? 0 : 6;
}

static void test_caps(void)
{
    static const char *const caps[] = {"base", "avx2", "avx512", "avx512_bf16", "amx", "amx"};
    enum { N = sizeof caps / sizeof caps[0] };
    for (int i = 0; i < N; i++) {
        const bool one_cpu = i == N - 1;
        int status = -1;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) _exit(measure_capped(caps[i], one_cpu));
        OK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "peaks up to %s%s (%x)", caps[i],
           one_cpu ? ", two threads on one CPU" : "", (unsigned)status);
    }
}

int main(void)
{
    comm_t *comm = NULL;
    const backend_t *ref;
    char why[BACKEND_WHY_MAX];
    yardstick_t y;
    tap_plan(35);
    test_caps();
    test_least();
    test_array();
    test_text();
    OK(folder_begin(), "a folder");
    OK_CALL(comm_alone(&comm), "a communicator");
    test_kept(comm);
    OK(backend_find("ref", &ref, why) == ERR_OK && yardstick_measure(comm, ref, DTYPE_F32, &y) == ERR_OK &&
           y.flops == 0 && yardstick_least_sec(&y, 1, 1, NULL) == 0,
       "the ref backend has none");
    comm_close(&comm);
    folder_clear();
    rmdir(folder);
    return tap_done();
}
