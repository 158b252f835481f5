/* SPDX-License-Identifier: MIT */
/* The side channel between processes of this machine: statuses, questions, strangers, losses and goodbyes. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/watch/side_channel.h"
#include "cluster/watch/watchdog.h"
#include "tests/tap.h"

enum { N_GROUPS = 4, HEARD = 8 };
static const double patience_sec = 20;

static side_peer_t names[N_GROUPS];
static side_setup_t setup = {
    .n_groups = N_GROUPS, .peers = names, .listen_fd = -1, .token = "fifteen letters"};

static side_status_t status_of(int rank, const char *doing)
{
    side_status_t out = {.behind = {{.rank = rank, .sequence = 7}, {.rank = rank}}, .ended.rank = -1};
    strcpy(out.behind[0].doing, doing);
    return out;
}

static void leave(err_t code)
{
    _exit(code);
}

/* A spoke that connects, says so when it has heard of rank 0, answers questions, and leaves when asked for the
 * second time: politely, or not. */
static _Noreturn void spoke(int group, bool polite)
{
    int n_groups;
    side_t *side = NULL;
    side_status_t status = status_of(group, "reading data");
    setup.role = SIDE_SPOKE;
    setup.group = group;
    close(setup.listen_fd);
    if (side_new(&setup, &side) != ERR_OK) _exit(1);
    side_publish(side, &status, false);
    for (int n = 0; n < 2;) {
        side_wait(side, -1, 0.05);
        if (!side_is_asked(side)) {
            if (status.behind[0].sequence == HEARD || side_peers(side, &n_groups)[0].heard_sec <= 0) continue;
            status.behind[0].sequence = HEARD;
            side_publish(side, &status, false);
            continue;
        }
        strcpy(status.behind[0].doing, "computing");
        if (n++ == 0) side_publish(side, &status, false);
    }
    if (polite) side_free(&side);
    _exit(0);
}

/* A spoke as the program opens it. */
static _Noreturn void rank_of_job(int group)
{
    static watchdog_slot_t slot;
    const topo_t topo = {
        .rank = group, .size = N_GROUPS, .host = group, .n_hosts = N_GROUPS, .local_size = 1};
    setup.role = SIDE_SPOKE;
    setup.group = group;
    close(setup.listen_fd);
    watchdog_limits_t limits = {.timeout_sec = patience_sec, .abort_job = leave};
    if (side_new(&setup, &limits.side) != ERR_OK || watchdog_start(&slot, 1, 0, &topo, &limits) != ERR_OK)
        _exit(1);
    for (;;) pause();
}

static pid_t begin(int group, bool polite)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) spoke(group, polite);
    return pid;
}

/* Serves until all the groups of `mask` are in the state and heard since. */
static bool reach(side_t *hub, unsigned mask, side_state_t state, double since_sec)
{
    int n;
    const side_peer_t *peers = side_peers(hub, &n);
    for (double end = clock_sec() + patience_sec; clock_sec() < end; side_wait(hub, -1, 0.01)) {
        bool all = true;
        for (int g = 0; g < n; g++)
            if (mask & 1u << g) all &= peers[g].state == state && peers[g].heard_sec >= since_sec;
        if (all) return true;
    }
    return false;
}

static bool hosts_hear(side_t *hub, const side_peer_t *peers)
{
    for (double end = clock_sec() + patience_sec; clock_sec() < end; side_wait(hub, -1, 0.01)) {
        bool all = true;
        for (int g = 1; g < N_GROUPS; g++) all &= peers[g].status.behind[0].sequence == HEARD;
        if (all) return true;
    }
    return false;
}

/* A stranger says something of the right length. The hub closes the connection. */
static bool stranger_is_dropped(side_t *hub)
{
    char junk[4096] = "GET / HTTP/1.0", answer;
    int fd = side_connect(&setup.hub, 0);
    ssize_t got = -1;
    if (fd < 0) return false;
    side_wait(hub, -1, 0.05);
    if (send(fd, junk, sizeof junk, MSG_NOSIGNAL) <= 0) return false;
    for (double end = clock_sec() + patience_sec; clock_sec() < end; side_wait(hub, -1, 0.01)) {
        got = recv(fd, &answer, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno == ECONNRESET)) break;
    }
    bool dropped = got == 0 || (got < 0 && errno == ECONNRESET);
    close(fd);
    return dropped;
}

static void test_channel(side_t *hub)
{
    int n;
    const side_peer_t *peers = side_peers(hub, &n);
    side_status_t status = status_of(0, "waiting");
    side_publish(hub, &status, false);
    pid_t polite = begin(1, true), rude = begin(2, false), stopped = begin(3, true);
    OK(reach(hub, 2 | 4 | 8, SIDE_UP, 0) && n == N_GROUPS, "three hosts connect");
    OK(peers[1].status.behind[0].rank == 1 && peers[2].status.behind[0].sequence >= 7 &&
           strcmp(peers[3].status.behind[0].doing, "reading data") == 0,
       "and tell how they stand");
    OK(hosts_hear(hub, peers), "each hears at once how rank 0 stands");
    OK(stranger_is_dropped(hub) && reach(hub, 2 | 4 | 8, SIDE_UP, 0), "a stranger is dropped");

    kill(stopped, SIGSTOP);
    double asked_sec = clock_sec();
    side_publish(hub, &status, true);
    OK(reach(hub, 2 | 4, SIDE_UP, asked_sec) && strcmp(peers[1].status.behind[0].doing, "computing") == 0,
       "those that run answer a question");
    OK(peers[3].state == SIDE_UP && peers[3].heard_sec < asked_sec, "one that is stopped does not");
    side_publish(hub, &status, true);
    OK(reach(hub, 2, SIDE_LEFT, 0), "a process that says goodbye has left");
    OK(reach(hub, 4, SIDE_LOST, 0), "one that just ends is lost");
    kill(stopped, SIGKILL);
    OK(reach(hub, 8, SIDE_LOST, 0), "so is one that is killed");
    waitpid(polite, NULL, 0);
    waitpid(rude, NULL, 0);
    waitpid(stopped, NULL, 0);
    polite = begin(1, true);
    OK(reach(hub, 2, SIDE_UP, 0), "a host may connect again");
    kill(polite, SIGKILL);
    waitpid(polite, NULL, 0);
    OK(reach(hub, 2, SIDE_LOST, 0), "and be lost again");
    fflush(stdout);
    pid_t fresh = fork();
    if (fresh == 0) rank_of_job(1);
    OK(reach(hub, 2, SIDE_UP, 0) && peers[1].status.behind[0].rank == 1 &&
           strcmp(peers[1].status.behind[0].doing, "starting") == 0,
       "the first that is heard of a rank says what it does");
    kill(fresh, SIGKILL);
    waitpid(fresh, NULL, 0);
}

int main(void)
{
    tap_plan(16);
    setenv("OMPI_MCA_btl_tcp_if_include", "127.0.0.0/8", 1);
    OK_CALL(side_listen(&setup.hub, &setup.listen_fd), "listening in a subnet");
    OK(setup.hub.n == 1 && setup.hub.family == AF_INET && setup.hub.bytes[0][0] == 127 && setup.hub.port > 0,
       "at its only address");
    setenv("OMPI_MCA_btl_tcp_if_include", "no-such-interface,10.254.253.252/32", 1);
    side_address_t none;
    int fd;
    OK(side_listen(&none, &fd) == ERR_SYSTEM && fd < 0 && !none.port, "no address: an error");
    for (int g = 0; g < N_GROUPS; g++)
        names[g] = (side_peer_t){.rank = g, .n_ranks = 1, .host = "node", .status.ended.rank = -1};
    side_t *hub = NULL;
    setup.role = SIDE_HUB;
    if (side_new(&setup, &hub) == ERR_OK) test_channel(hub);
    side_free(&hub);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
