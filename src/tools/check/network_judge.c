/* SPDX-License-Identifier: MIT */
/* Findings about latency and bandwidth: slow hosts, slow pairs, groups of hosts, as classified by pairs.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/check/network.h"

/* More lines would not help. */
enum { MAX_LINES = 16 };

static const char host_advice[] =
    "check its cable, port and NIC (ethtool: speed, duplex, errors; ip -s link; "
    "tc qdisc) and the traffic of other jobs, or exclude the host";
static const char pair_advice[] =
    "check the path between the two: ip route get, traceroute, MTU (ping -M do -s "
    "8972), switch ports; dptrain bench comm --test all_pairs measures longer";
static const char group_advice[] = "expected between switches, otherwise check the links between them; hosts "
                                   "of one group listed consecutively keep most traffic inside the group";

static figure_t bandwidth_of(double sec)
{
    return figure_bandwidth(1 / sec);
}

const double network_latency_slack = 100e-6;
const network_unit_t network_latency = {"latency", figure_time};
const network_unit_t network_bandwidth = {"bandwidth", bandwidth_of};

static check_status_t status_of(const pairs_t *pairs, double sec)
{
    return sec > PAIRS_BROKEN * pairs->usual ? CHECK_FAIL : CHECK_WARN;
}

static void report_groups(check_t *check, const pairs_t *pairs, const network_unit_t *unit)
{
    char text[256] = "";
    size_t used = 0;
    for (int g = 0; g < pairs->n_groups && used < sizeof text - 80; g++) {
        int n = 0, first = -1;
        for (int h = 0; h < pairs->n; h++) {
            if (pairs->group[h] != g) continue;
            if (first < 0) first = h;
            n++;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s +%d", g ? ", " : "",
                                 check_host_name(check, first), n - 1);
    }
    check_line(check, check_job(check), unit->name,
               pairs->between > PAIRS_BROKEN * pairs->usual ? CHECK_WARN : CHECK_OK, group_advice,
               "%d groups (%s): %s between them, %s inside", pairs->n_groups, text,
               unit->figure(pairs->between).text, unit->figure(pairs->usual).text);
}

static void report_pairs(check_t *check, const pairs_t *pairs, const double *sec, const network_unit_t *unit)
{
    int n = pairs->n, n_lines = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            double value = sec[a * n + b];
            if (!pairs->slow[a * n + b] || n_lines++ >= MAX_LINES) continue;
            check_line(check, check_other_host(a), unit->name, status_of(pairs, value), pair_advice,
                       "%s to %s; others have %s", unit->figure(value).text, check_host_name(check, b),
                       unit->figure(pairs->usual).text);
        }
    if (n_lines > MAX_LINES)
        check_line(check, check_job(check), unit->name, CHECK_WARN, pair_advice, "%d more pairs are slow",
                   n_lines - MAX_LINES);
}

void network_judge(check_t *check, const pairs_t *pairs, const double *sec, const network_unit_t *unit)
{
    check_line(check, check_job(check), unit->name, CHECK_OK, NULL, "%s to %s, median %s, of %d pairs",
               unit->figure(pairs->least).text, unit->figure(pairs->greatest).text,
               unit->figure(pairs->median).text, pairs->n * (pairs->n - 1) / 2);
    if (pairs->n_groups > 1) report_groups(check, pairs, unit);
    for (int h = 0; h < pairs->n; h++)
        if (pairs->slow_host[h])
            check_line(check, check_other_host(h), unit->name, status_of(pairs, pairs->of_host[h]),
                       host_advice, "%s to the others, which have %s", unit->figure(pairs->of_host[h]).text,
                       unit->figure(pairs->usual).text);
    report_pairs(check, pairs, sec, unit);
}
