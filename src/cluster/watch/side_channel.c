/* SPDX-License-Identifier: MIT */
/* The side channel: chooses this host's addresses as Open MPI's TCP transport does, opens and serves connections, finds out
 * which processes have ended, and keeps the state and messages of the groups; on simulated hosts SimGrid's messages stand in
 * for connections. Who takes part is decided in cluster/comm/mpi/open.c, what statuses mean by the watchdog. */
#include "cluster/watch/side_channel.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sim.h"
#include "cluster/watch/tcp.h"

enum { SIDE_MAGIC = 0x64704331, N_STRANGERS = 16 };

/* SIDE_CLOSED and SIDE_ENDED stand in for the kernel on simulated hosts: the process of a group has ended, and a
 * process of this group has. */
typedef enum side_kind { SIDE_STATUS, SIDE_ASK, SIDE_GOODBYE, SIDE_CLOSED, SIDE_ENDED } side_kind_t;

/* All messages have this form, in the byte order of the hosts, which run the same program. */
typedef struct side_message {
    uint32_t magic;
    int32_t kind, group;
    uint8_t token[SIDE_TOKEN];
    side_status_t status;
} side_message_t;

typedef struct side_link {
    int fd;    /* -1: unused */
    int group; /* -1: has sent nothing yet */
    bool connecting;
    double since_sec;
    size_t n_in, n_out; /* bytes received of a message, and left to send */
    side_message_t in, out;
} side_link_t;

struct side {
    side_role_t role;
    int group, n_groups, n_links, n_local, ended;
    side_address_t hub;
    uint8_t token[SIDE_TOKEN];
    int listen_fd, next_address; /* the latter is one of the hub's */
    double retry_sec;            /* when to connect again */
    bool asked, news, said_goodbye;
    side_peer_t *peers;   /* [n_groups] */
    side_link_t *links;   /* [n_links]; a spoke has one */
    int *pid_fds;         /* [n_local], -1: none */
    struct pollfd *polls; /* [2 + n_local + n_links] */
};

/* ---- State and messages ---- */
static void set_state(side_t *s, int group, side_state_t state)
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

/* Fills in a message of this group. */
static void write_message(const side_t *s, side_kind_t kind, side_message_t *out)
{
    memset(out, 0, sizeof *out);
    out->magic = SIDE_MAGIC;
    out->kind = (int32_t)kind;
    out->group = s->group;
    memcpy(out->token, s->token, sizeof out->token);
    out->status = s->peers[s->group].status;
}

/* Whether a message is of another group of this job. */
static bool knows(const side_t *s, const side_message_t *m)
{
    int n_different = 0;
    for (int i = 0; i < SIDE_TOKEN; i++) n_different |= m->token[i] ^ s->token[i];
    return m->magic == SIDE_MAGIC && n_different == 0 && m->group >= 0 && m->group < s->n_groups &&
           m->group != s->group && (s->role == SIDE_HUB || m->group == 0);
}

static void apply(side_t *s, const side_message_t *m)
{
    side_peer_t *peer = &s->peers[m->group];
    if (m->kind == SIDE_GOODBYE) {
        set_state(s, m->group, SIDE_LEFT);
        return;
    }
    set_state(s, m->group, SIDE_UP);
    s->asked |= m->kind == SIDE_ASK;
    s->news |= m->kind == SIDE_ASK || (m->status.ended.rank >= 0 && peer->status.ended.rank < 0);
    peer->heard_sec = clock_sec();
    peer->status = m->status;
    peer->status.what[sizeof peer->status.what - 1] = '\0';
    peer->status.behind[0].doing[WATCHDOG_TEXT - 1] = '\0';
    peer->status.behind[1].doing[WATCHDOG_TEXT - 1] = '\0';
    peer->status.ended.doing[WATCHDOG_TEXT - 1] = '\0';
}

/* ---- Addresses and sockets ---- */
/* The bytes of an IPv4 or global IPv6 address; their number, or 0. */
static int bytes_of(const struct sockaddr *from, uint8_t out[16])
{
    if (!from) return 0;
    if (from->sa_family == AF_INET) {
        struct sockaddr_in a;
        memcpy(&a, from, sizeof a);
        memcpy(out, &a.sin_addr, 4);
        return 4;
    }
    if (from->sa_family != AF_INET6) return 0;
    struct sockaddr_in6 a;
    memcpy(&a, from, sizeof a);
    memcpy(out, &a.sin6_addr, 16);
    return IN6_IS_ADDR_LINKLOCAL(&a.sin6_addr) ? 0 : 16;
}

static bool is_used(const struct ifaddrs *i, const uint8_t *bytes, int n_bytes, bool loopback)
{
    const int family = i->ifa_addr->sa_family;
    const char *include = getenv("OMPI_MCA_btl_tcp_if_include");
    const char *exclude = getenv("OMPI_MCA_btl_tcp_if_exclude");
    if (!(i->ifa_flags & IFF_UP)) return false;
    if (include && include[0]) return tcp_list_names(include, i->ifa_name, family, bytes, 8 * n_bytes);
    if (!(i->ifa_flags & IFF_LOOPBACK) == loopback) return false;
    return loopback || !exclude || !tcp_list_names(exclude, i->ifa_name, family, bytes, 8 * n_bytes);
}

/* Adds the addresses of one family. */
static void add_addresses(const struct ifaddrs *list, int family, bool loopback, side_address_t *out)
{
    out->family = family;
    for (const struct ifaddrs *i = list; i && out->n < SIDE_MAX_ADDRESSES; i = i->ifa_next) {
        uint8_t bytes[16] = {0};
        int n_bytes = bytes_of(i->ifa_addr, bytes);
        if (n_bytes != (family == AF_INET ? 4 : 16) || !is_used(i, bytes, n_bytes, loopback)) continue;
        memcpy(out->bytes[out->n++], bytes, sizeof bytes);
    }
}

static int listen_at(const side_address_t *at, int port)
{
    int fd = socket(at->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -1 : tcp_listen(fd, at->family, at->n == 1 ? at->bytes[0] : NULL, port);
}

static int environment_number(const char *name)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

/* The ranks' transport takes the range's first ports. */
static int listen_in_range(const side_address_t *at)
{
    int low = environment_number("OMPI_MCA_btl_tcp_port_min_v4"), fd = -1;
    int n = environment_number("OMPI_MCA_btl_tcp_port_range_v4");
    if (low < 1024 || low > 65535 || n <= 0) return listen_at(at, 0);
    for (int port = low + n - 1 < 65535 ? low + n - 1 : 65535; fd < 0 && port >= low; port--)
        fd = listen_at(at, port);
    return fd;
}

err_t side_listen(side_address_t *out, int *fd)
{
    struct ifaddrs *list = NULL;
    *out = (side_address_t){0};
    *fd = -1;
    if (getifaddrs(&list) != 0) RAISE(ERR_SYSTEM, "cannot list network addresses: %s", strerror(errno));
    for (int loopback = false; loopback <= true && out->n == 0; loopback++) {
        add_addresses(list, AF_INET, loopback, out);
        if (out->n == 0) add_addresses(list, AF_INET6, loopback, out);
    }
    freeifaddrs(list);
    if (out->n == 0) RAISE(ERR_SYSTEM, "this host has no address in the network that Open MPI uses");
    *fd = listen_in_range(out);
    if (*fd < 0) RAISE(ERR_SYSTEM, "cannot listen: %s", strerror(errno));
    out->port = tcp_port(*fd);
    return ERR_OK;
}

static void send_at_once(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int side_connect(const side_address_t *to, int i)
{
    struct sockaddr_storage address;
    socklen_t length = tcp_address(to->family, to->bytes[i], to->port, &address);
    int fd = socket(to->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    send_at_once(fd);
    if (connect(fd, (const struct sockaddr *)&address, length) == 0 || errno == EINPROGRESS) return fd;
    close(fd);
    return -1;
}

/* Whether the connection has been made, once the descriptor is writable. */
static bool is_connected(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

/* Raises the soft limit of open files: one connection per host may exceed it. */
static void allow_sockets(int n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    rlim_t needed = (rlim_t)n + 512;
    if (limit.rlim_cur >= needed) return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- Connections ---- */
enum { MANY_LINKS = 64 };
static const double connect_sec = 5, retry_sec = 10, hello_sec = 10;

/* At once; after the last one, later. */
static void try_next_address(side_t *s)
{
    s->next_address = (s->next_address + 1) % s->hub.n;
    s->retry_sec = clock_sec() + (s->next_address ? 0 : retry_sec);
}

static void close_link(side_t *s, side_link_t *link, side_state_t state)
{
    if (link->group >= 0) {
        set_state(s, link->group, state);
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
    write_message(s, kind, &link->out);
    link->n_out = sizeof link->out;
    flush_link(link);
}

/* A group that connects hears at once what the hub's does. False: the link was closed. */
static bool take_message(side_t *s, side_link_t *link)
{
    const side_message_t *m = &link->in;
    const bool greets = link->group < 0;
    link->n_in = 0;
    if (!knows(s, m) || (link->group >= 0 && link->group != m->group)) {
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
    apply(s, m);
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
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        send_at_once(fd);
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
        if (!is_connected(link->fd)) {
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

/* From simulated hosts, whose messages stand in for connections. */
static void sim_take(side_t *s, const side_message_t *m)
{
    if (m->kind == SIDE_ENDED && s->ended < 0) {
        s->ended = m->status.ended.rank;
        s->news = true;
        return;
    }
    if (!knows(s, m)) return;
    if (m->kind == SIDE_CLOSED)
        set_state(s, m->group, SIDE_LOST);
    else
        apply(s, m);
    s->peers[m->group].connected = true;
}

void side_wait(side_t *s, int wake_fd, double sec)
{
    const bool serves = s && s->role != SIDE_SILENT;
    struct pollfd one, *polls = serves ? s->polls : &one;
    double now = clock_sec(), end = now + sec;
    const struct timespec batch = {.tv_nsec = 250000000};
    if (serves) s->news = false;
    do {
        if (sim_is_rank()) {
            side_message_t m;
            size_t n_bytes = sim_receive(end - now, &m, sizeof m);
            if (n_bytes == 1) return; /* it wakes the watchdog */
            if (n_bytes == sizeof m && serves) sim_take(s, &m);
            now = clock_sec();
            continue;
        }
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

/* To all that have a connection to this group. */
static void send_all(side_t *s, side_kind_t kind)
{
    if (sim_is_rank()) {
        side_message_t m;
        write_message(s, kind, &m);
        if (s->role == SIDE_SPOKE) sim_send(s->peers[0].rank, &m, sizeof m);
        for (int g = 1; s->role == SIDE_HUB && g < s->n_groups; g++) sim_send(s->peers[g].rank, &m, sizeof m);
        return;
    }
    for (int i = 0; i < s->n_links; i++) send_message(s, &s->links[i], kind);
}

/* ---- The channel ---- */
err_t side_offer(side_address_t *out, int *fd)
{
    if (!sim_is_rank()) return side_listen(out, fd);
    out->port = 1;
    return ERR_OK;
}

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
    if (s->role == SIDE_HUB) allow_sockets(s->n_groups);
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

void side_publish(side_t *s, const side_status_t *status, bool ask)
{
    s->peers[s->group].status = *status;
    s->peers[s->group].heard_sec = clock_sec();
    if (s->said_goodbye) return;
    s->asked = false;
    send_all(s, ask ? SIDE_ASK : SIDE_STATUS);
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
    send_all(s, SIDE_GOODBYE);
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

void side_sim_lost(side_t *s, int local)
{
    if (!sim_is_rank()) return;
    side_message_t m;
    write_message(s, SIDE_ENDED, &m);
    m.status.ended.rank = local;
    if (s->role == SIDE_SILENT)
        sim_send(s->peers[s->group].rank, &m, sizeof m);
    else
        send_all(s, SIDE_CLOSED);
}

void side_set_told(side_t *s, int group)
{
    s->peers[group].told = true;
}

int side_ended(const side_t *s)
{
    return s->ended;
}
