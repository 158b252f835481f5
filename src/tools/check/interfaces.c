/* SPDX-License-Identifier: MIT */
/* Lists a host's network addresses and groups those of all hosts into subnets. interfaces_judge.c
 * reports findings. */
#include "tools/check/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/comm/tcp.h"

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

net_text_t net_address_text(const net_address_t *a)
{
    net_text_t out;
    if (!inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, out.text, sizeof out.text))
        snprintf(out.text, sizeof out.text, "?");
    return out;
}

net_text_t net_subnet_text(const net_address_t *a)
{
    net_address_t base = *a;
    for (int bit = a->prefix; bit < (a->family == 4 ? 32 : 128); bit++)
        base.bytes[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
    net_text_t out = net_address_text(&base);
    size_t used = strlen(out.text);
    snprintf(out.text + used, sizeof out.text - used, "/%d", a->prefix);
    return out;
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
