/* SPDX-License-Identifier: MIT */
/* The watchdog with simulated neighbours: each case runs in a child process, which the watchdog may end. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/watch/watchdog.h"
#include "tests/tap.h"

enum { N_SLOTS = 4, ENDED_BY_HOOK = 55 };

static watchdog_slot_t slots[N_SLOTS];

static void abort_job(err_t code)
{
    _exit(code == ERR_PEER ? ENDED_BY_HOOK : 99);
}

/* A neighbour whose own watchdog woke a moment ago (or in the future: this case may run slowly). */
static void neighbour(int i, long long sequence, bool waiting, const char *doing)
{
    atomic_store(&slots[i].rank_plus_1, 4 + i + 1);
    atomic_store(&slots[i].sequence, sequence);
    atomic_store(&slots[i].waiting, waiting);
    atomic_store(&slots[i].pulse_ms, (long long)(1e3 * (clock_sec() + 1000)));
    snprintf(slots[i].doing, sizeof slots[i].doing, "%s", doing);
}

static void start_with(double timeout_sec, double stall_sec, int n_hosts)
{
    topo_t topo = {
        .rank = 4, .size = 4 + N_SLOTS, .n_hosts = n_hosts, .host = n_hosts - 1, .local_size = N_SLOTS};
    strcpy(topo.host_name, "node-b");
    log_set_rank(topo.rank, topo.size, topo.host_name);
    watchdog_limits_t limits = {.timeout_sec = timeout_sec, .stall_sec = stall_sec, .abort_job = abort_job};
    if (watchdog_start(slots, N_SLOTS, 0, &topo, &limits) != ERR_OK) _exit(98);
}

static void start(double timeout_sec, int n_hosts)
{
    start_with(timeout_sec, 0, n_hosts);
}

/* Three waits that end, and a fourth that does not: collective 4. */
static _Noreturn void wait_for_ever(void)
{
    for (int i = 0; i < 3; i++) {
        watchdog_enter("an earlier wait");
        watchdog_leave();
    }
    watchdog_enter("gradient allreduce, which has a name longer than the slot's text");
    for (;;) pause();
}

static void case_missing(void)
{
    neighbour(1, 3, true, "an earlier wait"); /* held up like this rank */
    neighbour(2, 3, false, "reading data");
    neighbour(3, 5, true, "the next one");
    start(0.2, 1);
    wait_for_ever();
}

/* Slot 3 stays zero. */
static void case_not_started(void)
{
    neighbour(1, 4, true, "gradient allreduce");
    neighbour(2, 4, true, "gradient allreduce");
    start(0.2, 1);
    wait_for_ever();
}

static void case_stopped(void)
{
    for (int i = 1; i < N_SLOTS; i++) neighbour(i, 4, true, "gradient allreduce");
    atomic_store(&slots[2].pulse_ms, (long long)(1e3 * (clock_sec() - 50)));
    start(0.2, 1);
    wait_for_ever();
}

/* No rank of this host is the cause: the message then tells what the others are doing. */
static void case_scattered(void)
{
    neighbour(1, 3, true, "an earlier wait");
    neighbour(2, 4, false, "writing a checkpoint");
    neighbour(3, 4, true, "gradient allreduce");
    start(0.2, 1);
    wait_for_ever();
}

static void case_other_host(void)
{
    for (int i = 1; i < N_SLOTS; i++) neighbour(i, 4, true, "gradient allreduce");
    start(0.2, 2);
    wait_for_ever();
}

/* No host waits: the GPUs do, in their sixth collective. */
static void case_on_device(void)
{
    for (int i = 1; i < N_SLOTS; i++) {
        neighbour(i, 4, false, "computing step 7");
        atomic_store(&slots[i].on_device, i == 3 ? 5 : 6);
    }
    start(1000, 1);
    watchdog_device_entered(6);
    watchdog_device_expired("gradient allreduce", 6, 0);
}

/* The same in a recorded step: no sequence numbers, but each rank knows its own phase. */
static void case_recorded(void)
{
    for (int i = 1; i < N_SLOTS; i++) neighbour(i, 4, false, i == 2 ? "evaluating" : "computing step 7");
    start(1000, 1);
    watchdog_phase("computing step 7");
    watchdog_device_expired("gradient allreduce", WATCHDOG_RECORDED, 0);
}

/* Long before the deadline. The wait ends after the first warning. */
static void case_stall(void)
{
    neighbour(1, 4, true, "gradient allreduce");
    neighbour(2, 3, false, "reading the data of step 17");
    neighbour(3, 4, true, "gradient allreduce");
    start_with(1000, 0.1, 1);
    watchdog_set_sequence(3);
    watchdog_enter("gradient allreduce");
    while (!atomic_load(&slots[0].stall)) clock_sleep(0.01);
    watchdog_leave();
    for (;;) pause();
}

static void case_stall_elsewhere(void)
{
    for (int i = 1; i < N_SLOTS; i++) neighbour(i, 4, true, "gradient allreduce");
    start_with(1000, 0.1, 2);
    wait_for_ever();
}

static void case_stall_on_device(void)
{
    for (int i = 1; i < N_SLOTS; i++) {
        neighbour(i, 4, false, "computing step 7");
        atomic_store(&slots[i].on_device, i == 3 ? 5 : 6);
    }
    start_with(1000, 60, 1);
    watchdog_device_entered(6);
    const double waited[] = {0, 59, 60.5, 61, 119, 121, 0};
    for (int i = 0; i < 7; i++) watchdog_device_waits("gradient allreduce", 6, waited[i]);
    _exit(0);
}

/* A planned wait; a limit of 0, and one that is the deadline: no warning, only the error at the deadline. */
static void case_stall_planned(void)
{
    for (int i = 1; i < N_SLOTS; i++) neighbour(i, 1, false, "working");
    start_with(0.3, 0.1, 1);
    watchdog_enter_planned("preparing");
    for (;;) pause();
}

static void case_stall_off(void)
{
    start_with(0.2, 0, 1);
    wait_for_ever();
}

static void case_stall_late(void)
{
    start_with(0.2, 0.2, 1);
    wait_for_ever();
}

static void case_word_taken(void)
{
    case_not_started();
}

/* Many waits, each far shorter than the deadline, but longer in total. */
static void case_in_time(void)
{
    bool named = true;
    start(1, 1);
    for (int i = 0; i < 50; i++) {
        watchdog_enter("a short wait");
        named &= strcmp(slots[0].doing, "a short wait") == 0;
        clock_sleep(0.03);
        watchdog_leave();
        watchdog_phase("step %d of a phase with a name far longer than the text of a slot can be", i);
    }
    watchdog_stop();
    watchdog_enter("after the end");
    watchdog_leave();
    bool counted = atomic_load(&slots[0].sequence) == 50 && atomic_load(&slots[0].rank_plus_1) == 5 &&
                   !atomic_load(&slots[0].waiting);
    bool kept = strncmp(slots[0].doing, "step 49 of a phase", 18) == 0 && !slots[0].doing[WATCHDOG_TEXT - 1];
    _exit(counted && kept && named && !atomic_load(&slots[0].speaker) ? 0 : 97);
}

/* No wait: computing may take any time. */
static void case_computing(void)
{
    start(0.2, 1);
    watchdog_enter("a wait that ends");
    watchdog_leave();
    clock_sleep(0.8);
    watchdog_stop();
    _exit(0);
}

typedef struct child {
    void (*run)(void);
    pid_t pid;
    int pipe;
    int status;
    char said[4096];
} child_t;

static void begin(child_t *child)
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0) exit(1);
    child->pid = fork();
    if (child->pid < 0) exit(1);
    if (child->pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        child->run();
        _exit(96);
    }
    close(ends[1]);
    child->pipe = ends[0];
}

/* Collects what the child says until it ends, or has said `words`: then it is killed. */
static void end_at(child_t *child, const char *words)
{
    size_t n = 0;
    ssize_t got;
    while (n < sizeof child->said - 1 &&
           (got = read(child->pipe, child->said + n, sizeof child->said - 1 - n)) > 0) {
        n += (size_t)got;
        child->said[n] = '\0';
        if (words && strstr(child->said, words)) kill(child->pid, SIGKILL);
    }
    child->said[n] = '\0';
    close(child->pipe);
    waitpid(child->pid, &child->status, 0);
}

static void end(child_t *child)
{
    end_at(child, NULL);
}

static bool exited(const child_t *child, int code)
{
    return WIFEXITED(child->status) && WEXITSTATUS(child->status) == code;
}

static bool said(const child_t *child, const char *words)
{
    bool found = strstr(child->said, words) != NULL;
    if (!found) printf("# wanted: %s\n# said: %s\n", words, child->said);
    return found;
}

static void test_messages(child_t *missing, child_t *not_started, child_t *stopped, child_t *other_host)
{
    OK(exited(missing, ENDED_BY_HOOK), "a rank is missing: the job is aborted with ERR_PEER");
    OK(said(missing,
            "timed out after 0.2 s in \"gradient allreduce, which has a name longer than the slot's text\" "
            "(collective 4)"),
       "the message names the wait");
    OK(said(missing, "rank 6 on node-b did not arrive; it was last in \"reading data\""),
       "and the missing rank");
    OK(!strstr(missing->said, "rank 5 on") && !strstr(missing->said, "rank 7 on"), "and no other rank");
    OK(said(missing, "(rank 4 on node-b)"), "and the reporting rank");
    OK(exited(not_started, ENDED_BY_HOOK) && said(not_started, "local rank 3 of node-b has not started"),
       "a rank that never started");
    OK(exited(stopped, ENDED_BY_HOOK) &&
           said(stopped,
                "rank 6 on node-b arrived but then stopped; it was last in \"gradient allreduce\" and has "
                "not run for 5"),
       "a rank that arrived and was stopped");
    OK(exited(other_host, ENDED_BY_HOOK) &&
           said(other_host, "no rank is missing on node-b; check the other hosts"),
       "all ranks of this host arrived");
}

static int count(const char *text, const char *words)
{
    int n = 0;
    while ((text = strstr(text, words)) != NULL) {
        n++;
        text += strlen(words);
    }
    return n;
}

static void test_stalls(void)
{
    enum { STALL, ELSEWHERE, ON_DEVICE, PLANNED, OFF, LATE, N };
    static child_t cases[N] = {{.run = case_stall},           {.run = case_stall_elsewhere},
                               {.run = case_stall_on_device}, {.run = case_stall_planned},
                               {.run = case_stall_off},       {.run = case_stall_late}};
    atomic_store(&slots[0].speaker, 0);
    for (int i = 0; i < N; i++) begin(&cases[i]);
    end_at(&cases[STALL], "is over");
    end_at(&cases[ELSEWHERE], "(--timeout)");
    for (int i = ON_DEVICE; i < N; i++) end(&cases[i]);
    OK(said(&cases[STALL], "dptrain: warning: stall: waiting for 0.") &&
           said(&cases[STALL],
                "s in \"gradient allreduce\" (collective 4); rank 6 on node-b did not arrive; it was "
                "last in \"reading the data of step 17\"; the job ends after 1000 s (--timeout) "
                "(rank 4 on node-b)\n"),
       "a stall names the wait, and the missing rank with its phase, long before the deadline");
    OK(said(&cases[STALL], "stall: the wait of ") && !strstr(cases[STALL].said, "error"), "and its end");
    OK(said(&cases[ELSEWHERE], "; no rank is missing on node-b; check the other hosts; the job ends"),
       "a rank is missing on another host");
    OK(exited(&cases[ON_DEVICE], 0) && count(cases[ON_DEVICE].said, "\n") == 3 &&
           said(&cases[ON_DEVICE],
                "stall: waiting for 60 s in \"gradient allreduce\" (the GPU's collective 6); rank 7 "
                "on node-b did not arrive; it was last in \"computing step 7\"") &&
           said(&cases[ON_DEVICE], "stall: waiting for 121 s in") &&
           said(&cases[ON_DEVICE], "stall: the wait of 121 s is over"),
       "a wait of the GPUs; again when it has doubled");
    bool silent = true;
    for (int i = PLANNED; i < N; i++)
        silent &= exited(&cases[i], ENDED_BY_HOOK) && !strstr(cases[i].said, "stall");
    OK(silent, "none in a planned wait, with a limit of 0, or of the deadline");
}

int main(void)
{
    tap_plan(22);
    enum {
        MISSING,
        NOT_STARTED,
        STOPPED,
        OTHER_HOST,
        SCATTERED,
        WORD_TAKEN,
        IN_TIME,
        COMPUTING,
        ON_DEVICE,
        RECORDED,
        N_CASES
    };
    static child_t cases[N_CASES] = {
        {.run = case_missing},   {.run = case_not_started}, {.run = case_stopped}, {.run = case_other_host},
        {.run = case_scattered}, {.run = case_word_taken},  {.run = case_in_time}, {.run = case_computing},
        {.run = case_on_device}, {.run = case_recorded},
    };
    for (int i = 0; i < N_CASES; i++) {
        atomic_store(&slots[0].speaker, i == WORD_TAKEN ? 1 + 5 : 0); /* copied by fork */
        begin(&cases[i]);
    }
    for (int i = 0; i < N_CASES; i++) end(&cases[i]);
    test_messages(&cases[MISSING], &cases[NOT_STARTED], &cases[STOPPED], &cases[OTHER_HOST]);
    OK(exited(&cases[SCATTERED], ENDED_BY_HOOK) &&
           said(&cases[SCATTERED],
                "rank 5 on node-b is itself held up; it was last in \"an earlier wait\"; rank 6 on "
                "node-b has left it; it was last in \"writing a checkpoint\"; no rank is missing"),
       "ranks elsewhere that are not the cause");
    OK(exited(&cases[WORD_TAKEN], ENDED_BY_HOOK) && !cases[WORD_TAKEN].said[0],
       "if a neighbour reports, this rank leaves silently");
    OK(exited(&cases[IN_TIME], 0) && !cases[IN_TIME].said[0], "waits that end in time do not add up");
    OK(exited(&cases[ON_DEVICE], ENDED_BY_HOOK) &&
           said(&cases[ON_DEVICE],
                "timed out after 1000 s in \"gradient allreduce\" (the GPU's collective 6); rank 7 "
                "on node-b did not arrive; it was last in \"computing step 7\"") &&
           !strstr(cases[ON_DEVICE].said, "rank 5"),
       "a collective of the GPUs");
    OK(exited(&cases[RECORDED], ENDED_BY_HOOK) &&
           said(&cases[RECORDED],
                "\"gradient allreduce\" (in a recorded step); rank 6 on node-b is elsewhere; it was last "
                "in \"evaluating\" (rank 4"),
       "a collective of a recorded step");
    OK(exited(&cases[COMPUTING], 0) && !cases[COMPUTING].said[0], "computing is not waiting");

    test_stalls();

    OK(clock_add_gap(7, 0.5, 0.5) == 7.5 && clock_add_gap(7, 1, 0.5) == 8, "a late check counts in full");
    OK(clock_add_gap(7, 3600, 0.5) == 7.5, "an hour's suspension counts as one check");
    watchdog_enter("without a watchdog");
    watchdog_leave();
    long long before = watchdog_progress();
    watchdog_phase("none");
    watchdog_device_expired("none", 1, 1000);
    watchdog_stop();
    OK(atomic_load(&slots[0].sequence) == 0 && watchdog_progress() == before + 1,
       "calls without a watchdog do nothing");
    return tap_done();
}
