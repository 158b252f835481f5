/* SPDX-License-Identifier: MIT */
/* The check `reach`: hosts over plain sockets, before MPI carries more than a few bytes. Who has which address, what names lead
 * to, who answers on a port; then packets from each host to each other: how many are lost, and how large they may be. */
#include <errno.h>
#include <fcntl.h>
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
#include "tools/check/cases.h"
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

struct reach_server {
    int port;
    reach_hello_t hello;
    atomic_bool ends;
    pthread_t thread;
    struct pollfd fds[1 + AT_ONCE]; /* the first listens */
};

static void *answer(void *context)
{
    static _Thread_local char dropped[1 << 16];
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
        }
        for (int i = 1; i < n; i++) {
            if (!s->fds[i].revents) continue;
            ssize_t got = recv(s->fds[i].fd, dropped, sizeof dropped, 0);
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
    struct pollfd fds[AT_ONCE];
    int n_open = 0;
    double deadline = clock_sec() + timeout_sec;
    for (int i = 0; i < n; i++) {
        int error = 0;
        fds[i] = (struct pollfd){.fd = -1, .events = POLLOUT};
        if (targets[i].to) fds[i].fd = begin_connect(targets[i].to, targets[i].port, &error);
        if (targets[i].to) targets[i].result = fds[i].fd < 0 ? (int32_t)reach_of_errno(error) : REACH_TIMEOUT;
        n_open += fds[i].fd >= 0;
    }
    while (n_open > 0) {
        double left = deadline - clock_sec();
        if (left <= 0) break;
        if (poll(fds, (nfds_t)n, 1 + (int)(1000 * left)) < 0 && errno != EINTR) break;
        for (int i = 0; i < n; i++) {
            if (fds[i].fd < 0 || !fds[i].revents) continue;
            const int error = fds[i].events == POLLOUT ? socket_error(fds[i].fd) : 0;
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
    out->stuck = n > (ssize_t)info.tcpi_snd_mss && drain(fd, end) >= (int)n;
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

/* ---- Judging connections: failing pairs are attributed to hosts where possible ---- */
/* More lines would not help. */
enum { MAX_LINES = 16 };

static const char *const words[] = {"reached",  "refused", "timed out",
                                    "no route", "error",   "answered by another machine"};
static const char refused[] =
    "a firewall rejects the connection (iptables -L, nft list ruleset), or the address belongs to another "
    "host: open the ports between the hosts, or pass open ones to run.sh --ports";
static const char silent[] =
    "a firewall or security group drops packets, or the link is down: open the ports between the hosts, or "
    "pass open ones to run.sh --ports; test with ip route get and ping";

static const char impostor[] =
    "another machine has that address, or a proxy answers: look for it by ip neigh on both hosts and ip address on the other";

static const char *reach_advice(int32_t result)
{
    return result >= REACH_OTHER ? impostor : result == REACH_REFUSED ? refused : silent;
}

const char *reach_text(int32_t result)
{
    return words[result < REACH_OTHER ? result : REACH_OTHER];
}

/* "timed out", "answered by node3". */
static const char *reach_words(const check_t *check, int32_t result, char out[TOPO_HOST_MAX + 32])
{
    const int other = result - REACH_OTHER - 1;
    if (result <= REACH_OTHER || other >= check->n_hosts) return reach_text(result);
    snprintf(out, TOPO_HOST_MAX + 32, "answered by %s", check_host_name(check, other));
    return out;
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
    char text[TOPO_HOST_MAX + 32];
    if (in && out)
        check_line(check, where, what, CHECK_FAIL, reach_advice(in), "to and from every other host: %s",
                   reach_words(check, in, text));
    else if (in)
        check_line(check, where, what, CHECK_FAIL, reach_advice(in), "from every other host: %s",
                   reach_words(check, in, text));
    else
        check_line(check, where, what, CHECK_FAIL, reach_advice(out), "to every other host: %s",
                   reach_words(check, out, text));
}

int reach_judge(check_t *check, const int32_t *results, const char *what)
{
    int n = check->n_hosts, n_fail = 0, n_lines = 0;
    for (int h = 0; h < n; h++)
        if (host_fails(results, n, h)) judge_unreachable_host(check, results, h, what);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            int32_t result = results[a * n + b];
            char text[TOPO_HOST_MAX + 32];
            n_fail += a != b && result != REACH_OK;
            if (a == b || result == REACH_OK || host_fails(results, n, a) || host_fails(results, n, b))
                continue;
            if (n_lines++ < MAX_LINES)
                check_line(check, check_other_host(a), what, CHECK_FAIL, reach_advice(result), "to %s: %s",
                           check_host_name(check, b), reach_words(check, result, text));
        }
    if (n_lines > MAX_LINES)
        check_line(check, check_job(check), what, CHECK_FAIL, silent, "%d more pairs fail",
                   n_lines - MAX_LINES);
    return n_fail;
}

/* ---- Judging packets ---- */
static const char loss_advice[] =
    "check cable, transceiver, switch port, duplex and ring buffers (ethtool -S DEVICE), rules that drop "
    "(iptables -L -v), and the load of the link";
static const char mtu_advice[] =
    "the path carries less than the interfaces: set the MTU of all hosts and switches to the same "
    "value (ip link set DEVICE mtu N; test: ping -M do -s N-28)";

/* Few lost packets are chance, or congestion. */
static bool is_lossy(int64_t n_lost, int64_t n_sent)
{
    return n_lost >= 5 && (double)n_lost > 0.001 * (double)n_sent;
}

static void report_loss(check_t *check, int host, const char *where, int64_t n_lost, int64_t n_sent)
{
    const double share = (double)n_lost / (double)n_sent;
    check_line(check, check_other_host(host), "packet loss", share > 0.01 ? CHECK_FAIL : CHECK_WARN,
               loss_advice, "%.2g %% %s", 100 * share, where);
}

/* Sums over a host's pairs that lose packets, if these are most of at least two: then the host is the cause. */
static bool loses(const check_t *check, const reach_path_t *paths, int host, bool sends, int64_t *n_lost,
                  int64_t *n_sent)
{
    const int n = check->n_hosts;
    int n_lossy = 0;
    *n_lost = *n_sent = 0;
    for (int h = 0; h < n; h++) {
        const reach_path_t *p = sends ? &paths[host * n + h] : &paths[h * n + host];
        if (h == host) continue;
        *n_lost += p->n_lost;
        *n_sent += p->n_sent;
        n_lossy += p->n_lost > 0 && p->n_lost * 1000 > p->n_sent;
    }
    return n_lossy > 1 && 2 * n_lossy > n - 1 && is_lossy(*n_lost, *n_sent);
}

static void judge_loss(check_t *check, const reach_path_t *paths)
{
    const int n = check->n_hosts;
    int64_t n_lost, n_sent, all_lost = 0, all_sent = 0;
    int n_lines = 0;
    for (int h = 0; h < n; h++)
        for (int sends = 0; sends < 2; sends++)
            if (loses(check, paths, h, sends, &n_lost, &n_sent)) {
                report_loss(check, h, sends ? "of what it sends" : "of what is sent to it", n_lost, n_sent);
                n_lines++;
            }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const reach_path_t *p = &paths[a * n + b];
            char where[TOPO_HOST_MAX + 32];
            all_lost += p->n_lost;
            all_sent += p->n_sent;
            if (!is_lossy(p->n_lost, p->n_sent) || loses(check, paths, a, true, &n_lost, &n_sent) ||
                loses(check, paths, b, false, &n_lost, &n_sent) || n_lines++ >= MAX_LINES)
                continue;
            snprintf(where, sizeof where, "of what it sends to %s", check_host_name(check, b));
            report_loss(check, a, where, p->n_lost, p->n_sent);
        }
    if (n_lines == 0 && all_sent > 0)
        check_line(check, check_job(check), "packet loss", CHECK_OK, NULL, "%lld of %lld packets",
                   (long long)all_lost, (long long)all_sent);
}

static void judge_mtu(check_t *check, const reach_path_t *paths, const int32_t *mtu)
{
    const int n = check->n_hosts;
    int n_lines = 0, n_paths = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const reach_path_t *p = &paths[a * n + b];
            const int least = mtu[a] < mtu[b] ? mtu[a] : mtu[b];
            const bool less = p->mtu > 0 && p->mtu < least;
            n_paths += a != b && p->n_sent > 0;
            if ((!p->stuck && !less) || n_lines++ >= MAX_LINES) continue;
            if (p->stuck)
                check_line(check, check_other_host(a), "path MTU", CHECK_FAIL, mtu_advice,
                           "full packets to %s are lost: %d bytes", check_host_name(check, b), p->mtu);
            else
                check_line(check, check_other_host(a), "path MTU", CHECK_WARN, mtu_advice,
                           "%d of %d bytes to %s", p->mtu, least, check_host_name(check, b));
        }
    if (n_lines == 0 && n_paths > 0)
        check_line(check, check_job(check), "path MTU", CHECK_OK, NULL,
                   "full packets pass between all hosts");
}

void reach_judge_paths(check_t *check, const reach_path_t *paths, const int32_t *mtu)
{
    judge_loss(check, paths);
    judge_mtu(check, paths, mtu);
}

/* ---- The check ---- */
static const char net_folder[] = "/sys/class/net", snmp_file[] = "/proc/net/snmp";
/* Long enough to retransmit a lost SYN, first after a second. */
static const double connect_sec = 4, path_sec = 5, names_sec = 10;

/* A host, exchanged between the hosts' first ranks. */
typedef struct entry {
    net_host_t net;
    int32_t port, family, mtu;
    int64_t mbit_per_sec;
} entry_t;

typedef struct hosts {
    check_t *check;
    int n;
    entry_t *all;    /* [comm->size]: those of first ranks count */
    int *leaders;    /* [n]: first rank of each host */
    net_host_t *net; /* [n] */
    net_subnet_t subnets[NET_SUBNETS];
    int n_subnets;
    const net_subnet_t *shared; /* the first subnet that MPI may use and all hosts share; NULL: none */
    reach_server_t *server;
    uint64_t job;
    int32_t *results;    /* [n × n] */
    reach_path_t *paths; /* [n × n] */
} hosts_t;

/* Where to reach a host: its address in the shared subnet, otherwise its first that MPI may use. */
static const net_address_t *address_of(const hosts_t *hosts, int host)
{
    if (hosts->shared) return net_find(&hosts->net[host], hosts->shared);
    for (int i = 0; i < hosts->n_subnets; i++) {
        const net_subnet_t *s = &hosts->subnets[i];
        const net_address_t *a = s->used && !s->bridge ? net_find(&hosts->net[host], s) : NULL;
        if (a) return a;
    }
    return NULL;
}

/* Collective. Sets all but results and paths. */
static err_t exchange(hosts_t *hosts, const entry_t *mine)
{
    static const char what[] = "comparing interfaces";
    TRY(comm_allgather(hosts->check->comm, mine, sizeof *mine, hosts->all, what));
    for (int h = 0; h < hosts->n; h++) hosts->net[h] = hosts->all[hosts->leaders[h]].net;
    hosts->n_subnets = net_subnets(hosts->net, hosts->n, hosts->subnets);
    hosts->shared = NULL;
    for (int i = 0; !hosts->shared && i < hosts->n_subnets; i++) {
        const net_subnet_t *s = &hosts->subnets[i];
        if (s->used && !s->bridge && s->n_hosts == hosts->n) hosts->shared = s;
    }
    return ERR_OK;
}

/* Not collective. What the hosts' names lead to here. */
static err_t compare_names(const hosts_t *hosts)
{
    check_t *check = hosts->check;
    net_name_t *names;
    TRY(mem_new_array(hosts->n, sizeof *names, "names of hosts", &names));
    for (int h = 0; h < hosts->n; h++) names[h].name = check->ranks[hosts->leaders[h]].host_name;
    err_t err = net_resolve(names, hosts->n, names_sec);
    if (err == ERR_OK) net_judge_names(check, hosts->net, names);
    mem_free(&names);
    return err;
}

/* Collective. All hosts listen, then each connects to all others. */
static err_t connect_all(hosts_t *hosts, reach_ports_t ports)
{
    static const char what[] = "connecting hosts",
                      advice[] = "stop the programs that hold these ports, or widen the range";
    check_t *check = hosts->check;
    const bool leads = check_host(check).speaks;
    const int n = hosts->n;
    entry_t mine = hosts->all[check->comm->rank];
    const net_address_t *own = leads ? address_of(hosts, check->host) : NULL;
    reach_target_t *targets = NULL;
    if (own && reach_serve(own->family, ports, hosts->job, check->host, &hosts->server) == ERR_OK)
        mine.port = reach_server_port(hosts->server);
    else if (own)
        check_line(check, check_host(check), "ports", CHECK_FAIL, advice, "%s", err_message());
    TRY(exchange(hosts, &mine));
    TRY(comm_agree(check->comm, mem_new_array(n, sizeof *targets, "hosts to reach", &targets), what));
    for (int h = 0; h < n; h++) {
        const entry_t *to = &hosts->all[hosts->leaders[h]];
        const bool other = h != check->host && to->port > 0; /* a host without a port has a line of its own */
        targets[h] = (reach_target_t){other ? address_of(hosts, h) : NULL, to->port, h,
                                      other ? REACH_NO_ROUTE : REACH_OK};
    }
    if (leads) reach_connect(targets, n, hosts->job, connect_sec);
    for (int h = 0; leads && h < n; h++) hosts->results[check->host * n + h] = targets[h].result;
    mem_free(&targets);
    return comm_allreduce(check->comm, hosts->results, (int64_t)n * n, DTYPE_I32, COMM_MAX, what);
}

/* On rank 0. */
static void report_connections(const hosts_t *hosts, reach_ports_t ports)
{
    check_t *check = hosts->check;
    int n_fail = reach_judge(check, hosts->results, "ports"), n_pairs = hosts->n * (hosts->n - 1);
    if (n_fail == 0 && ports.low > 0)
        check_line(check, check_job(check), "ports", CHECK_OK, NULL, "%d-%d, all %d pairs connect", ports.low,
                   ports.high, n_pairs);
    else if (n_fail == 0)
        check_line(check, check_job(check), "ports", CHECK_OK, NULL, "any, all %d pairs connect", n_pairs);
    net_judge(check, hosts->net, hosts->subnets, hosts->n_subnets, !hosts->shared && n_fail == 0);
}

/* Not collective. Sends to each host in turn, so that few send to one at a time; where packets are lost, again: other traffic
 * is temporary. */
static void send_to_all(const hosts_t *hosts)
{
    const check_t *check = hosts->check;
    const int n = hosts->n, me = check->host, few = 4000 / (n - 1) < 100 ? 100 : 4000 / (n - 1);
    const int n_packets = (few < 1500 ? few : 1500) * (check->options->level > 1 ? 8 : 1);
    for (int round = 0; round < pairs_rounds(n); round++) {
        const int h = pairs_partner(n, round, me);
        const net_address_t *to = h == me ? NULL : address_of(hosts, h);
        reach_path_t *path = &hosts->paths[me * n + h];
        for (int i = 0; to && i < 3; i++) {
            const reach_path_t again =
                reach_send(to, hosts->all[hosts->leaders[h]].port, n_packets, path_sec);
            if (i == 0 || (double)again.n_lost * path->n_sent < (double)path->n_lost * again.n_sent)
                *path = again;
            if (path->n_lost < 2 && !path->stuck) break;
        }
    }
}

/* Collective. */
static err_t try_paths(hosts_t *hosts)
{
    static const char what[] = "sending packets between hosts";
    check_t *check = hosts->check;
    const int64_t n = hosts->n, n_numbers = n * n * (int64_t)(sizeof(reach_path_t) / sizeof(int32_t));
    int32_t *mtu;
    if (check_host(check).speaks) send_to_all(hosts);
    TRY(comm_barrier_asleep(check->comm, what));
    TRY(comm_allreduce(check->comm, hosts->paths, n_numbers, DTYPE_I32, COMM_MAX, what));
    if (check->comm->rank > 0) return ERR_OK;
    TRY(mem_new_array(n, sizeof *mtu, "MTUs", &mtu));
    for (int h = 0; h < n; h++) mtu[h] = hosts->all[hosts->leaders[h]].mtu;
    reach_judge_paths(check, hosts->paths, mtu);
    mem_free(&mtu);
    return ERR_OK;
}

/* Collective. */
static err_t reach_hosts(hosts_t *hosts)
{
    static const char what[] = "comparing interfaces";
    check_t *check = hosts->check;
    comm_t *comm = check->comm;
    const bool leads = check_host(check).speaks;
    reach_ports_t ports;
    entry_t mine = {.family = 4};
    net_link_t link = {0};
    net_host_read(&mine.net);
    TRY(exchange(hosts, &mine));
    const net_address_t *own = address_of(hosts, check->host);
    if (own) net_link_read(net_folder, own->interface, &link);
    if (leads) net_link_facts(check, &link);
    mine.mtu = link.mtu;
    mine.mbit_per_sec = link.mbit_per_sec;
    hosts->all[comm->rank] = mine; /* sent with the port */
    hosts->job = (uint64_t)(1e6 * clock_unix_sec()) ^ (uint64_t)getpid() << 40;
    TRY(comm_broadcast(comm, &hosts->job, sizeof hosts->job, 0, what));
    TRY(reach_ports_parse("ports", check->options->ports, &ports));
    if (ports.low == 0) ports = reach_ports_environment();
    TRY(connect_all(hosts, ports));
    if (comm->rank == 0) report_connections(hosts, ports);
    TRY(comm_agree(comm, leads ? compare_names(hosts) : ERR_OK, "resolving names"));
    for (int i = 0; i < hosts->n * hosts->n; i++) check->unreached |= hosts->results[i] != REACH_OK;
    for (int h = 0; h < hosts->n; h++) {
        const double rate = 1e6 * (double)hosts->all[hosts->leaders[h]].mbit_per_sec;
        if (h == 0 || rate < check->link_bits_per_sec) check->link_bits_per_sec = rate;
    }
    return check->unreached ? ERR_OK : try_paths(hosts);
}

static err_t hosts_alloc(hosts_t *hosts)
{
    const check_t *check = hosts->check;
    const int64_t n = hosts->n, n_all = n * n;
    TRY(mem_new_array(check->comm->size, sizeof *hosts->all, "interfaces", &hosts->all));
    TRY(mem_new_array(n, sizeof *hosts->leaders, "hosts", &hosts->leaders));
    TRY(mem_new_array(n, sizeof *hosts->net, "interfaces of hosts", &hosts->net));
    TRY(mem_new_array(n_all, sizeof *hosts->results, "reachability of hosts", &hosts->results));
    TRY(mem_new_array(n_all, sizeof *hosts->paths, "packets between hosts", &hosts->paths));
    check_leaders(check, hosts->leaders);
    return ERR_OK;
}

static err_t reach_run(check_t *check)
{
    hosts_t hosts = {.check = check, .n = check->n_hosts};
    const bool parts = check->options->runtime.ranks_per_host > 0;
    if (check->n_hosts == 1 || parts || check->comm->topo.simulated) {
        check_line(check, check_job(check), "interfaces", CHECK_SKIP, NULL,
                   check->n_hosts == 1 ? "one host" : "hosts are simulated%s",
                   parts ? " (--ranks-per-host)" : "");
        return ERR_OK;
    }
    if (check_host(check).speaks) net_counters_read(net_folder, snmp_file, &check->counters);
    err_t err = comm_agree(check->comm, hosts_alloc(&hosts), "preparing to reach hosts");
    if (err == ERR_OK) err = reach_hosts(&hosts);
    reach_server_stop(&hosts.server);
    mem_free(&hosts.all);
    mem_free(&hosts.leaders);
    mem_free(&hosts.net);
    mem_free(&hosts.results);
    mem_free(&hosts.paths);
    return err;
}

void reach_report_counters(check_t *check)
{
    net_counters_t now;
    if (!check_host(check).speaks || check->counters.packets == 0) return;
    net_counters_read(net_folder, snmp_file, &now);
    net_counters_judge(check, &now);
}

const check_case_t check_reach = {
    "reach", "between hosts without MPI: addresses, names, ports, packet loss, MTU", true, reach_run};
