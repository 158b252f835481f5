/* SPDX-License-Identifier: MIT */
/* The side channel between simulated hosts: SimGrid's messages in place of connections. In builds with SMPI=1, in
 * place of side_links.c. */
#include "base/clock.h"
#include "base/sim.h"
#include "cluster/comm/side_channel.h"
#include "cluster/comm/side_impl.h"

err_t side_offer(side_address_t *out, int *fd)
{
    (void)fd;
    out->port = 1;
    return ERR_OK;
}

static void take(side_t *s, const side_message_t *m)
{
    if (m->kind == SIDE_ENDED && s->ended < 0) {
        s->ended = m->status.ended.rank;
        s->news = true;
        return;
    }
    if (!side_knows(s, m)) return;
    if (m->kind == SIDE_CLOSED)
        side_set_state(s, m->group, SIDE_LOST);
    else
        side_apply(s, m);
    s->peers[m->group].connected = true;
}

/* A message of one byte wakes the watchdog. */
void side_wait(side_t *s, int wake_fd, double sec)
{
    (void)wake_fd;
    const bool serves = s && s->role != SIDE_SILENT;
    double now = clock_sec(), end = now + sec;
    if (serves) s->news = false;
    do {
        side_message_t m;
        size_t n_bytes = sim_receive(end - now, &m, sizeof m);
        if (n_bytes == 1) return;
        if (n_bytes == sizeof m && serves) take(s, &m);
        now = clock_sec();
    } while (now < end && !(serves && s->news));
}

void side_send_all(side_t *s, side_kind_t kind)
{
    side_message_t m;
    side_write(s, kind, &m);
    if (s->role == SIDE_SPOKE) sim_send(s->peers[0].rank, &m, sizeof m);
    for (int g = 1; s->role == SIDE_HUB && g < s->n_groups; g++) sim_send(s->peers[g].rank, &m, sizeof m);
}

void side_sim_lost(side_t *s, int local)
{
    side_message_t m;
    side_write(s, SIDE_ENDED, &m);
    m.status.ended.rank = local;
    if (s->role == SIDE_SILENT)
        sim_send(s->peers[s->group].rank, &m, sizeof m);
    else
        side_send_all(s, SIDE_CLOSED);
}
