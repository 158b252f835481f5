/* SPDX-License-Identifier: MIT */
/* Listens on a port and connects to many hosts concurrently, through plain sockets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/watch/tcp.h"
#include "tools/check/network.h"

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

/* ---- Judging: failing pairs are attributed to hosts where possible ---- */
/* More lines would not help. */
enum { MAX_LINES = 16 };

static const char *const words[] = {"reached", "refused", "timed out", "no route", "error"};
static const char refused[] =
    "a firewall rejects the connection (iptables -L, nft list ruleset), or the address belongs to another "
    "host: open the ports between the hosts, or pass open ones to run.sh --ports";
static const char silent[] =
    "a firewall or security group drops packets, or the link is down: open the ports between the hosts, or "
    "pass open ones to run.sh --ports; test with ip route get and ping";

static const char *reach_advice(int32_t result)
{
    return result == REACH_REFUSED ? refused : silent;
}

/* The worst result of a host's row (`from`) or column; 0 if any connection succeeds. */
static int32_t all_fail(const int32_t *results, int n, int host, bool from)
{
    int32_t worst = 0;
    for (int other = 0; other < n; other++) {
        int32_t result = from ? results[host * n + other] : results[other * n + host];
        if (other == host) continue;
        if (result == REACH_OK) return 0;
        if (result > worst) worst = result;
    }
    return worst;
}

/* Two hosts are a pair: neither can be singled out. */
static bool host_fails(const int32_t *results, int n, int host)
{
    return n > 2 && (all_fail(results, n, host, true) || all_fail(results, n, host, false));
}

static void judge_unreachable_host(check_t *check, const int32_t *results, int host, const char *what)
{
    int n = check->n_hosts;
    int32_t in = all_fail(results, n, host, false), out = all_fail(results, n, host, true);
    check_where_t where = check_other_host(host);
    if (in && out)
        check_line(check, where, what, CHECK_FAIL, reach_advice(in), "to and from every other host: %s",
                   words[in]);
    else if (in)
        check_line(check, where, what, CHECK_FAIL, reach_advice(in), "from every other host: %s", words[in]);
    else
        check_line(check, where, what, CHECK_FAIL, reach_advice(out), "to every other host: %s", words[out]);
}

int reach_judge(check_t *check, const int32_t *results, const char *what)
{
    int n = check->n_hosts, n_fail = 0, n_lines = 0;
    for (int h = 0; h < n; h++)
        if (host_fails(results, n, h)) judge_unreachable_host(check, results, h, what);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            int32_t result = results[a * n + b];
            n_fail += a != b && result != REACH_OK;
            if (a == b || result == REACH_OK || host_fails(results, n, a) || host_fails(results, n, b))
                continue;
            if (n_lines++ < MAX_LINES)
                check_line(check, check_other_host(a), what, CHECK_FAIL, reach_advice(result), "to %s: %s",
                           check_host_name(check, b), words[result]);
        }
    if (n_lines > MAX_LINES)
        check_line(check, check_job(check), what, CHECK_FAIL, silent, "%d more pairs fail",
                   n_lines - MAX_LINES);
    return n_fail;
}
