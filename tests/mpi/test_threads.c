/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3
 *
 * The number of threads chosen for a model, by times that the test makes up: the fewest that are fast enough, the
 * same on all ranks, kept in the cache unless other processes disturbed the measurement. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "compute/graph/layers.h"
#include "compute/models/model.h"
#include "tests/mpi/everyone.h"
#include "train/start/choose.h"

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static char path[FS_PATH_MAX]; /* of the cache */
static int opened;             /* the number of threads that the backend was last opened with */

static err_t fake_open(const backend_options_t *options)
{
    opened = options->n_threads;
    return ERR_OK;
}

static const backend_t fake = {.name = "fake", .open = fake_open}, one_thread = {.name = "one"};

/* sec[n]: of a step with n threads; 0: INFINITY, out of time. */
typedef struct times {
    double sec[17];
    bool busy, fails;
    int n_calls;
} times_t;

static err_t fake_time(void *context, int n_threads, step_time_t *out)
{
    times_t *times = context;
    times->n_calls++;
    if (times->fails) RAISE(ERR_SYSTEM, "no memory");
    const double sec = times->sec[n_threads];
    *out = (step_time_t){sec > 0 ? sec : INFINITY, !times->busy};
    return ERR_OK;
}

static graph_t *graph_with(int n_out)
{
    graph_t *g;
    if (graph_new("small", &g) != ERR_OK) abort();
    graph_input(g, "image", shape_3d(6, 6, 2), DTYPE_F32);
    model_add_loss(g, &(model_options_t){.n_classes = 3},
                   nn_linear(g, "fc2", nn_linear(g, "fc1", 0, n_out), 3));
    if (graph_finish(g) != ERR_OK) abort();
    return g;
}

typedef struct setting {
    runtime_t runtime;
    graph_t *graph;
    times_t times;
    thread_choice_t choice;
    double limit_sec;
} setting_t;

/* The number on this rank; -1: an error. Rank r may use n_cpus + r CPUs. */
static int choose(setting_t *s, int n_cpus)
{
    thread_request_t request = {.runtime = &s->runtime,
                                .graph = s->graph,
                                .n = 4,
                                .limit_sec = s->limit_sec,
                                .time_step = fake_time,
                                .context = &s->times};
    s->times.n_calls = 0;
    s->runtime.n_threads = s->runtime.n_cpus = n_cpus + s->runtime.comm->rank;
    opened = s->runtime.n_threads;
    err_t err = thread_choice_make(&request, &s->choice);
    if (err != ERR_OK || opened != s->runtime.n_threads) return -1;
    return opened;
}

static bool is_from(const setting_t *s, const char *from)
{
    return strcmp(s->choice.from, from) == 0;
}

/* Removes the cache, if there is one. */
static void forget(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (log_speaks()) unlink(path);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void test_choice(setting_t *s)
{
    const int rank = s->runtime.comm->rank;
    s->times = (times_t){.sec = {[8] = 1.00, [4] = 1.08, [2] = 1.09, [1] = 1.8}};
    OK_ALL(choose(s, 8) == 2 && is_from(s, "measured"), "the fewest threads that lose less than a tenth");
    OK_ALL(s->times.n_calls == (rank == 0 ? 4 : 0), "rank 0 measures for all");
    s->times = (times_t){.sec = {[8] = 1.0, [4] = 0.7, [2] = 0.75, [1] = 0.9}};
    forget();
    OK_ALL(choose(s, 8) == 2, "compared with the fastest number, not with all threads");
    s->times = (times_t){.sec = {[6] = 1.0, [3] = 1.3, [1] = 0.1}};
    OK_ALL(choose(s, 6) == 6 + rank && s->times.n_calls == (rank == 0 ? 2 : 0),
           "where all threads pay, each rank keeps its share");
    s->times = (times_t){.sec = {[3] = 1.0, [1] = 0.5}};
    OK_ALL(choose(s, 3) == 1, "an odd share ends at one thread, too");
    s->times = (times_t){.sec = {[8] = 1.0, [4] = 0.95, [2] = 0.5, [1] = 0.48}, .busy = true};
    forget();
    OK_ALL(choose(s, 8) == 8 + rank, "beside other processes, fewer must be clearly faster");
    s->times.sec[4] = 0.8;
    OK_ALL(choose(s, 8) == 2 && is_from(s, "measured"), "and are chosen then");
    s->times = (times_t){.sec = {[4] = 1.0}};
    OK_ALL(choose(s, 4) == 4 + rank && is_from(s, "share"),
           "what was not measured in time is each rank's share");
    s->limit_sec = 0;
    OK_ALL(choose(s, 4) == 4 + rank && s->times.n_calls == 0 && is_from(s, "share"),
           "and so without any time to measure");
    s->limit_sec = 10;
    s->times.fails = rank == 0;
    OK_ALL(choose(s, 4) == -1 && SAYS("no memory"), "an error of rank 0 reaches all ranks");
    s->times.fails = false;
}

static void test_unmeasured(setting_t *s)
{
    const int rank = s->runtime.comm->rank;
    s->times = (times_t){.sec = {[1] = 1.0, [2] = 1.0, [4] = 1.0}};
    OK_ALL(choose(s, 1) == 1 + rank && s->times.n_calls == 0, "one CPU leaves no choice");
    graph_t *small = s->graph;
    s->graph = graph_with(16 << 20);
    OK_ALL(choose(s, 4) == 4 + rank && s->times.n_calls == 0 && is_from(s, "share"),
           "a large model takes all threads, unmeasured");
    graph_free(&s->graph);
    s->graph = small;
    s->runtime.backend = &one_thread;
    OK_ALL(choose(s, 4) == 4 + rank && s->times.n_calls == 0, "so does a backend without threads");
    s->runtime.backend = &fake;
}

static void test_cache(setting_t *s)
{
    const int rank = s->runtime.comm->rank;
    s->times = (times_t){.sec = {[4] = 2.0, [2] = 1.0, [1] = 2.0}, .busy = true};
    forget();
    OK_ALL(choose(s, 4) == 2 && !s->choice.calm && !fs_exists(path),
           "beside other processes nothing is cached");
    MPI_Barrier(MPI_COMM_WORLD);
    s->times.busy = false;
    OK_ALL(choose(s, 4) == 2 && s->choice.calm && fs_exists(path), "on a quiet machine it is");
    s->times.sec[2] = 9;
    OK_ALL(choose(s, 4) == 2 && is_from(s, "cache") && s->times.n_calls == 0, "a later run does not measure");
    OK_ALL(choose(s, 8) != 2 || rank > 0, "but one with another share does");
    s->limit_sec = 0;
    OK_ALL(choose(s, 4) == 2 && is_from(s, "cache"), "the cache needs no time");
    s->limit_sec = 10;
    graph_t *small = s->graph;
    s->graph = graph_with(7);
    s->times.sec[2] = 1, s->times.sec[1] = 1;
    OK_ALL(choose(s, 4) == 1 && is_from(s, "measured"), "another model is measured");
    graph_free(&s->graph);
    s->graph = small;
    OK_ALL(choose(s, 4) == 2 && is_from(s, "cache"), "and both are kept");

    char *text = NULL;
    if (rank == 0 && fs_read_text(path, 1 << 20, &text) != ERR_OK) abort();
    for (char *at = text; at && (at = strstr(at, " = ")); at += 3) at[3] = '9';
    if (rank == 0 && fs_write_text(path, text) != ERR_OK) abort();
    mem_free(&text);
    OK_ALL(choose(s, 4) == 1 && is_from(s, "measured"), "a number that cannot be is measured again");
    OK_ALL(choose(s, 4) == 1 && is_from(s, "cache"), "and mended");
    if (rank == 0 && fs_write_text(path, "nonsense\n\n = 2") != ERR_OK) abort();
    OK_ALL(choose(s, 4) == 1 && is_from(s, "measured"), "a damaged cache is measured again");
}

int main(void)
{
    setting_t s = {.runtime.backend = &fake, .limit_sec = 10};
    comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&options, &s.runtime.comm);
    tap_quiet = !log_speaks();
    tap_plan(10 + 3 + 10 + 1);
    if (err != ERR_OK) return 1;
    char folder[] = "/tmp/dptrain-threads-XXXXXX", inner[FS_PATH_MAX];
    if (s.runtime.comm->rank == 0 && !mkdtemp(folder)) abort();
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(inner, sizeof inner, "%s/dptrain", folder);
    snprintf(path, sizeof path, "%.4000s/threads.txt", inner);
    setenv("XDG_CACHE_HOME", folder, 1);
    s.graph = graph_with(5);
    test_choice(&s);
    test_unmeasured(&s);
    test_cache(&s);
    graph_free(&s.graph);
    if (s.runtime.comm->rank == 0 && (unlink(path) != 0 || rmdir(inner) != 0 || rmdir(folder) != 0)) abort();
    comm_close(&s.runtime.comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
