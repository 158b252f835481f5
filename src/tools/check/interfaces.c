/* SPDX-License-Identifier: MIT */
/* Lists a host's network addresses and groups those of all hosts into subnets. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/watch/tcp.h"
#include "tools/check/network.h"

static net_text_t net_address_text(const net_address_t *a)
{
    net_text_t out;
    if (!inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, out.text, sizeof out.text))
        snprintf(out.text, sizeof out.text, "?");
    return out;
}

static net_text_t net_subnet_text(const net_address_t *a)
{
    net_address_t base = *a;
    for (int bit = a->prefix; bit < (a->family == 4 ? 32 : 128); bit++)
        base.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    net_text_t out = net_address_text(&base);
    size_t used = strlen(out.text);
    snprintf(out.text + used, sizeof out.text - used, "/%d", a->prefix);
    return out;
}

static int count_bits(const uint8_t *mask, int n_bytes)
{
    int n = 0;
    for (int i = 0; i < n_bytes; i++)
        for (int bit = 0; bit < 8; bit++) n += mask[i] >> bit & 1;
    return n;
}

/* Loopback and link-local addresses do not identify a network. */
static bool is_local(const net_address_t *a)
{
    if (a->family == 4) return a->bytes[0] == 127 || (a->bytes[0] == 169 && a->bytes[1] == 254);
    return a->bytes[0] == 0 || (a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80);
}

static bool read_address(const struct ifaddrs *from, net_address_t *out)
{
    if (!from->ifa_addr || !from->ifa_netmask || !(from->ifa_flags & IFF_UP) ||
        (from->ifa_flags & IFF_LOOPBACK))
        return false;
    *out = (net_address_t){0};
    snprintf(out->interface, sizeof out->interface, "%s", from->ifa_name);
    if (from->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in address, mask;
        memcpy(&address, from->ifa_addr, sizeof address);
        memcpy(&mask, from->ifa_netmask, sizeof mask);
        out->family = 4;
        memcpy(out->bytes, &address.sin_addr, 4);
        out->prefix = (uint8_t)count_bits((const uint8_t *)&mask.sin_addr, 4);
    } else if (from->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 address, mask;
        memcpy(&address, from->ifa_addr, sizeof address);
        memcpy(&mask, from->ifa_netmask, sizeof mask);
        out->family = 6;
        memcpy(out->bytes, &address.sin6_addr, 16);
        out->prefix = (uint8_t)count_bits((const uint8_t *)&mask.sin6_addr, 16);
    }
    return out->family && !is_local(out);
}

void net_host_read(net_host_t *out)
{
    struct ifaddrs *list = NULL;
    const char *include = getenv("OMPI_MCA_btl_tcp_if_include");
    const char *exclude = getenv("OMPI_MCA_btl_tcp_if_exclude");
    *out = (net_host_t){0};
    snprintf(out->include, sizeof out->include, "%s", include ? include : "");
    snprintf(out->exclude, sizeof out->exclude, "%s", exclude ? exclude : "");
    if (getifaddrs(&list) != 0) return;
    for (const struct ifaddrs *i = list; i && out->n < NET_MAX; i = i->ifa_next)
        out->n += read_address(i, &out->address[out->n]);
    freeifaddrs(list);
}

static bool same_subnet(const net_address_t *a, const net_address_t *b)
{
    return a->family == b->family && a->prefix == b->prefix && tcp_same_bits(a->bytes, b->bytes, a->prefix);
}

const net_address_t *net_find(const net_host_t *host, const net_subnet_t *subnet)
{
    for (int i = 0; i < host->n; i++)
        if (same_subnet(&host->address[i], &subnet->first)) return &host->address[i];
    return NULL;
}

static bool list_names(const char *list, const net_address_t *a)
{
    return tcp_list_names(list, a->interface, a->family == 4 ? AF_INET : AF_INET6, a->bytes, a->prefix);
}

static bool is_used(const net_host_t *host, const net_address_t *a)
{
    if (host->include[0]) return list_names(host->include, a);
    return !list_names(host->exclude, a);
}

static bool has_same_address(const net_host_t *host, const net_address_t *a)
{
    for (int i = 0; i < host->n; i++)
        if (host->address[i].family == a->family &&
            memcmp(host->address[i].bytes, a->bytes, sizeof a->bytes) == 0)
            return true;
    return false;
}

static int compare_subnets(const void *a, const void *b)
{
    const net_subnet_t *x = a, *y = b;
    if (x->bridge != y->bridge) return x->bridge ? 1 : -1;
    if (x->used != y->used) return x->used ? -1 : 1;
    if (x->n_hosts != y->n_hosts) return y->n_hosts - x->n_hosts;
    int order = strcmp(x->first.interface, y->first.interface);
    return order ? order : memcmp(x->first.bytes, y->first.bytes, sizeof x->first.bytes);
}

static void add_subnet(const net_host_t *host, const net_address_t *a, net_subnet_t *out, int *n)
{
    for (int i = 0; i < *n; i++)
        if (same_subnet(&out[i].first, a)) return;
    if (*n < NET_SUBNETS) out[(*n)++] = (net_subnet_t){.first = *a, .used = is_used(host, a)};
}

static bool all_have_v4(const net_host_t *hosts, int n_hosts)
{
    for (int h = 0; h < n_hosts; h++) {
        bool has = false;
        for (int i = 0; i < hosts[h].n; i++) has |= hosts[h].address[i].family == 4;
        if (!has) return false;
    }
    return true;
}

int net_subnets(const net_host_t *hosts, int n_hosts, net_subnet_t out[NET_SUBNETS])
{
    bool only_v4 = all_have_v4(hosts, n_hosts);
    int n = 0;
    for (int h = 0; h < n_hosts; h++)
        for (int i = 0; i < hosts[h].n; i++)
            if (hosts[h].address[i].family == 4 || !only_v4)
                add_subnet(&hosts[h], &hosts[h].address[i], out, &n);
    for (int i = 0; i < n; i++) {
        int n_same = 0;
        for (int h = 0; h < n_hosts; h++) {
            out[i].n_hosts += net_find(&hosts[h], &out[i]) != NULL;
            n_same += has_same_address(&hosts[h], &out[i].first);
        }
        out[i].bridge = n_same > 1;
    }
    qsort(out, (size_t)n, sizeof *out, compare_subnets);
    return n;
}

/* ---- Judging: hosts missing from a subnet, bridges with the same address on several hosts, selections of Open MPI
 * that match nothing ---- */
static const char choose[] =
    "select one that all hosts have: run.sh --interface SUBNET, or --mca btl_tcp_if_include SUBNET and "
    "NCCL_SOCKET_IFNAME=NAME";

/* Reports the hosts that lack an address in the subnet or, if these are the majority, the hosts that
 * have one. */
static void judge_partial(check_t *check, const net_host_t *hosts, const net_subnet_t *s)
{
    bool few = 2 * s->n_hosts <= check->n_hosts;
    bool chosen = hosts[0].include[0] != '\0';
    check_status_t status = s->used && !chosen ? CHECK_WARN : CHECK_OK;
    net_text_t subnet = net_subnet_text(&s->first);
    for (int h = 0; h < check->n_hosts; h++) {
        const net_address_t *mine = net_find(&hosts[h], s);
        if ((mine != NULL) != few) continue;
        if (!few)
            check_line(check, check_other_host(h), "interfaces", status, choose,
                       "none in %s, unlike %d of %d hosts", subnet.text, s->n_hosts, check->n_hosts);
        else if (s->n_hosts == 1)
            check_line(check, check_other_host(h), "interfaces", status, choose,
                       "%s %s is on this host only%s", mine->interface, subnet.text,
                       s->used ? "" : "; not used");
        else
            check_line(check, check_other_host(h), "interfaces", status, choose,
                       "%s %s is on %d of %d hosts only%s", mine->interface, subnet.text, s->n_hosts,
                       check->n_hosts, s->used ? "" : "; not used");
    }
}

/* Open MPI mistakes such a bridge for a route to the other hosts, and waits for itself. */
static void judge_bridge(check_t *check, const net_subnet_t *s)
{
    if (s->used)
        check_line(check, check_job(check), "bridge", CHECK_WARN, choose,
                   "%s %s has the same address on several hosts", s->first.interface,
                   net_subnet_text(&s->first).text);
}

/* Each host must have an interface that MPI's selection includes. */
static void judge_include(check_t *check, const net_host_t *hosts, const net_subnet_t *subnets, int n_subnets)
{
    for (int h = 0; h < check->n_hosts; h++) {
        bool any = !hosts[h].include[0];
        for (int i = 0; i < n_subnets; i++) any |= subnets[i].used && net_find(&hosts[h], &subnets[i]);
        if (!any)
            check_line(check, check_other_host(h), "interfaces", CHECK_FAIL, choose,
                       "none matches btl_tcp_if_include=%s", hosts[h].include);
    }
}

/* Lists the subnets that all hosts share, "10.77.0.0/24 (eth0), 10.88.0.0/24 (ib0)"; returns their number. */
static int list_shared(const check_t *check, const net_subnet_t *subnets, int n_subnets, bool used, char *out,
                       size_t n_bytes)
{
    int n = 0;
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < n_subnets; i++) {
        const net_subnet_t *s = &subnets[i];
        if (s->bridge || s->n_hosts < check->n_hosts || (used && !s->used)) continue;
        if (at < n_bytes)
            at += (size_t)snprintf(out + at, n_bytes - at, "%s%s (%s)", n ? ", " : "",
                                   net_subnet_text(&s->first).text, s->first.interface);
        n++;
    }
    return n;
}

void net_judge(check_t *check, const net_host_t *hosts, const net_subnet_t *subnets, int n_subnets,
               bool routed)
{
    char text[256], other[256];
    check_where_t job = check_job(check);
    bool any = list_shared(check, subnets, n_subnets, true, text, sizeof text) > 0;
    if (any)
        check_line(check, job, "shared subnet", CHECK_OK, NULL, "%s", text);
    else if (list_shared(check, subnets, n_subnets, false, other, sizeof other) > 0)
        check_line(check, job, "shared subnet", CHECK_FAIL, choose, "MPI is configured not to use %s", other);
    else if (routed)
        check_line(
            check, job, "shared subnet", CHECK_WARN,
            "MPI and NCCL may choose different routes: select an interface with run.sh --interface NAME",
            "none, but hosts are reached through routers");
    else
        check_line(
            check, job, "shared subnet", CHECK_FAIL,
            "give every host an address in one subnet, or a route to the others (ip address, ip route)",
            "hosts have none in common");
    for (int i = 0; i < n_subnets; i++) {
        const net_subnet_t *s = &subnets[i];
        if (s->bridge)
            judge_bridge(check, s);
        else if (s->n_hosts < check->n_hosts && (any || !routed))
            judge_partial(check, hosts, s);
    }
    judge_include(check, hosts, subnets, n_subnets);
}
