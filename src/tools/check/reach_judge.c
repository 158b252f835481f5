/* SPDX-License-Identifier: MIT */
/* Findings about reachability: failing pairs are attributed to hosts where possible. */
#include <stdio.h>
#include <string.h>

#include "tools/check/reach.h"

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
