/* SPDX-License-Identifier: MIT */
/* Plain sockets for the check `reach`: a server that answers who this host is, a client that asks many hosts at once, and packets to
 * one host: how many are lost, and how large they may be. */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/watch/tcp.h"
#include "tools/check/network.h"

/* ---- Ports ---- */
err_t reach_ports_parse(const char *option, const char *text, reach_ports_t *out)
{
    int n = 0;
    *out = (reach_ports_t){0};
    if (!text) return ERR_OK;
    if (sscanf(text, "%5d-%5d%n", &out->low, &out->high, &n) != 2 || text[n] || out->low < 1 ||
        out->high < out->low || out->high > 65535)
        RAISE(ERR_USAGE, "invalid --%s '%s': expected a port range such as 20000-20999", option, text);
    return ERR_OK;
}

static int environment_number(const char *name)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

reach_ports_t reach_ports_environment(void)
{
    int low = environment_number("OMPI_MCA_btl_tcp_port_min_v4"),
        n = environment_number("OMPI_MCA_btl_tcp_port_range_v4");
    if (low < 1024 || low > 65535) return (reach_ports_t){0};
    return (reach_ports_t){low, n > 0 && low + n <= 65536 ? low + n - 1 : 65535};
}

static int family_of(int version)
{
    return version == 4 ? AF_INET : AF_INET6;
}

static int listen_at(int family, int port)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return tcp_listen(fd, family, NULL, port);
}

/* ---- The server: answers who this host is, and drops what it gets ---- */
/* Connections at once: below the usual limit of open files. */
enum { AT_ONCE = 256, BEAT_MSEC = 50 };
static const char magic[8] = "dptrain";

/* What a host answers. */
typedef struct reach_hello {
    char magic[8];
    uint64_t job;
    int32_t host;
} reach_hello_t;

struct reach_server {
    int port;
    reach_hello_t hello;
    atomic_bool ends;
    pthread_t thread;
    struct pollfd fds[1 + AT_ONCE]; /* the first listens */
    char dropped[1 << 16];
};

static void *answer(void *context)
{
    reach_server_t *s = context;
    int n = 1;
    while (!atomic_load(&s->ends)) {
        s->fds[0].events = n <= AT_ONCE ? POLLIN : 0;
        if (poll(s->fds, (nfds_t)n, BEAT_MSEC) <= 0) continue;
        if (s->fds[0].revents) {
            int fd = accept4(s->fds[0].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd >= 0 && send(fd, &s->hello, sizeof s->hello, MSG_NOSIGNAL) == (ssize_t)sizeof s->hello)
                s->fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
            else if (fd >= 0)
                close(fd);
            else if (errno != EAGAIN && errno != EINTR) /* too many open files */
                clock_sleep(1e-3 * BEAT_MSEC);
        }
        for (int i = 1; i < n; i++) {
            if (!s->fds[i].revents) continue;
            ssize_t got = recv(s->fds[i].fd, s->dropped, sizeof s->dropped, 0);
            if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) continue;
            close(s->fds[i].fd);
            s->fds[i--] = s->fds[--n];
        }
    }
    for (int i = 0; i < n; i++) close(s->fds[i].fd);
    return NULL;
}

err_t reach_serve(int family, reach_ports_t ports, uint64_t job, int host, reach_server_t **out)
{
    reach_server_t *s;
    int fd = -1;
    for (int p = ports.low; fd < 0 && p <= ports.high; p++) fd = listen_at(family_of(family), p);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot listen on any: %s", strerror(errno));
    err_t err = mem_new(sizeof *s, "answering other hosts", &s);
    if (err != ERR_OK) {
        close(fd);
        return err;
    }
    s->port = tcp_port(fd);
    s->hello = (reach_hello_t){.job = job, .host = host};
    memcpy(s->hello.magic, magic, sizeof magic);
    s->fds[0].fd = fd;
    int status = thread_start(&s->thread, answer, s);
    if (status == 0) {
        *out = s;
        return ERR_OK;
    }
    close(fd);
    mem_free(&s);
    RAISE(ERR_SYSTEM, "cannot start a thread: %s", strerror(status));
}

int reach_server_port(const reach_server_t *server)
{
    return server->port;
}

void reach_server_stop(reach_server_t **server)
{
    if (!*server) return;
    atomic_store(&(*server)->ends, true);
    pthread_join((*server)->thread, NULL);
    mem_free(server);
}

/* ---- The client: connects to many hosts at once, and reads who answers ---- */
static reach_t reach_of_errno(int error)
{
    switch (error) {
    case 0:
        return REACH_OK;
    case ECONNREFUSED:
    case ECONNRESET:
        return REACH_REFUSED;
    case ETIMEDOUT:
    case EAGAIN:
        return REACH_TIMEOUT;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EACCES: /* prohibit and blackhole routes */
    case EINVAL:
        return REACH_NO_ROUTE;
    default:
        return REACH_ERROR;
    }
}

/* A socket that connects; -1: it failed with *error. */
static int begin_connect(const net_address_t *to, int port, int *error)
{
    struct sockaddr_storage address;
    const int family = family_of(to->family);
    socklen_t length = tcp_address(family, to->bytes, port, &address);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *error = fd < 0 ? EMFILE : connect(fd, (const struct sockaddr *)&address, length) == 0 ? 0 : errno;
    if (fd < 0 || *error == 0 || *error == EINPROGRESS) return fd;
    close(fd);
    return -1;
}

static int socket_error(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

/* False: more is to come. */
static bool read_hello(reach_target_t *target, int fd, uint64_t job)
{
    reach_hello_t hello;
    ssize_t n = recv(fd, &hello, sizeof hello, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n < 0) {
        target->result = reach_of_errno(errno);
    } else if (n != (ssize_t)sizeof hello) {
        if (n > 0) return false;
        target->result = REACH_OTHER; /* it closed the connection without a word */
    } else if (memcmp(hello.magic, magic, sizeof magic) != 0 || hello.job != job || hello.host < 0) {
        target->result = REACH_OTHER;
    } else {
        target->result = hello.host == target->host ? REACH_OK : REACH_OTHER + 1 + hello.host;
    }
    return true;
}

static void connect_some(reach_target_t *targets, int n, uint64_t job, double timeout_sec)
{
    /* A host that has connected is there, even if other work keeps it from answering. */
    static const double answer_sec = 30;
    struct pollfd fds[AT_ONCE];
    int n_open = 0, n_connecting = 0;
    const double deadline = clock_sec() + timeout_sec;
    for (int i = 0; i < n; i++) {
        int error = 0;
        fds[i] = (struct pollfd){.fd = -1, .events = POLLOUT};
        if (targets[i].to) fds[i].fd = begin_connect(targets[i].to, targets[i].port, &error);
        if (targets[i].to) targets[i].result = fds[i].fd < 0 ? (int32_t)reach_of_errno(error) : REACH_TIMEOUT;
        n_open += fds[i].fd >= 0;
    }
    n_connecting = n_open;
    while (n_open > 0) {
        const double now = clock_sec(),
                     left = deadline - now + (n_connecting > 0 && now < deadline ? 0 : answer_sec);
        for (int i = 0; now > deadline && n_connecting > 0 && i < n; i++) {
            if (fds[i].fd < 0 || fds[i].events != POLLOUT) continue;
            close(fds[i].fd);
            fds[i].fd = -1;
            n_open--;
            n_connecting--;
        }
        if (n_open == 0 || left <= 0) break;
        if (poll(fds, (nfds_t)n, 1 + (int)(1000 * left)) < 0 && errno != EINTR) break;
        for (int i = 0; i < n; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            const int error = fds[i].events == POLLOUT ? socket_error(fds[i].fd) : 0;
            n_connecting -= fds[i].events == POLLOUT;
            if (error) targets[i].result = (int32_t)reach_of_errno(error);
            if (!error && fds[i].events == POLLOUT) {
                fds[i].events = POLLIN;
                continue;
            }
            if (!error && !read_hello(&targets[i], fds[i].fd, job)) continue;
            close(fds[i].fd);
            fds[i].fd = -1; /* poll ignores it */
            n_open--;
        }
    }
    for (int i = 0; i < n; i++)
        if (fds[i].fd >= 0) close(fds[i].fd);
}

void reach_connect(reach_target_t *targets, int n, uint64_t job, double timeout_sec)
{
    for (int i = 0; i < n; i += AT_ONCE)
        connect_some(targets + i, n - i < AT_ONCE ? n - i : AT_ONCE, job, timeout_sec);
}

/* ---- Packets to one host ---- */
/* One write is about one packet, because only a few fit into the socket: the loss of each counts. Full packets need more room. */
enum { PACKET_BYTES = 1000, FEW_BYTES = 16 << 10, FULL_BYTES = 256 << 10, ENOUGH_LOST = 24 };
/* Without progress for this long, full packets are stuck: several retransmissions. */
static const double stuck_sec = 3;

static bool wait_for(int fd, short events, double deadline)
{
    struct pollfd one = {fd, events, 0};
    for (;;) {
        double left = deadline - clock_sec();
        if (left <= 0) return false;
        int n = poll(&one, 1, 1 + (int)(1000 * left));
        if (n > 0) return (one.revents & events) != 0;
        if (n < 0 && errno != EINTR) return false;
    }
}

static struct tcp_info info_of(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) memset(&info, 0, sizeof info);
    return info;
}

/* Of data, sent again although it had arrived: the receiver says so (DSACK). */
static int32_t count_lost(const struct tcp_info *info)
{
    return info->tcpi_total_retrans > info->tcpi_dsack_dups
               ? (int32_t)(info->tcpi_total_retrans - info->tcpi_dsack_dups)
               : 0;
}

static bool send_bytes(int fd, const char *data, size_t n_bytes, double deadline)
{
    for (size_t at = 0; at < n_bytes;) {
        ssize_t n = send(fd, data + at, n_bytes - at, MSG_NOSIGNAL);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR) || !wait_for(fd, POLLOUT, deadline))
            return false;
    }
    return true;
}

/* Waits until all is acknowledged; returns the bytes that are not. */
static int drain(int fd, double deadline)
{
    for (;;) {
        int left = 0;
        if (ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0 || clock_sec() > deadline) return left;
        clock_sleep(0.001);
    }
}

static void send_packets(int fd, int n_packets, double deadline, reach_path_t *out)
{
    static const char data[FULL_BYTES];
    const int few = FEW_BYTES, full = FULL_BYTES, on = 1;
    struct tcp_info info;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof few);
    bool sent = true;
    for (int i = 0; sent && i < n_packets; i++) {
        sent = send_bytes(fd, data, PACKET_BYTES, deadline);
        if (i % 64 != 63) continue;
        info = info_of(fd);
        if (count_lost(&info) >= ENOUGH_LOST) break;
    }
    sent = sent && drain(fd, deadline) == 0;
    info = info_of(fd);
    out->n_lost = count_lost(&info);
    out->n_sent = (int32_t)info.tcpi_data_segs_out;
    out->mtu = (int32_t)info.tcpi_pmtu;
    if (!sent || out->n_lost > 0) return; /* what is lost would delay full packets, too */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &full, sizeof full);
    const double end = fmin(deadline, clock_sec() + stuck_sec);
    const ssize_t n = send(fd, data, FULL_BYTES / 2, MSG_NOSIGNAL);
    const int left = drain(fd, end);
    out->stuck = n > (ssize_t)info.tcpi_snd_mss && left >= (int)n;
    out->full = n > 0 && left == 0;
    info = info_of(fd);
    out->mtu = (int32_t)info.tcpi_pmtu;
}

reach_path_t reach_send(const net_address_t *to, int port, int n_packets, double timeout_sec)
{
    reach_path_t path = {0};
    reach_hello_t hello;
    int error;
    const double deadline = clock_sec() + timeout_sec;
    int fd = begin_connect(to, port, &error);
    if (fd < 0) return path;
    /* The answer is read so that the end of the connection is orderly. */
    if (wait_for(fd, POLLOUT, deadline) && wait_for(fd, POLLIN, deadline) &&
        recv(fd, &hello, sizeof hello, MSG_WAITALL) == (ssize_t)sizeof hello)
        send_packets(fd, n_packets, deadline, &path);
    close(fd);
    return path;
}
