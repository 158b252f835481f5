/* SPDX-License-Identifier: MIT */
/* State and messages of the side channel. Who takes part is decided in side_open.c; connections are left to
 * side_links.c, and what statuses mean to the watchdog. */
#include "cluster/comm/side_channel.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/comm/side_impl.h"

enum { N_STRANGERS = 16 };

static void free_memory(side_t **s)
{
    mem_free(&(*s)->polls);
    mem_free(&(*s)->pid_fds);
    mem_free(&(*s)->links);
    mem_free(&(*s)->peers);
    mem_free(s);
}

err_t side_new(const side_setup_t *setup, side_t **out)
{
    side_t *s = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new(sizeof *s, "the side channel", &s));
    *s = (side_t){.role = setup->role,
                  .group = setup->group,
                  .n_groups = setup->n_groups,
                  .n_links = setup->role == SIDE_HUB ? setup->n_groups + N_STRANGERS : 1,
                  .n_local = setup->n_local,
                  .ended = -1,
                  .hub = setup->hub,
                  .listen_fd = setup->role == SIDE_HUB ? setup->listen_fd : -1};
    memcpy(s->token, setup->token, sizeof s->token);
    TRY_OUT(err, mem_new_array(s->n_groups, sizeof *s->peers, "the side channel", &s->peers));
    TRY_OUT(err, mem_new_array(s->n_links, sizeof *s->links, "the side channel", &s->links));
    TRY_OUT(err, mem_new_array(s->n_local, sizeof *s->pid_fds, "the side channel", &s->pid_fds));
    TRY_OUT(err, mem_new_array(2 + s->n_local + s->n_links, sizeof *s->polls, "the side channel", &s->polls));
    memcpy(s->peers, setup->peers, (size_t)s->n_groups * sizeof *s->peers);
    for (int i = 0; i < s->n_links; i++) s->links[i].fd = -1;
    for (int i = 0; i < s->n_local; i++) s->pid_fds[i] = setup->local[i];
    if (s->role == SIDE_HUB) side_allow_sockets(s->n_groups);
    *out = s;
    return ERR_OK;
out:
    if (setup->role == SIDE_HUB) close(setup->listen_fd);
    for (int i = 0; i < setup->n_local; i++)
        if (setup->local[i] >= 0) close(setup->local[i]);
    if (s) free_memory(&s);
    return err;
}

void side_free(side_t **side)
{
    side_t *s = *side;
    if (!s) return;
    side_say_goodbye(s);
    for (int i = 0; i < s->n_links; i++)
        if (s->links[i].fd >= 0) close(s->links[i].fd);
    for (int i = 0; i < s->n_local; i++)
        if (s->pid_fds[i] >= 0) close(s->pid_fds[i]);
    if (s->listen_fd >= 0) close(s->listen_fd);
    free_memory(side);
}

void side_set_state(side_t *s, int group, side_state_t state)
{
    side_peer_t *peer = &s->peers[group];
    if (peer->state == state) return;
    /* A process that left closes its connection; the state remains. */
    if (peer->state == SIDE_LEFT && state != SIDE_UP) return;
    s->news |= state == SIDE_LOST;
    if (state == SIDE_UP) peer->told = false;
    peer->state = state;
    peer->changed_sec = clock_sec();
}

void side_write(const side_t *s, side_kind_t kind, side_message_t *out)
{
    memset(out, 0, sizeof *out);
    out->magic = SIDE_MAGIC;
    out->kind = (int32_t)kind;
    out->group = s->group;
    memcpy(out->token, s->token, sizeof out->token);
    out->status = s->peers[s->group].status;
}

bool side_knows(const side_t *s, const side_message_t *m)
{
    int n_different = 0;
    for (int i = 0; i < SIDE_TOKEN; i++) n_different |= m->token[i] ^ s->token[i];
    return m->magic == SIDE_MAGIC && n_different == 0 && m->group >= 0 && m->group < s->n_groups &&
           m->group != s->group && (s->role == SIDE_HUB || m->group == 0);
}

static void end_texts(side_status_t *status)
{
    status->what[sizeof status->what - 1] = '\0';
    status->behind[0].doing[WATCHDOG_TEXT - 1] = '\0';
    status->behind[1].doing[WATCHDOG_TEXT - 1] = '\0';
    status->ended.doing[WATCHDOG_TEXT - 1] = '\0';
}

void side_apply(side_t *s, const side_message_t *m)
{
    side_peer_t *peer = &s->peers[m->group];
    if (m->kind == SIDE_GOODBYE) {
        side_set_state(s, m->group, SIDE_LEFT);
        return;
    }
    side_set_state(s, m->group, SIDE_UP);
    s->asked |= m->kind == SIDE_ASK;
    s->news |= m->kind == SIDE_ASK || (m->status.ended.rank >= 0 && peer->status.ended.rank < 0);
    peer->heard_sec = clock_sec();
    peer->status = m->status;
    end_texts(&peer->status);
}

void side_publish(side_t *s, const side_status_t *status, bool ask)
{
    s->peers[s->group].status = *status;
    s->peers[s->group].heard_sec = clock_sec();
    if (s->said_goodbye) return;
    s->asked = false;
    side_send_all(s, ask ? SIDE_ASK : SIDE_STATUS);
}

bool side_is_asked(const side_t *s)
{
    return s->asked;
}

double side_interval(const side_t *s)
{
    return s->n_groups > 50 ? (double)s->n_groups / 50 : 1; /* at most 50 messages per second at rank 0 */
}

void side_say_goodbye(side_t *s)
{
    if (s->said_goodbye) return;
    side_send_all(s, SIDE_GOODBYE);
    s->said_goodbye = true;
}

side_role_t side_role(const side_t *s)
{
    return s->role;
}

int side_group(const side_t *s)
{
    return s->group;
}

const side_peer_t *side_peers(const side_t *s, int *n_groups)
{
    *n_groups = s->n_groups;
    return s->peers;
}

void side_set_told(side_t *s, int group)
{
    s->peers[group].told = true;
}

int side_ended(const side_t *s)
{
    return s->ended;
}
