/* SPDX-License-Identifier: MIT */
/* Listens on a port and connects to many hosts concurrently, through plain sockets. reach_judge.c
 * reports findings. */
#include "tools/check/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/comm/tcp.h"

/* Concurrent connections: below the usual limit of open files. */
enum { AT_ONCE = 256 };

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
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return tcp_listen(fd, family, NULL, port);
}

int reach_listen(int family, reach_ports_t ports, int *port)
{
    int fd = -1;
    for (int p = ports.low; fd < 0 && p <= ports.high; p++) fd = listen_at(family_of(family), p);
    *port = fd < 0 ? 0 : tcp_port(fd);
    return fd;
}

static reach_t reach_of_errno(int error)
{
    switch (error) {
    case 0:
        return REACH_OK;
    case ECONNREFUSED:
    case ECONNRESET:
        return REACH_REFUSED;
    case ETIMEDOUT:
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

static int begin_connect(reach_target_t *target)
{
    struct sockaddr_storage address;
    const int family = family_of(target->to->family);
    socklen_t length = tcp_address(family, target->to->bytes, target->port, &address);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    target->result = REACH_ERROR;
    if (fd < 0) return -1;
    int error = connect(fd, (const struct sockaddr *)&address, length) == 0 ? 0 : errno;
    target->result = error == EINPROGRESS ? REACH_TIMEOUT : reach_of_errno(error);
    if (error == EINPROGRESS) return fd;
    close(fd);
    return -1;
}

static void end_connect(reach_target_t *target, struct pollfd *poll_fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(poll_fd->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    target->result = reach_of_errno(error);
    close(poll_fd->fd);
    poll_fd->fd = -1; /* poll ignores it */
}

static void connect_some(reach_target_t *targets, int n, double timeout_sec)
{
    struct pollfd fds[AT_ONCE];
    int n_open = 0;
    double deadline = clock_sec() + timeout_sec;
    for (int i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = targets[i].to ? begin_connect(&targets[i]) : -1, .events = POLLOUT};
        n_open += fds[i].fd >= 0;
    }
    while (n_open > 0) {
        double left = deadline - clock_sec();
        if (left <= 0) break;
        if (poll(fds, (nfds_t)n, 1 + (int)(1000 * left)) < 0 && errno != EINTR) break;
        for (int i = 0; i < n; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            end_connect(&targets[i], &fds[i]);
            n_open--;
        }
    }
    for (int i = 0; i < n; i++)
        if (fds[i].fd >= 0) close(fds[i].fd);
}

void reach_connect(reach_target_t *targets, int n, double timeout_sec)
{
    for (int i = 0; i < n; i += AT_ONCE)
        connect_some(targets + i, n - i < AT_ONCE ? n - i : AT_ONCE, timeout_sec);
}
