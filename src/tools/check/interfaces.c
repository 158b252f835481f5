/* SPDX-License-Identifier: MIT */
/* What a host has for its network: addresses, which are grouped into subnets over all hosts; links and their counters. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "cluster/watch/tcp.h"
#include "tools/check/network.h"

net_text_t net_address_text(const net_address_t *a)
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

bool net_is_local(const net_address_t *a)
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
    return out->family && !net_is_local(out);
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

static int count_addresses(const net_host_t *host, const net_subnet_t *subnet)
{
    int n = 0;
    for (int i = 0; i < host->n; i++) n += same_subnet(&host->address[i], &subnet->first);
    return n;
}

static bool list_names(const char *list, const net_address_t *a)
{
    return tcp_list_names(list, a->interface, a->family == 4 ? AF_INET : AF_INET6, a->bytes, a->prefix);
}

bool net_is_used(const net_host_t *host, const net_address_t *a)
{
    if (host->include[0]) return list_names(host->include, a);
    return !list_names(host->exclude, a);
}

bool net_has(const net_host_t *host, const net_address_t *a)
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
    if (*n < NET_SUBNETS) out[(*n)++] = (net_subnet_t){.first = *a, .used = net_is_used(host, a)};
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
        int n_most = 0;
        for (int h = 0; h < n_hosts; h++) {
            int n_same = 0;
            const net_address_t *only =
                count_addresses(&hosts[h], &out[i]) == 1 ? net_find(&hosts[h], &out[i]) : NULL;
            out[i].n_hosts += net_find(&hosts[h], &out[i]) != NULL;
            for (int k = 0; only && k < n_hosts; k++)
                n_same += count_addresses(&hosts[k], &out[i]) == 1 && net_has(&hosts[k], only);
            if (n_same > n_most) n_most = n_same;
        }
        /* Most hosts have that address, and no other: one that has it beside its own took it (judge_duplicates). */
        out[i].bridge = n_most > 1 && 2 * n_most > out[i].n_hosts;
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

/* An address of two hosts: packets to it reach either. Names the host that has another one beside it. */
static void judge_duplicates(check_t *check, const net_host_t *hosts, const net_subnet_t *s)
{
    int n_lines = 0;
    for (int a = 0; a < check->n_hosts; a++)
        for (int i = 0; i < hosts[a].n; i++) {
            const net_address_t *address = &hosts[a].address[i];
            for (int b = a + 1; same_subnet(address, &s->first) && b < check->n_hosts; b++) {
                if (!net_has(&hosts[b], address) || n_lines++ >= NET_MAX_LINES) continue;
                const bool first = count_addresses(&hosts[a], s) > count_addresses(&hosts[b], s);
                check_line(check, check_other_host(first ? a : b), "address", CHECK_FAIL,
                           "an address belongs to one host: remove it from the other (ip address del)",
                           "%s is an address of %s, too", net_address_text(address).text,
                           check_host_name(check, first ? b : a));
            }
        }
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
        if (!s->bridge && s->used) judge_duplicates(check, hosts, s);
    }
    judge_include(check, hosts, subnets, n_subnets);
}

/* ---- Links ---- */

void net_link_read(const char *folder, const char *interface, net_link_t *out)
{
    char link[FS_PATH_MAX], path[FS_PATH_MAX], name[16];
    *out = (net_link_t){0};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(interface, ":"), interface); /* "eth0:1" is a label */
    if (fs_join(link, folder, name) != ERR_OK || fs_join(path, link, "duplex") != ERR_OK) return;
    const int64_t mtu = fs_read_count(link, "mtu"), rate = fs_read_count(link, "speed");
    out->mtu = mtu > 0 && mtu < INT32_MAX ? (int32_t)mtu : 0;
    out->mbit_per_sec =
        rate > 0 ? rate : 0; /* the kernel asks the driver, as ethtool does; -1: it does not know */
    if (fs_read_line(path, out->duplex, sizeof out->duplex) && strcmp(out->duplex, "unknown") == 0)
        out->duplex[0] = '\0';
}

void net_link_facts(check_t *check, const net_link_t *link)
{
    const check_fact_t mtu = {.name = "MTU",
                              .advice =
                                  "large packets to or from that host are lost: ip link set DEVICE mtu N",
                              .rule = CHECK_EQUAL,
                              .unequal = CHECK_FAIL,
                              .value = link->mtu};
    /* A link that is faster than the others is not a fault. */
    const check_fact_t rate = {
        .name = "link rate",
        .advice = "check cable, transceiver and switch port (ethtool DEVICE): it negotiated less",
        .rule = CHECK_SPEED,
        .value = (double)link->mbit_per_sec};
    if (link->mtu > 0) check_fact(check, check_host(check), &mtu, "%d bytes", link->mtu);
    if (link->mbit_per_sec > 0)
        check_fact(check, check_host(check), &rate, "%g Gbit/s", 1e-3 * (double)link->mbit_per_sec);
    if (link->duplex[0])
        check_equal(check, "duplex", CHECK_FAIL,
                    "the link negotiated half duplex: check cable and switch port", link->duplex);
}

/* ---- Counters ---- */
void net_counters_read(const char *net, const char *interface, const char *snmp, net_counters_t *out)
{
    static const struct {
        const char *file;
        size_t field;
    } counters[] = {
        {"statistics/rx_packets", offsetof(net_counters_t, packets)},
        {"statistics/tx_packets", offsetof(net_counters_t, packets)},
        {"statistics/rx_errors", offsetof(net_counters_t, errors)},
        {"statistics/tx_errors", offsetof(net_counters_t, errors)},
        {"statistics/rx_dropped", offsetof(net_counters_t, dropped)},
        {"statistics/tx_dropped", offsetof(net_counters_t, dropped)},
    };
    char path[FS_PATH_MAX], line[512];
    *out = (net_counters_t){.segments = -1, .again = -1};
    snprintf(out->interface, sizeof out->interface, "%.*s", (int)strcspn(interface, ":"), interface);
    for (size_t i = 0; fs_join(path, net, out->interface) == ERR_OK && i < sizeof counters / sizeof *counters;
         i++) {
        const int64_t n = fs_read_count(path, counters[i].file);
        if (n > 0) *(int64_t *)((char *)out + counters[i].field) += n;
    }
    FILE *file = fopen(snmp, "re");
    while (file && fgets(line, sizeof line, file)) {
        long long sent, again;
        /* RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab
         * InSegs OutSegs RetransSegs: the second line has the numbers. */
        if (sscanf(line, "Tcp: %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %lld %lld", &sent, &again) != 2)
            continue;
        out->segments = sent;
        out->again = again;
    }
    if (file) fclose(file);
}

void net_counters_judge(check_t *check, const net_counters_t *now)
{
    static const char advice[] =
        "check cable, transceiver, switch port and ring buffers (ethtool -S DEVICE, ethtool -g DEVICE)";
    const net_counters_t *before = &check->counters;
    const int64_t errors = now->errors - before->errors, dropped = now->dropped - before->dropped;
    const int64_t packets = now->packets - before->packets, sent = now->segments - before->segments;
    if (errors > 0)
        check_line(check, check_host(check), "packet errors", CHECK_WARN, advice,
                   "%" PRId64 " during the check", errors);
    else if (now->errors > 0)
        check_line(check, check_host(check), "packet errors", CHECK_OK, NULL,
                   "none now, %" PRId64 " since boot", now->errors);
    else
        check_line(check, check_host(check), "packet errors", CHECK_OK, NULL, "none");
    /* A few are frames of protocols that the host does not have, such as a switch sends every second. */
    if (dropped >= 100 && dropped > packets / 1000)
        check_line(check, check_host(check), "dropped packets", CHECK_WARN, advice, "%" PRId64 " of %" PRId64,
                   dropped, packets);
    if (now->segments < 0 || sent < 1) return;
    const double share = (double)(now->again - before->again) / (double)sent;
    check_measured(check, check_host(check), "retransmits", share > 0.01 ? CHECK_WARN : CHECK_OK,
                   "packets are lost, or arrive late: the row packet loss names the hosts", check_less(share),
                   "%.3g %% of what TCP sent", 100 * share);
}
