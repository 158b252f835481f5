/* SPDX-License-Identifier: MIT */
/* Two jobs that take turns: the order of their batches, and that all batches count. */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "tests/tap.h"
#include "tools/bench/protocol.h"

enum { N_BATCHES = 10, PER_BATCH = 4 };

/* A batch is a letter in a file that both jobs append to. */
static err_t measure_letters(turns_t *turns, bool is_first, int log)
{
    int n;
    TRY(turns_begin_point(turns, "letters", is_first ? N_BATCHES : 2, &n));
    for (int i = 0; i < n; i++) {
        if (write(log, is_first ? "A" : "B", 1) != 1) RAISE(ERR_SYSTEM, "cannot write the log");
        TRY(turns_end_batch(turns));
    }
    return ERR_OK;
}

static err_t job(const char *folder, bool is_first, int log)
{
    comm_t *comm = NULL;
    turns_t *turns = NULL;
    char spec[128];
    snprintf(spec, sizeof spec, "%s:%s", folder, is_first ? "first" : "second");
    TRY(comm_alone(&comm));
    err_t err = turns_open(comm, spec, is_first ? "one" : "two", 60, &turns);
    if (err == ERR_OK) err = measure_letters(turns, is_first, log);
    turns_close(&turns);
    comm_close(&comm);
    return err;
}

static void test_order(void)
{
    char folder[] = "/tmp/test_bench_turns.XXXXXX", path[64], letters[4 * N_BATCHES] = "";
    int status = -1;
    if (!mkdtemp(folder)) abort();
    snprintf(path, sizeof path, "%s/log", folder);
    int log = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t second = fork();
    if (second == 0) _exit(job(folder, false, log));
    OK_CALL(job(folder, true, log), "the first job");
    OK(waitpid(second, &status, 0) == second && status == 0, "the second job");
    ssize_t n = pread(log, letters, sizeof letters - 1, 0);
    OK(n == 2 * N_BATCHES && strcmp(letters, "ABBAABBAABBAABBAABBA") == 0,
       "batches go A B B A, as many as the first job says: %s", letters);
    close(log);
    unlink(path);
    OK(rmdir(folder) == 0, "the folder is empty afterwards");
}

/* Marks one batch of ten as disturbed. */
static void test_disturbed(bool in_turn, int64_t n_expected)
{
    samples_t samples;
    bench_result_t result = {0};
    double *sorted = NULL;
    bench_parts_t parts = {0};
    if (samples_new(&parts, in_turn, &samples) != ERR_OK ||
        mem_new_array(BENCH_MAX_SAMPLES, sizeof *sorted, "samples", &sorted) != ERR_OK)
        abort();
    samples.n = (int64_t)N_BATCHES * PER_BATCH;
    samples.n_batches = N_BATCHES;
    for (int64_t i = 0; i < samples.n; i++) {
        samples.sec[i] = 1e-3 * (double)(1 + i % PER_BATCH);
        samples.batch[i] = (int32_t)(i / PER_BATCH);
    }
    samples.loads[3] = LOAD_CLOCK;
    samples_summarise(&samples, 0.02, sorted, &result);
    OK(result.n == n_expected && result.n_disturbed == PER_BATCH && result.disturbed == in_turn,
       "%s: a disturbed batch is %s", in_turn ? "in turns" : "alone", in_turn ? "kept" : "dropped");
    bench_result_free(&result);
    samples_free(&samples);
    mem_free(&sorted);
}

int main(void)
{
    tap_plan(6);
    test_order();
    test_disturbed(true, (int64_t)N_BATCHES * PER_BATCH);
    test_disturbed(false, (int64_t)(N_BATCHES - 1) * PER_BATCH);
    return tap_done();
}
