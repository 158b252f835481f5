/* SPDX-License-Identifier: MIT */
/* The owner of an output folder: one job at a time, taken over from the dead and the silent only.
 * RUN np=0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "store/owner/owner.h"
#include "tests/tap.h"

static const owner_times_t patient = {.renew_sec = 0.02, .stale_sec = 1e6, .grace_sec = 0};
static const owner_times_t hasty = {.renew_sec = 0.02, .stale_sec = 0.1, .grace_sec = 1e6};

static char folder[] = "/tmp/dptrain-owner-XXXXXX", path[FS_PATH_MAX], next_path[FS_PATH_MAX];

static void spit(const char *where, const char *text)
{
    FILE *file = fopen(where, "w");
    ASSERT(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static const char *slurp(void)
{
    static char text[4096];
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = '\0';
    return text;
}

static owner_t *open_as(const char *job, const owner_times_t *times)
{
    owner_t *o;
    ASSERT(owner_open(folder, job, times, &o) == ERR_OK);
    return o;
}

/* The result of the first call that decides. */
static err_t decide(owner_t *o)
{
    bool taken = false;
    for (int i = 0; i < 6000 && !taken; i++) {
        TRY(owner_try(o, &taken));
        if (!taken) clock_sleep(0.01);
    }
    return taken ? ERR_OK : ERR_PEER;
}

static bool says(const char *text)
{
    if (strstr(err_message(), text)) return true;
    printf("# says: %s\n", err_message());
    return false;
}

static void test_one_owner(void)
{
    char pid[32];
    bool taken = false;
    owner_t *a = open_as("a", &patient), *b = open_as("b", &patient);
    OK(owner_try(a, &taken) == ERR_OK && taken && strstr(slurp(), "\"job\":\"a\""), "a free folder is taken");
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    OK(decide(b) == ERR_USAGE && says("job a (host ") && says(pid) && says(folder),
       "another job is refused, with the owner's name");
    OK(owner_check(a) == ERR_OK && owner_verify(a) == ERR_OK && owner_check(NULL) == ERR_OK,
       "the owner goes on");
    owner_close(&a);
    OK(!fs_exists(path) && !a, "at the end the file is removed");
    OK(decide(b) == ERR_OK && strstr(slurp(), "\"job\":\"b\""), "then the other one takes the folder");
    owner_close(&b);
}

static void test_same_job(void)
{
    bool taken = false;
    owner_t *first = open_as("a", &patient), *second = open_as("a", &patient);
    ASSERT(decide(first) == ERR_OK);
    OK(owner_try(second, &taken) == ERR_OK && taken, "a later process of the same job takes over at once");
    OK(owner_verify(first) == ERR_SYSTEM && says("now belongs to job a") && owner_check(first) == ERR_SYSTEM,
       "the former owner may write no more");
    owner_close(&first);
    OK(owner_verify(second) == ERR_OK && fs_exists(path), "and leaves the new owner's file alone");
    owner_close(&second);
}

static void test_thread_notices(void)
{
    owner_t *first = open_as("a", &patient), *second = open_as("a", &patient);
    ASSERT(decide(first) == ERR_OK && decide(second) == ERR_OK);
    err_t err = ERR_OK;
    for (int i = 0; i < 6000 && err == ERR_OK; i++) {
        err = owner_check(first);
        clock_sleep(0.01);
    }
    OK(err == ERR_SYSTEM, "the owner's thread notices that the folder was taken");
    owner_close(&first);
    owner_close(&second);
}

/* A child takes the folder and dies without leaving it. */
static void leave_dead_owner(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(decide(open_as("dead", &patient)) == ERR_OK ? 0 : 1);
    int status;
    ASSERT(child > 0 && waitpid(child, &status, 0) == child && status == 0 && fs_exists(path));
}

static void test_dead(void)
{
    bool taken = false;
    leave_dead_owner();
    owner_t *b = open_as("b", &patient);
    OK(owner_try(b, &taken) == ERR_OK && taken, "a dead process of this host is succeeded at once");
    owner_close(&b);

    /* The number belongs to another process now. */
    char text[4096], *at;
    owner_t *a = open_as("a", &patient);
    ASSERT(decide(a) == ERR_OK);
    snprintf(text, sizeof text, "%s", slurp());
    owner_close(&a);
    ASSERT((at = strstr(text, "\"process_start\":")));
    at += strlen("\"process_start\":");
    *at = *at == '9' ? '8' : (char)(*at + 1); /* no number begins with 0 */
    spit(path, text);
    b = open_as("b", &patient);
    OK(owner_try(b, &taken) == ERR_OK && taken, "so is one whose number was given to another process");
    owner_close(&b);

    /* The same on another host: nothing is known about its processes. */
    leave_dead_owner();
    snprintf(text, sizeof text, "%s", slurp());
    ASSERT((at = strstr(text, "\"boot\":\"")));
    at[strlen("\"boot\":\"")] ^= 1;
    spit(path, text);
    b = open_as("b", &patient);
    OK(owner_try(b, &taken) == ERR_OK && !taken && owner_try(b, &taken) == ERR_OK && !taken,
       "a process of another boot may be alive");
    text[strlen(text) - 3] = '1';
    spit(path, text);
    OK(owner_try(b, &taken) == ERR_USAGE && says("job dead"), "and is, when its file changes");
    owner_close(&b);
    unlink(path);
}

static const char elsewhere[] =
    "{\"job\":\"j\",\"host\":\"elsewhere\",\"pid\":7,\"since\":\"2026-01-31T12:00:00Z\",\"token\":\"t\","
    "\"boot\":\"x\",\"pid_namespace\":\"y\",\"process_start\":9,\"beat\":1}\n";

static void test_stale(void)
{
    char text[OWNER_TEXT_MAX];
    bool taken = false;
    spit(path, elsewhere);
    owner_t *b = open_as("b", &hasty);
    OK(owner_try(b, &taken) == ERR_OK && !taken, "a host that is not seen is waited for");
    owner_describe_wait(b, text);
    OK(strstr(text, "job j (host elsewhere, process 7, since 2026-01-31T12:00:00Z)") && strstr(text, folder),
       "the wait is explained");
    OK(decide(b) == ERR_OK && strstr(slurp(), "\"job\":\"b\""),
       "after the time without a change it is taken");
    owner_close(&b);
    spit(path, "not json");
    b = open_as("b", &hasty);
    OK(owner_try(b, &taken) == ERR_OK && !taken && decide(b) == ERR_OK, "so is a file that says nothing");
    owner_close(&b);
    /* What a process leaves that dies while it takes the folder. */
    spit(next_path, elsewhere);
    b = open_as("b", &hasty);
    OK(owner_try(b, &taken) == ERR_OK && !taken && decide(b) == ERR_OK && !fs_exists(next_path),
       "a process that died while taking the folder does not block it");
    owner_close(&b);
}

static void test_thread_works(void)
{
    char before[4096];
    owner_t *a = open_as("a", &patient);
    ASSERT(decide(a) == ERR_OK);
    snprintf(before, sizeof before, "%s", slurp());
    bool changed = false, restored = false;
    for (int i = 0; i < 6000 && !changed; i++) {
        clock_sleep(0.01);
        changed = strcmp(slurp(), before) != 0;
    }
    OK(changed && strlen(slurp()) == strlen(before), "the thread renews the file in place");
    unlink(path);
    for (int i = 0; i < 6000 && !restored; i++) {
        clock_sleep(0.01);
        restored = fs_exists(path) && strstr(slurp(), "\"job\":\"a\"");
    }
    OK(restored && owner_verify(a) == ERR_OK, "and makes it again if it was deleted");
    owner_close(&a);
    OK(!fs_exists(path), "and not after the end");
}

/* Exactly one of many processes takes a folder, whose owner is dead or which is free. */
/* Training steps go on meanwhile, and count allocations. */
static void test_renewals(void)
{
    char before[4096];
    owner_t *o = open_as("a", &patient);
    ASSERT(decide(o) == ERR_OK);
    int64_t n_allocations = mem_count();
    int n_renewals = 0;
    snprintf(before, sizeof before, "%s", slurp());
    for (int i = 0; i < 6000 && n_renewals < 3; i++) {
        clock_sleep(0.01);
        if (strcmp(before, slurp()) == 0) continue;
        n_renewals++;
        snprintf(before, sizeof before, "%s", slurp());
    }
    OK(n_renewals == 3 && mem_count() == n_allocations, "renewals allocate nothing");
    owner_close(&o);
}

static void test_race(bool dead)
{
    enum { N = 8, ROUNDS = 5 };
    int n_wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int go[2], told[2], hold[2];
        ASSERT(pipe(go) == 0 && pipe(told) == 0 && pipe(hold) == 0);
        if (dead) leave_dead_owner();
        fflush(stdout);
        for (int i = 0; i < N; i++) {
            if (fork() != 0) continue;
            char job[8], byte;
            close(go[1]), close(hold[1]);
            snprintf(job, sizeof job, "%d", i);
            owner_t *o = open_as(job, &patient);
            if (read(go[0], &byte, 1) != 0) _exit(1); /* all start when the pipe closes */
            byte = decide(o) == ERR_OK ? '1' : '0';
            if (write(told[1], &byte, 1) != 1 || read(hold[0], &byte, 1) != 0) _exit(1);
            owner_close(&o);
            _exit(0);
        }
        close(go[0]), close(hold[0]), close(told[1]), close(go[1]);
        int n_taken = 0;
        char byte;
        for (int i = 0; i < N; i++) n_taken += read(told[0], &byte, 1) == 1 && byte == '1';
        close(hold[1]), close(told[0]);
        for (int i = 0; i < N; i++) wait(NULL);
        n_wrong += n_taken != 1 || fs_exists(path) || fs_exists(next_path);
    }
    OK(n_wrong == 0, "of %d processes one takes a folder %s", N, dead ? "of a dead one" : "that is free");
}

int main(void)
{
    ASSERT(mkdtemp(folder) && fs_join(path, folder, OWNER_FILE) == ERR_OK &&
           fs_join(next_path, folder, OWNER_FILE ".next") == ERR_OK);
    tap_plan(5 + 3 + 1 + 4 + 5 + 3 + 1 + 2 + 1);
    test_one_owner();
    test_same_job();
    test_thread_notices();
    test_dead();
    test_stale();
    test_thread_works();
    test_renewals();
    test_race(false);
    test_race(true);
    OK(rmdir(folder) == 0 && mem_live() == 0, "nothing is left");
    return tap_done();
}
