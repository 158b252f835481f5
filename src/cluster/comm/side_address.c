/* SPDX-License-Identifier: MIT */
/* Chooses this host's addresses as Open MPI's TCP transport does, by interface names and subnets, and makes
 * sockets. What is sent over them is left to side_channel.c. */
#include "cluster/comm/side_address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster/comm/tcp.h"

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

int side_connected(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

int side_accept(int fd)
{
    int out = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (out >= 0) send_at_once(out);
    return out;
}

void side_allow_sockets(int n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    rlim_t needed = (rlim_t)n + 512;
    if (limit.rlim_cur >= needed) return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}
