/* SPDX-License-Identifier: MIT */
/* Follows the fault in DPTRAIN_FAULT_FILE while the ranks run, so that one job can be struck many times; waits for phases; and
 * flips bits in the weights, whose place the comparison of replicas gives away. */
#define _GNU_SOURCE
#include "shim.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_SPEC = 512, PART_WEIGHTS = 0, PART_MOMENTUM, PART_STATES, N_PARTS };

static bool follows;
static char file_path[PATH_MAX], phase_path[PATH_MAX], last_spec[LONGEST_SPEC];

/* Where the parts are, and which one of them a thread has hashed last, of those that follow each other. */
static struct {
    void *data[N_PARTS];
    size_t n_bytes[N_PARTS];
} seen;
static _Thread_local struct {
    int part; /* -1: another kind of hash */
    uint64_t hash;
} last = {.part = -1};
/* The flip that is due, and where. */
static atomic_int due_part = -1;

static void wait_ms(double ms)
{
    struct timespec left = {(time_t)(ms / 1e3), (long)(1e6 * (ms - 1e3 * (double)(time_t)(ms / 1e3)))};
    nanosleep(&left, NULL);
}

bool shim_sleeps(void)
{
    return file_path[0] != '\0';
}

bool shim_follows(void)
{
    return follows;
}

void shim_nap(void)
{
    wait_ms(1);
}

/* By system calls: the shim's own files are not the job's. */
static ssize_t read_file(const char *path, char *out, size_t n_out)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = syscall(SYS_read, fd, out, n_out - 1);
    syscall(SYS_close, fd);
    out[n > 0 ? n : 0] = '\0';
    return n;
}

static void follow_file(void)
{
    char text[LONGEST_SPEC];
    if (read_file(file_path, text, sizeof text) <= 0 || !strcmp(text, last_spec)) return;
    memcpy(last_spec, text, sizeof last_spec);
    text[strcspn(text, "\n")] = '\0';
    shim_read_fault(text);
}

static void *control_main(void *unused)
{
    (void)unused;
    for (int turn = 0;; turn++) {
        char text[80];
        const char *wanted = shim_wanted_phase();
        wait_ms(wanted ? 0.2 : 5);
        if (!wanted || turn % 50 == 0) follow_file();
        if (wanted && read_file(phase_path, text, sizeof text) > 0 && strstr(text, wanted))
            shim_strike("phase", text, 0, NULL);
        int part = atomic_exchange(&due_part, -1);
        if (part < 0) continue;
        wait_ms(1e3 * shim_after());
        if (shim_strike(part == PART_WEIGHTS ? "weights" : "momentum", NULL, 0, NULL) == ACT_FLIP)
            shim_flip(seen.data[part], seen.n_bytes[part]);
    }
    return NULL;
}

void shim_control_begin(void)
{
    const char *path = getenv("DPTRAIN_FAULT_FILE"), *job = getenv("DPTRAIN_JOB");
    sigset_t all, before;
    pthread_t thread;
    if (!path) return;
    snprintf(file_path, sizeof file_path, "%s", path);
    snprintf(phase_path, sizeof phase_path, "/dev/shm/dptrain-%s.%s", job ? job : "",
             getenv("OMPI_COMM_WORLD_RANK"));
    follow_file();
    follows = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, control_main, NULL) == 0) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void shim_hash_begins(const void *data, size_t n_bytes, uint64_t seed)
{
    if (seed == 0)
        last.part = n_bytes >= 4096 ? PART_WEIGHTS : -1;
    else
        last.part = last.part >= 0 && seed == last.hash && last.part < PART_STATES ? last.part + 1 : -1;
    if (last.part < 0) return;
    memcpy(&seen.data[last.part], &data, sizeof data);
    seen.n_bytes[last.part] = n_bytes;
    if (last.part == PART_STATES && shim_strikes("states") &&
        shim_strike("states", NULL, n_bytes, NULL) == ACT_FLIP)
        shim_flip(seen.data[PART_STATES], n_bytes);
}

void shim_hash_ends(uint64_t hash)
{
    last.hash = hash;
    if (last.part != PART_MOMENTUM) return;
    if (shim_strikes("compared") && shim_strike("compared", NULL, 0, NULL) == ACT_FLIP)
        shim_flip(seen.data[PART_WEIGHTS], seen.n_bytes[PART_WEIGHTS]);
    if (shim_strikes("weights")) atomic_store(&due_part, PART_WEIGHTS);
    if (shim_strikes("momentum")) atomic_store(&due_part, PART_MOMENTUM);
}
