/* SPDX-License-Identifier: MIT */
/* The side channel's connections: opens and serves them, and finds out which processes have ended. What is in
 * messages is left to side_channel.c. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/comm/side_channel.h"
#include "cluster/comm/side_impl.h"

enum { MANY_LINKS = 64 };
static const double connect_sec = 5, retry_sec = 10, hello_sec = 10;

err_t side_offer(side_address_t *out, int *fd)
{
    return side_listen(out, fd);
}

/* At once; after the last one, later. */
static void try_next_address(side_t *s)
{
    s->next_address = (s->next_address + 1) % s->hub.n;
    s->retry_sec = clock_sec() + (s->next_address ? 0 : retry_sec);
}

static void close_link(side_t *s, side_link_t *link, side_state_t state)
{
    if (link->group >= 0) {
        side_set_state(s, link->group, state);
        s->peers[link->group].connected = false;
    }
    close(link->fd);
    link->fd = link->group = -1;
    if (s->role != SIDE_SPOKE) return;
    link->connecting = false;
    try_next_address(s);
}

static void use_link(side_link_t *link, int fd, int group)
{
    link->fd = fd;
    link->group = group;
    link->since_sec = clock_sec();
    link->n_in = link->n_out = 0;
}

static void flush_link(side_link_t *link)
{
    while (link->n_out > 0) {
        const char *rest = (const char *)&link->out + sizeof link->out - link->n_out;
        ssize_t n = send(link->fd, rest, link->n_out, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        /* After an error, what has arrived is read first: a goodbye may be in it. */
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) link->n_out = 0;
        if (n < 0) return;
        link->n_out -= (size_t)n;
    }
}

/* A message that does not fit is left out: the next has newer contents. */
static void send_message(side_t *s, side_link_t *link, side_kind_t kind)
{
    if (link->fd < 0 || link->group < 0) return; /* a link that is connecting has no group */
    flush_link(link);
    if (link->n_out > 0) return;
    side_write(s, kind, &link->out);
    link->n_out = sizeof link->out;
    flush_link(link);
}

/* A group that connects hears at once what the hub's does. False: the link was closed. */
static bool take_message(side_t *s, side_link_t *link)
{
    const side_message_t *m = &link->in;
    const bool greets = link->group < 0;
    link->n_in = 0;
    if (!side_knows(s, m) || (link->group >= 0 && link->group != m->group)) {
        close_link(s, link, SIDE_UNKNOWN);
        return false;
    }
    if (greets) {
        /* A new connection replaces that of the same group. */
        for (int i = 0; i < s->n_links; i++)
            if (s->links[i].fd >= 0 && s->links[i].group == m->group)
                close_link(s, &s->links[i], SIDE_UNKNOWN);
        link->group = m->group;
    }
    side_apply(s, m);
    if (greets) send_message(s, link, SIDE_STATUS);
    return true;
}

static void read_link(side_t *s, side_link_t *link)
{
    for (;;) {
        ssize_t n =
            recv(link->fd, (char *)&link->in + link->n_in, sizeof link->in - link->n_in, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            close_link(s, link, n == 0 || errno == ECONNRESET || errno == EPIPE ? SIDE_LOST : SIDE_UNKNOWN);
            return;
        }
        link->n_in += (size_t)n;
        if (link->n_in == sizeof link->in && !take_message(s, link)) return;
    }
}

/* Strangers must not keep members out: those who say nothing are dropped, the oldest first. */
static void accept_links(side_t *s)
{
    for (;;) {
        int fd = side_accept(s->listen_fd);
        if (fd < 0) return;
        side_link_t *free = NULL, *oldest = NULL;
        for (int i = 0; i < s->n_links; i++) {
            side_link_t *link = &s->links[i];
            if (link->fd < 0) free = link;
            if (link->fd >= 0 && link->group < 0 && (!oldest || link->since_sec < oldest->since_sec))
                oldest = link;
        }
        if (!free && oldest) {
            close_link(s, oldest, SIDE_UNKNOWN);
            free = oldest;
        }
        if (free)
            use_link(free, fd, -1);
        else
            close(fd);
    }
}

/* Connects a spoke to the hub, again after a failure. */
static void tend_spoke(side_t *s, double now)
{
    side_link_t *link = &s->links[0];
    if (link->fd >= 0 && link->connecting && now - link->since_sec > connect_sec)
        close_link(s, link, SIDE_UNKNOWN);
    if (link->fd >= 0 || now < s->retry_sec || s->said_goodbye) return;
    int fd = side_connect(&s->hub, s->next_address);
    if (fd < 0) {
        try_next_address(s);
        return;
    }
    use_link(link, fd, -1);
    link->connecting = true;
}

static void drop_silent_strangers(side_t *s, double now)
{
    for (int i = 0; i < s->n_links; i++)
        if (s->links[i].fd >= 0 && s->links[i].group < 0 && now - s->links[i].since_sec > hello_sec)
            close_link(s, &s->links[i], SIDE_UNKNOWN);
}

static void serve_link(side_t *s, side_link_t *link, short events)
{
    if (link->connecting) {
        if (!side_connected(link->fd)) {
            close_link(s, link, SIDE_UNKNOWN);
            return;
        }
        link->connecting = false;
        link->group = 0;
        s->peers[0].connected = true;
        send_message(s, link, SIDE_STATUS);
        return;
    }
    if (events & POLLOUT) flush_link(link);
    if (events & (POLLIN | POLLHUP | POLLERR)) read_link(s, link);
}

/* Fills in the descriptors to poll; returns their number. Those not in use are negative, which poll skips. */
static int list_polls(side_t *s, int wake_fd, struct pollfd *polls)
{
    int n = 0;
    polls[n++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    if (!s || s->role == SIDE_SILENT) return n;
    polls[n++] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    for (int i = 0; i < s->n_local; i++)
        polls[n++] = (struct pollfd){.fd = s->ended == i ? -1 : s->pid_fds[i], .events = POLLIN};
    for (int i = 0; i < s->n_links; i++) {
        const side_link_t *link = &s->links[i];
        short events = link->connecting ? POLLOUT : link->n_out ? POLLIN | POLLOUT : POLLIN;
        polls[n++] = (struct pollfd){.fd = link->fd, .events = events};
    }
    return n;
}

static void serve(side_t *s)
{
    const struct pollfd *p = s->polls + 1;
    if (p++->revents) accept_links(s);
    for (int i = 0; i < s->n_local; i++) {
        if (!p++->revents || s->ended >= 0) continue;
        s->ended = i;
        s->news = true;
    }
    /* Links accepted above were not polled. */
    for (int i = 0; i < s->n_links; i++, p++)
        if (p->revents && p->fd == s->links[i].fd) serve_link(s, &s->links[i], p->revents);
}

void side_wait(side_t *s, int wake_fd, double sec)
{
    const bool serves = s && s->role != SIDE_SILENT;
    struct pollfd one, *polls = serves ? s->polls : &one;
    double now = clock_sec(), end = now + sec;
    const struct timespec batch = {.tv_nsec = 250000000};
    if (serves) s->news = false;
    do {
        if (serves && s->role == SIDE_SPOKE) tend_spoke(s, now);
        if (serves && s->role == SIDE_HUB) drop_silent_strangers(s, now);
        int n = list_polls(s, wake_fd, polls);
        double left = end > now ? end - now : 0;
        struct timespec wait = {.tv_sec = (time_t)left,
                                .tv_nsec = (long)(1e9 * (left - (double)(time_t)left))};
        if (ppoll(polls, (nfds_t)n, &wait, NULL) > 0 && serves) serve(s);
        if (polls[0].revents) return;
        /* The statuses of many hosts are read together, which costs less. */
        if (serves && s->n_links > MANY_LINKS && left > 0 && !s->news && ppoll(polls, 1, &batch, NULL) > 0)
            return;
        now = clock_sec();
    } while (now < end && !(serves && s->news));
}

void side_send_all(side_t *s, side_kind_t kind)
{
    for (int i = 0; i < s->n_links; i++) send_message(s, &s->links[i], kind);
}
