/* SPDX-License-Identifier: MIT */
/* Ranks, time, watchers and messages on simulated hosts, by SimGrid. Part of builds with SMPI=1 only. */
#include "base/sim.h"

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/version.h>
#if SIMGRID_VERSION >= 40000
#include <simgrid/activity_set.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A message on its way. */
typedef struct packet {
    size_t n_bytes;
    char bytes[];
} packet_t;

enum { LOST_CODE = 5 }; /* run.sh's for a job whose rank was killed */
static const double forever_sec = 1e9, launcher_sec = 1;
static const char collectives_name[] = "DPTRAIN_SIM_COLLECTIVES";

/* Each rank has a copy of every variable. */
static struct {
    sg_actor_t actor;
    void *(*run)(void *);
} watcher;

bool sim_is_rank(void)
{
    return sg_actor_self() != NULL;
}

/* First called by the rank itself: its watcher has no properties. */
int sim_rank(void)
{
    static int rank = -1;
    const char *text = rank < 0 ? sg_actor_get_property_value(sg_actor_self(), "rank") : NULL;
    if (rank < 0) rank = text ? atoi(text) : 0;
    return rank;
}

int sim_size(void)
{
    const char *text = getenv("SMPI_GLOBAL_SIZE");
    return text ? atoi(text) : 1;
}

const char *sim_host_name(void)
{
    return sg_host_self_get_name();
}

double sim_sec(void)
{
    return simgrid_get_clock();
}

/* All ranks share the environment, and so the start. */
double sim_unix_sec(void)
{
    static const char name[] = "DPTRAIN_SIM_START";
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)time(NULL));
    setenv(name, text, 0);
    return strtod(getenv(name), NULL) + sim_sec();
}

void sim_sleep(double sec)
{
    sg_actor_sleep_for(sec);
}

_Noreturn void sim_end(int code)
{
    const char *path = getenv(collectives_name);
    fflush(NULL);
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (file) fprintf(file, "end\t%.9f\tcode %d\n", sim_sec(), code);
    fflush(NULL);
    _exit(code);
}

static void run_watcher(int n_words, char **words)
{
    (void)n_words;
    (void)words;
    watcher.run(NULL);
}

bool sim_watch(void *(*run)(void *))
{
    char name[32];
    snprintf(name, sizeof name, "watcher-%d", sim_rank());
    watcher.run = run;
    watcher.actor = sg_actor_init(name, sg_host_self());
    if (!watcher.actor) return false;
    sg_actor_ref(watcher.actor);
    sg_actor_start_(watcher.actor, run_watcher, 0, NULL);
    return true;
}

void sim_watch_join(void)
{
    sg_actor_join(watcher.actor, -1);
    sg_actor_unref(watcher.actor);
    watcher.actor = NULL;
}

bool sim_is_watcher(void)
{
    return watcher.actor && sg_actor_self() == watcher.actor;
}

static sg_mailbox_t box_of(int rank)
{
    char name[32];
    snprintf(name, sizeof name, "watcher-%d", rank);
    return sg_mailbox_by_name(name);
}

/* SMPI copies what a message of SimGrid points at, the size of a pointer, and frees it. */
void sim_send(int rank, const void *message, size_t n_bytes)
{
    packet_t *packet = malloc(sizeof *packet + n_bytes), **cell = malloc(sizeof *cell);
    if (!packet || !cell) return;
    packet->n_bytes = n_bytes;
    memcpy(packet->bytes, message, n_bytes);
    *cell = packet;
    sg_comm_detach(sg_mailbox_put_init(box_of(rank), cell, (long)n_bytes), free);
}

#if SIMGRID_VERSION >= 40000
/* SimGrid 4.0 crashes if a message comes for a receive that has timed out, so one stays open. */
static packet_t *next_packet(double sec)
{
    static sg_activity_set_t open;
    static void *received;
    if (!open) open = sg_activity_set_init();
    if (sg_activity_set_empty(open))
        sg_activity_set_push(open, (sg_activity_t)sg_mailbox_get_async(box_of(sim_rank()), &received));
    sg_activity_t arrived = sg_activity_set_wait_any_for(open, sec);
    if (!arrived) return NULL;
    sg_activity_unref(arrived);
    return received;
}
#else
static packet_t *next_packet(double sec)
{
    void *received = NULL;
    sg_comm_t arriving = sg_mailbox_get_async(box_of(sim_rank()), &received);
    return sg_comm_wait_for(arriving, sec) == SG_OK ? received : NULL;
}
#endif

size_t sim_receive(double sec, void *message, size_t max_bytes)
{
    packet_t *packet = next_packet(sec);
    if (!packet) return 0;
    size_t n_bytes = packet->n_bytes < max_bytes ? packet->n_bytes : max_bytes;
    memcpy(message, packet->bytes, n_bytes);
    free(packet);
    return n_bytes;
}

/* Whether a variable of scripts/simulate.sh, "RANK:VALUE", is for this rank; *value: what follows the colon. */
static bool is_ordered(const char *name, const char **value)
{
    const char *text = getenv(name);
    char *end;
    if (!text || strtol(text, &end, 10) != sim_rank() || *end != ':') return false;
    *value = end + 1;
    return true;
}

static void record_collective(const char *what, long long number)
{
    static FILE *file;
    const char *path = getenv(collectives_name);
    if (!path || sim_rank() != 0) return;
    if (!file) file = fopen(path, "we");
    if (file) fprintf(file, "%lld\t%.9f\t%s\n", number, sim_sec(), what);
}

bool sim_collective(const char *what, long long number)
{
    const char *at = NULL;
    record_collective(what, number);
    if (is_ordered("DPTRAIN_SIM_HANG", &at) && atoll(at) == number)
        for (;;) sg_actor_sleep_for(forever_sec);
    return is_ordered("DPTRAIN_SIM_LOSE", &at) && atoll(at) == number;
}

static void end_as_launcher(int n_words, char **words)
{
    (void)n_words;
    (void)words;
    sg_actor_sleep_for(launcher_sec);
    sim_end(LOST_CODE);
}

_Noreturn void sim_lose(void)
{
    sg_actor_t launcher = sg_actor_init("launcher", sg_host_self());
    sg_actor_start_(launcher, end_as_launcher, 0, NULL);
    if (watcher.actor) sg_actor_kill(watcher.actor);
    for (;;) sg_actor_sleep_for(forever_sec); /* SMPI ends the simulation if the actor of a rank is gone */
}

void sim_command_line(int *argc, char ***argv)
{
    const char *word;
    if (!is_ordered("DPTRAIN_SIM_WORD", &word)) return;
    char **longer = calloc((size_t)*argc + 2, sizeof *longer);
    if (!longer) return;
    memcpy(longer, *argv, (size_t)*argc * sizeof *longer);
    longer[(*argc)++] = strdup(word);
    *argv = longer;
}
