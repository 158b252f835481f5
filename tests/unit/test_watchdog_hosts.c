/* SPDX-License-Identifier: MIT */
/* What the watchdog says of ranks on other hosts, with simulated statuses; and a warning that names one over a
 * real side channel. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/watch/watchdog.h"
#include "cluster/watch/watchdog_report.h"
#include "tests/tap.h"

enum { N = 4 };
static const double patience_sec = 20;

static topo_t topo = {.size = N, .n_hosts = N, .local_size = 1, .host_name = "a"};
static watchdog_slot_t slot;
static side_peer_t peers[N];

/* All wait in collective 84, and have answered. */
static watchdog_view_t all_wait(void)
{
    double now = clock_sec();
    memset(&slot, 0, sizeof slot);
    atomic_store(&slot.rank_plus_1, 1);
    atomic_store(&slot.waiting, 1);
    atomic_store(&slot.sequence, 84);
    strcpy(slot.doing, "gradient allreduce");
    for (int g = 0; g < N; g++) {
        side_rank_t rank = {.rank = g, .waiting = 1, .sequence = 84};
        strcpy(rank.doing, "gradient allreduce");
        peers[g] =
            (side_peer_t){.rank = g, .n_ranks = 1, .state = SIDE_UP, .changed_sec = now, .heard_sec = now};
        snprintf(peers[g].host, sizeof peers[g].host, "%c", "abcd"[g]);
        peers[g].status = (side_status_t){.behind = {rank, rank}, .ended.rank = -1};
    }
    return (watchdog_view_t){.slots = &slot,
                             .mine = &slot,
                             .n_slots = 1,
                             .topo = &topo,
                             .timeout_sec = 300,
                             .peers = peers,
                             .n_peers = N,
                             .asked_sec = now - 1};
}

static void set_behind(int group, int sequence, const char *doing)
{
    side_rank_t *rank = &peers[group].status.behind[SIDE_ON_HOST];
    rank->sequence = sequence;
    rank->waiting = false;
    strcpy(rank->doing, doing);
}

static bool says(const watchdog_view_t *v, const char *words)
{
    char text[ERR_MESSAGE_MAX], wanted[ERR_MESSAGE_MAX];
    overdue_t overdue = {.what = "gradient allreduce", .sequence = 84};
    watchdog_describe_expiry(v, &overdue, text, sizeof text);
    snprintf(wanted, sizeof wanted, "timed out after 300 s in \"gradient allreduce\" (collective 84)%s",
             words);
    bool same = strcmp(text, wanted) == 0;
    if (!same) printf("# wanted: %s\n# said:   %s\n", wanted, text);
    return same;
}

static void test_words(void)
{
    watchdog_view_t v = all_wait();
    OK(says(&v, "; no rank is missing on any host, so the transport between the ranks is stuck"),
       "no culprit");

    v = all_wait();
    set_behind(2, 83, "computing step 41");
    peers[3].heard_sec = v.asked_sec - 3;
    OK(says(&v, "; rank 2 on c did not arrive; it was last in \"computing step 41\""),
       "a rank that is missing; one that only does not answer is not named");

    v = all_wait();
    set_behind(3, 84, "gradient allreduce");
    peers[3].status.behind[0].stopped_sec = 7;
    OK(says(&v,
            "; rank 3 on d arrived but then stopped; it was last in \"gradient allreduce\" and has not run "
            "for 7 s"),
       "one that arrived and stopped, of several on a host");

    v = all_wait();
    peers[1].state = SIDE_LOST;
    peers[1].heard_sec = peers[1].changed_sec - 0.5;
    OK(says(&v, "; the process of rank 1 on b has ended; 0.5 s before, it was in \"gradient allreduce\""),
       "one whose connection was closed");
    char text[ERR_MESSAGE_MAX];
    OK(watchdog_describe_loss(&peers[1], "evaluation", text, sizeof text) && !strstr(text, "evaluation"),
       "its last status tells what it did");
    peers[1].heard_sec = 0;
    OK(watchdog_describe_loss(&peers[1], "evaluation", text, sizeof text) &&
           strcmp(text, "the process of rank 1 on b has ended; this rank is in \"evaluation\"") == 0,
       "without one, what this rank does");

    v = all_wait();
    set_behind(1, 83, "reading the data of step 41");
    peers[1].heard_sec = clock_sec() - 12;
    OK(says(&v,
            "; rank 1 on b does not answer: it is stopped, its host is down, or its link is cut; 12 s ago, "
            "it was in \"reading the data of step 41\""),
       "one that does not answer");

    v = all_wait();
    for (int g = 1; g < N; g++) peers[g].heard_sec = v.asked_sec - 3;
    OK(says(&v, "; no other host answers, so a is cut off; rank 0 on it was last in \"gradient allreduce\""),
       "this host is cut off");

    v = all_wait();
    peers[2].state = SIDE_UNKNOWN;
    peers[2].heard_sec = 0;
    OK(says(&v, "; no rank is missing on a; check c (rank 2)"), "a host that never connected");

    v = all_wait();
    atomic_store(&slot.waiting, 0);
    atomic_store(&slot.sequence, 83);
    atomic_store(&slot.pulse_ms, (long long)(1e3 * (clock_sec() + 1000)));
    strcpy(slot.doing, "writing a checkpoint");
    v.mine = NULL;
    OK(says(&v, "; rank 0 on a did not arrive; it was last in \"writing a checkpoint\""),
       "rank 0 itself, which others wait for");

    topo_t second = {.rank = 1, .size = N, .n_hosts = N, .local_size = 1, .host_name = "b"};
    v = all_wait();
    v.group = v.n_peers = 1;
    v.topo = &second;
    OK(says(&v, "; no rank is missing on b or a; check the other hosts"), "without rank 0's host");
    peers[0].heard_sec = 0;
    OK(says(&v, "; no rank is missing on b; check the other hosts"), "it never connected to rank 0's host");
    peers[0].connected = true;
    OK(says(&v, "; rank 0 on a does not answer: it is stopped, its host is down, or its link is cut"),
       "it did, but has heard nothing");

    v = all_wait();
    set_behind(1, 86, "planning");
    OK(says(&v, "; rank 1 on b has left it; it was last in \"planning\""), "one that is elsewhere");
}

static void abort_job(err_t code)
{
    _exit((int)code);
}

/* A watchdog of rank 0's host that warns; the other host's rank reads data. */
static _Noreturn void warn_of_stall(const side_setup_t *setup, int out)
{
    side_t *side = NULL;
    dup2(out, STDERR_FILENO);
    topo = (topo_t){.size = 2, .n_hosts = 2, .local_size = 1, .host_name = "a"};
    log_set_rank(0, 2, "a");
    if (side_new(setup, &side) != ERR_OK) _exit(1);
    watchdog_limits_t limits = {.timeout_sec = 1000, .stall_sec = 0.3, .abort_job = abort_job, .side = side};
    if (watchdog_start(&slot, 1, 0, &topo, &limits) != ERR_OK) _exit(1);
    watchdog_set_sequence(83);
    watchdog_enter("gradient allreduce");
    for (;;) pause();
}

static _Noreturn void answer(side_setup_t setup)
{
    side_t *side = NULL;
    side_status_t status = {.ended.rank = -1,
                            .behind[0] = {.rank = 1, .sequence = 83, .doing = "reading data"}};
    close(setup.listen_fd);
    setup.role = SIDE_SPOKE;
    setup.group = 1;
    if (side_new(&setup, &side) != ERR_OK) _exit(1);
    for (;;) {
        side_publish(side, &status, false);
        side_wait(side, -1, 0.1);
    }
}

static void test_stall(void)
{
    char said[2048] = "";
    int ends[2];
    side_setup_t setup = {.role = SIDE_HUB, .n_groups = 2, .peers = peers};
    memset(peers, 0, sizeof peers);
    memset(&slot, 0, sizeof slot);
    for (int g = 0; g < 2; g++) {
        peers[g] = (side_peer_t){.rank = g, .n_ranks = 1, .status.ended.rank = -1};
        strcpy(peers[g].host, g ? "b" : "a");
    }
    if (pipe(ends) != 0 || side_listen(&setup.hub, &setup.listen_fd) != ERR_OK) exit(1);
    fflush(stdout);
    pid_t other = fork();
    if (other == 0) answer(setup);
    pid_t hub = fork();
    if (hub == 0) warn_of_stall(&setup, ends[1]);
    close(ends[1]);
    close(setup.listen_fd);
    size_t n = 0;
    ssize_t got;
    while (!strchr(said, '\n') && (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0) n += (size_t)got;
    kill(hub, SIGKILL);
    kill(other, SIGKILL);
    waitpid(hub, NULL, 0);
    waitpid(other, NULL, 0);
    close(ends[0]);
    printf("# %s", said);
    OK(strncmp(said, "dptrain: warning: stall: waiting for ", 37) == 0 &&
           strstr(said,
                  "; rank 1 on b did not arrive; it was last in \"reading data\"; the job ends after 1000 s"),
       "a warning names the rank of another host");
}

/* Both groups are in this process. Asks until a question has arrived: before they are connected, none does. */
static void ask(side_t *from, side_t *to)
{
    const side_status_t status = {.ended.rank = -1};
    for (double end = clock_sec() + patience_sec; !side_is_asked(to) && clock_sec() < end;) {
        side_publish(from, &status, true);
        side_wait(from, -1, 0.001);
        side_wait(to, -1, 0.001);
    }
}

static bool answers(watchdog_side_t *w)
{
    char error[ERR_MESSAGE_MAX];
    double before = w->published_sec;
    watchdog_side_tick(w, "a test", error);
    return w->published_sec > before;
}

/* In a job that hangs, all hosts ask rank 0's at once, which answers to all of them. */
static void test_answers(void)
{
    enum { N_QUESTIONS = 200 };
    side_t *hub = NULL, *spoke = NULL;
    watchdog_side_t of_hub, of_spoke;
    watchdog_view_t v = all_wait();
    side_setup_t setup = {.role = SIDE_HUB, .n_groups = 2, .peers = peers};
    int n = 0, n_of_spoke = 0;
    if (side_listen(&setup.hub, &setup.listen_fd) != ERR_OK || side_new(&setup, &hub) != ERR_OK) exit(1);
    setup.role = SIDE_SPOKE;
    setup.group = 1;
    if (side_new(&setup, &spoke) != ERR_OK) exit(1);
    watchdog_side_start(&of_hub, hub, &v, 0);
    watchdog_side_start(&of_spoke, spoke, &v, 0);
    ask(spoke, hub);
    answers(&of_hub);
    double start = clock_sec();
    for (int i = 0; i < N_QUESTIONS; i++) {
        ask(spoke, hub);
        n += answers(&of_hub);
    }
    OK(n <= 1 + (clock_sec() - start) / 0.25,
       "rank 0's host answers 4 times a second, however often it is asked");
    bool answered = false;
    for (double end = clock_sec() + patience_sec; !answered && clock_sec() < end; answered = answers(&of_hub))
        clock_sleep(0.05);
    OK(answered && !side_is_asked(hub), "the last question is answered, too");
    for (int i = 0; i < N_QUESTIONS; i++) {
        ask(hub, spoke);
        n_of_spoke += answers(&of_spoke);
    }
    OK(n_of_spoke == N_QUESTIONS, "another host answers at once");
    side_free(&spoke);
    side_free(&hub);
}

int main(void)
{
    tap_plan(18);
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
    test_words();
    test_stall();
    test_answers();
    return tap_done();
}
