/* SPDX-License-Identifier: MIT */
/* Findings about subnets: hosts missing from one, bridges with the same address on several hosts,
 * selections of Open MPI that match nothing. */
#include <stdio.h>
#include <string.h>

#include "tools/check/interfaces.h"

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
