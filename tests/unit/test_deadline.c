/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Deadlines outside the watchdog: cluster/watch/deadline.h. Each case is a child process, which the deadline ends.
 * Neighbours are this program, run again: /proc shows the environment that a process was started with. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/watch/deadline.h"
#include "tests/tap.h"

enum { SAID_MAX = 4096, ENDED_BY_HOOK = 55 };

typedef struct child {
    pid_t pid;
    int status, from;
    char said[SAID_MAX];
} child_t;

static const char *self;

static void end_by_hook(err_t code)
{
    _exit(code == ERR_PEER ? ENDED_BY_HOOK : 99);
}

static void hang(err_t code)
{
    deadline_leave(code, 0.2);
    for (;;) pause();
}

static bool speak(void)
{
    return true;
}

static bool be_silent(void)
{
    return false;
}

static _Noreturn void wait_for_ever(void)
{
    for (;;) pause();
}

/* ---- Roles of a child ---- */

static void role_start(void)
{
    deadline_open(end_by_hook);
    wait_for_ever();
}

static void role_init(void)
{
    deadline_open(end_by_hook);
    deadline_enter(DEADLINE_INIT, "");
    wait_for_ever();
}

static void role_finalize(void)
{
    deadline_open(end_by_hook);
    deadline_set(0.2);
    deadline_enter(DEADLINE_INIT, "");
    deadline_enter(DEADLINE_RUN, "");
    deadline_enter(DEADLINE_FINALIZE, "; all is saved");
    wait_for_ever();
}

static void role_run(void)
{
    deadline_open(end_by_hook);
    deadline_set(0.05);
    deadline_enter(DEADLINE_RUN, "");
    if (write(STDERR_FILENO, "+", 1) < 0) _exit(99);
    clock_sleep(0.5);
    _exit(0);
}

/* In the stage INIT, without a deadline. */
static void role_waiting(void)
{
    unsetenv("DPTRAIN_TIMEOUT_START");
    deadline_open(end_by_hook);
    deadline_enter(DEADLINE_INIT, "");
    if (write(STDERR_FILENO, "+", 1) < 0) _exit(99);
    wait_for_ever();
}

static void role_stopped(void)
{
    unsetenv("DPTRAIN_TIMEOUT_START");
    deadline_open(end_by_hook);
    deadline_enter(DEADLINE_INIT, "");
    raise(SIGSTOP);
    wait_for_ever();
}

/* Stopped in the stage INIT, and continued only to leave. */
static void role_continued(void)
{
    deadline_open(end_by_hook);
    deadline_enter(DEADLINE_INIT, "");
    deadline_leave(ERR_PEER, 600);
    alarm(20); /* the failure of this test */
    raise(SIGSTOP);
    while (!deadline_stood_still()) clock_sleep(0.01);
    _exit(0);
}

/* Stopped in the stage INIT, and ended before the deadline's thread may run. Prints its last phase. */
static void role_ended(void)
{
    char job[64], path[128], text[LAST_PHASE_TEXT] = "";
    snprintf(job, sizeof job, "test-deadline.%d", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm/dptrain-%s.0", job);
    setenv("DPTRAIN_JOB", job, 1);
    last_phase_open();
    deadline_open(end_by_hook);
    deadline_enter(DEADLINE_INIT, "");
    deadline_leave(ERR_PEER, 600);
    raise(SIGSTOP);
    deadline_check_stopped();
    FILE *page = fopen(path, "r");
    if (page && fgets(text, sizeof text, page)) fputs(text, stderr);
    last_phase_close();
    _exit(deadline_stood_still() ? 0 : 1);
}

/* Started, and busy in the stage RUN. */
static void role_busy(void)
{
    deadline_open(end_by_hook);
    deadline_enter(DEADLINE_RUN, "");
    if (write(STDERR_FILENO, "+", 1) < 0) _exit(99);
    wait_for_ever();
}

static void role_call(void)
{
    deadline_open(end_by_hook);
    deadline_set(1);
    for (int i = 0; i < 250; i++) {
        deadline_begin("a short call", speak);
        clock_sleep(0.005);
        deadline_end();
    }
    deadline_begin("writing records to /mnt/out", speak);
    wait_for_ever();
}

static void role_silent(void)
{
    deadline_open(end_by_hook);
    deadline_set(0.1);
    deadline_begin("writing records", be_silent);
    wait_for_ever();
}

static void role_hanging_abort(void)
{
    deadline_open(hang);
    deadline_set(0.1);
    deadline_begin("writing records", speak);
    wait_for_ever();
}

static void role_leave(void)
{
    deadline_open(end_by_hook);
    deadline_leave(ERR_DATA, 600);
    deadline_leave(ERR_PEER, 0.1);
    wait_for_ever();
}

static void note_blocked(bool begins)
{
    if (write(STDERR_FILENO, begins ? "+" : "-", 1) < 0) _exit(99);
    if (begins) log_last_words();
}

/* Prints into a full pipe. */
static void role_blocked(void)
{
    int ends[2];
    char block[4096] = "";
    if (pipe2(ends, O_NONBLOCK) != 0) _exit(99);
    while (write(ends[1], block, sizeof block) > 0) continue;
    dup2(ends[1], STDOUT_FILENO);
    log_set_blocked(note_blocked);
    log_info("a message");
    _exit(0);
}

static void role_early_error(void)
{
    log_early_error("only here");
    _exit(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} roles[] = {{"start", role_start},     {"waiting", role_waiting},
             {"init", role_init},       {"finalize", role_finalize},
             {"run", role_run},         {"stopped", role_stopped},
             {"busy", role_busy},       {"call", role_call},
             {"silent", role_silent},   {"hanging-abort", role_hanging_abort},
             {"leave", role_leave},     {"early-error", role_early_error},
             {"blocked", role_blocked}, {"continued", role_continued},
             {"ended", role_ended}};

/* ---- Running them ---- */

/* rank −1: without a launcher. */
static void begin(child_t *c, const char *role, const char *job, int rank, int size)
{
    int ends[2];
    char number[16], count[16];
    if (pipe(ends) != 0) exit(99);
    c->pid = fork();
    c->from = ends[0];
    if (c->pid > 0) {
        close(ends[1]);
        return;
    }
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    snprintf(number, sizeof number, "%d", rank);
    snprintf(count, sizeof count, "%d", size);
    if (rank >= 0) {
        setenv("PMIX_NAMESPACE", job, 1);
        setenv("PMIX_RANK", number, 1);
        setenv("OMPI_COMM_WORLD_RANK", number, 1);
        setenv("OMPI_COMM_WORLD_SIZE", count, 1);
        setenv("OMPI_COMM_WORLD_LOCAL_SIZE", count, 1);
    }
    setenv("DPTRAIN_TIMEOUT_START", "0.2", 1);
    execl(self, self, role, (char *)NULL);
    _exit(99);
}

/* Waits for the byte of a neighbour that is in place. */
static void await(const child_t *c)
{
    char byte;
    if (read(c->from, &byte, 1) != 1) exit(99);
}

static void end(child_t *c)
{
    size_t n = 0;
    ssize_t got;
    while (n < SAID_MAX - 1 && (got = read(c->from, c->said + n, SAID_MAX - 1 - n)) > 0) n += (size_t)got;
    close(c->from);
    waitpid(c->pid, &c->status, 0);
}

static void end_neighbour(child_t *c)
{
    kill(c->pid, SIGKILL);
    end(c);
}

static bool ended(const child_t *c, int code, const char *words)
{
    bool ok = WIFEXITED(c->status) && WEXITSTATUS(c->status) == code && strstr(c->said, words);
    if (!ok) printf("# status %d, said: %s\n", c->status, c->said);
    return ok;
}

static void test_neighbours(void)
{
    static child_t stopped, busy, waiting[2], misses, ends, last, lowest;
    begin(&stopped, "stopped", "g", 1, 4);
    begin(&busy, "busy", "g", 2, 4);
    begin(&waiting[0], "waiting", "h", 0, 2);
    begin(&waiting[1], "waiting", "i", 1, 2);
    waitpid(stopped.pid, &stopped.status, WUNTRACED);
    await(&busy);
    await(&waiting[0]);
    await(&waiting[1]);
    begin(&last, "init", "h", 1, 2);
    begin(&lowest, "init", "i", 0, 2);
    begin(&misses, "init", "g", 0, 4);
    end(&misses);
    begin(&ends, "finalize", "g", 3, 4);
    end(&ends);
    end(&last);
    end(&lowest);
    OK(ended(&misses, ENDED_BY_HOOK, "in MPI_Init; ") && strstr(misses.said, "rank 1 on ") &&
           strstr(misses.said, ") is stopped (SIGSTOP") && !strstr(misses.said, "rank 2") &&
           strstr(misses.said, "; rank 3 on ") && strstr(misses.said, " is not running (rank 0 on "),
       "names a stopped rank, and one that is gone");
    OK(ended(&ends, ENDED_BY_HOOK, "has not reached MPI_Finalize") && strstr(ends.said, "rank 2 on "),
       "names a rank that is elsewhere");
    OK(ended(&lowest, ENDED_BY_HOOK, "no rank is missing"), "all are there");
    OK(ended(&last, ENDED_BY_HOOK, "") && !last.said[0], "one rank of a host reports");
    end_neighbour(&stopped);
    end_neighbour(&busy);
    end_neighbour(&waiting[0]);
    end_neighbour(&waiting[1]);
}

/* mpirun continues a stopped rank only to end it. */
static void test_stopped(void)
{
    static child_t continued, at_end;
    begin(&continued, "continued", "j", 0, 1);
    begin(&at_end, "ended", "k", 0, 1);
    waitpid(continued.pid, &continued.status, WUNTRACED);
    waitpid(at_end.pid, &at_end.status, WUNTRACED);
    clock_sleep(0.3);
    kill(continued.pid, SIGCONT);
    kill(at_end.pid, SIGCONT);
    end(&continued);
    end(&at_end);
    OK(ended(&continued, 0, ""), "a rank that leaves notes that it was stopped");
    OK(ended(&at_end, 0, "MPI_Init, stopped for "), "even if its deadline's thread does not run again");
}

static void test_all(void)
{
    enum { START, NONE, FINALIZE, RUN, CALL, SILENT, HANGING, LEAVE, BLOCKED, FAILED_0, FAILED_1, N };
    static child_t c[N];
    begin(&c[START], "start", "a", 0, 1);
    begin(&c[NONE], "run", "", -1, 1);
    begin(&c[FINALIZE], "finalize", "b", 0, 1);
    begin(&c[RUN], "run", "c", 0, 1);
    begin(&c[CALL], "call", "", -1, 1);
    begin(&c[SILENT], "silent", "d", 1, 2);
    begin(&c[HANGING], "hanging-abort", "", -1, 1);
    begin(&c[LEAVE], "leave", "", -1, 1);
    begin(&c[BLOCKED], "blocked", "", -1, 1);
    begin(&c[FAILED_0], "early-error", "e", 0, 2);
    begin(&c[FAILED_1], "early-error", "f", 1, 2);
    test_neighbours(); /* meanwhile */
    test_stopped();
    for (int i = 0; i < N; i++) end(&c[i]);
    OK(ended(&c[START], ENDED_BY_HOOK, "timed out after 0.2 s before MPI_Init, while reading options"),
       "the start has a deadline");
    OK(ended(
           &c[FINALIZE], ENDED_BY_HOOK,
           "timed out after 0.2 s in MPI_Finalize; no rank is missing, so one of them or the launcher hangs; "
           "all is saved"),
       "so has the end");
    OK(ended(&c[RUN], 0, "+") && ended(&c[NONE], 0, "+"),
       "nothing is timed in between, or without a launcher");
    OK(ended(&c[CALL], ENDED_BY_HOOK,
             "timed out after 0.2 s in \"writing records to /mnt/out\": the file system does not answer") &&
           !strstr(c[CALL].said, "short"),
       "a call that does not return; those that do are not added up");
    OK(ended(&c[SILENT], ENDED_BY_HOOK, "") && !c[SILENT].said[0], "silent while another rank reports");
    OK(ended(&c[HANGING], ERR_PEER, "writing records"), "the process ends although aborting the job hangs");
    OK(ended(&c[LEAVE], ERR_DATA, ""), "the first code and the earliest end of a decision to leave");
    OK(ended(&c[BLOCKED], 0, "+-"), "a reader that keeps a message waiting is noted");
    OK(ended(&c[FAILED_0], 0, "dptrain: error: only here") &&
           ended(&c[FAILED_1], 0, "error: only here (rank 1 on "),
       "an error before there is a communicator is printed by every rank");
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(argv[1], roles[i].name) == 0) roles[i].run();
    self = argv[0];
    tap_plan(15);
    test_all();
    return tap_done();
}
