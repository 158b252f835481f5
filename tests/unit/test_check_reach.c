/* SPDX-License-Identifier: MIT */
/* Findings of the check `reach` from made-up interfaces, names, connections and packets; its sockets on this machine. RUN np=0 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/folder.h"
#include "tests/four_hosts.h"
#include "tests/tap.h"
#include "tools/check/network.h"

static net_host_t hosts[4];
static net_subnet_t subnets[NET_SUBNETS];

static void add_address(int host, const char *interface, const char *text, int prefix)
{
    net_address_t *a = &hosts[host].address[hosts[host].n++];
    *a = (net_address_t){.prefix = (uint8_t)prefix};
    snprintf(a->interface, sizeof a->interface, "%s", interface);
    a->family = inet_pton(AF_INET, text, a->bytes) == 1 ? 4 : 6;
    if (a->family == 6 && inet_pton(AF_INET6, text, a->bytes) != 1) exit(1);
}

/* 10.0.0.1 … 4 on eth0, and IPv6. */
static void make_hosts(void)
{
    char text[32];
    memset(hosts, 0, sizeof hosts);
    for (int h = 0; h < 4; h++) {
        snprintf(text, sizeof text, "10.0.0.%d", h + 1);
        add_address(h, "eth0", text, 24);
        snprintf(text, sizeof text, "fd00::%d", h + 1);
        add_address(h, "eth0", text, 64);
    }
}

static bool interfaces_say(bool routed, check_status_t status, int host, const char *words)
{
    check_t check = check_new();
    int n = net_subnets(hosts, 4, subnets);
    net_judge(&check, hosts, subnets, n, routed);
    return only(&check, status, host, words);
}

static void test_shared(void)
{
    char text[32];
    make_hosts();
    OK(interfaces_say(false, CHECK_OK, -1, "10.0.0.0/24 (eth0)"), "the shared subnet; IPv6 is skipped");
    add_address(2, "eth1", "192.168.7.1", 20);
    OK(interfaces_say(false, CHECK_WARN, 2, "eth1 192.168.0.0/20 is on this host only"), "an odd interface");
    for (int h = 0; h < 4; h++) snprintf(hosts[h].include, NET_SELECTION, "eth0");
    OK(interfaces_say(false, CHECK_OK, 2, "eth1 192.168.0.0/20 is on this host only; not used"),
       "harmless if MPI's selection excludes it");
    for (int h = 0; h < 4; h++) snprintf(hosts[h].include, NET_SELECTION, "10.9.0.0/16,10.0.0.0/8");
    OK(interfaces_say(false, CHECK_OK, -1, "10.0.0.0/24 (eth0)"), "also selected by subnet");
    make_hosts();
    for (int h = 0; h < 3; h++) {
        snprintf(text, sizeof text, "10.1.0.%d", h + 1);
        add_address(h, "ib0", text, 24);
    }
    OK(interfaces_say(false, CHECK_WARN, 3, "none in 10.1.0.0/24, unlike 3 of 4 hosts"),
       "a host that lacks one");
    for (int h = 0; h < 4; h++) snprintf(hosts[h].exclude, NET_SELECTION, "127.0.0.1/8,eth0,ib0");
    OK(interfaces_say(false, CHECK_FAIL, -1, "MPI is configured not to use 10.0.0.0/24"),
       "all shared subnets are excluded");
}

static void test_not_shared(void)
{
    char text[32];
    make_hosts();
    for (int h = 0; h < 4; h++) {
        add_address(h, "docker0", "172.17.0.1", 16);
        hosts[h].n -= h == 3; /* one without Docker */
    }
    OK(interfaces_say(false, CHECK_WARN, -1, "docker0 172.17.0.0/16 has the same address"),
       "Docker's bridges");
    memset(hosts, 0, sizeof hosts);
    for (int h = 0; h < 4; h++) {
        snprintf(text, sizeof text, "10.%d.0.1", h);
        add_address(h, "eth0", text, 32);
    }
    OK(interfaces_say(true, CHECK_WARN, -1, "none, but hosts are reached through routers"), "routed hosts");
    check_t check = check_new();
    net_judge(&check, hosts, subnets, net_subnets(hosts, 4, subnets), false);
    check_lines_t lines = {0};
    check_lines_unpack(check.text, check.n_text, &lines);
    OK(lines.line[0].status == CHECK_FAIL && strstr(lines.line[0].found, "none in common"),
       "hosts without a route");
    mem_free(&lines.line);
    mem_free(&check.text);
    make_hosts();
    for (int h = 0; h < 4; h++) snprintf(hosts[h].include, NET_SELECTION, "%s", "ens5,eth0");
    hosts[1].n = 0;
    add_address(1, "eth0", "10.7.0.1", 24);
    snprintf(hosts[1].include, NET_SELECTION, "ens5");
    check = check_new();
    net_judge(&check, hosts, subnets, net_subnets(hosts, 4, subnets), true);
    OK(memmem(check.text, check.n_text, "none matches btl_tcp_if_include=ens5", 36) != NULL,
       "MPI's selection names a missing interface");
    mem_free(&check.text);
}

static bool reach_says(const int32_t *results, check_status_t status, int host, const char *words)
{
    check_t check = check_new();
    reach_judge(&check, results);
    return only(&check, status, host, words);
}

static void test_reach(void)
{
    int32_t results[16] = {0};
    check_t check = check_new();
    OK(reach_judge(&check, results) == 0 && !check.text, "all reach all");
    results[1 * 4 + 3] = REACH_REFUSED;
    OK(reach_says(results, CHECK_FAIL, 1, "to node4: refused"), "a pair, in its direction");
    memset(results, 0, sizeof results);
    for (int h = 0; h < 4; h++) results[h * 4 + 2] = h == 2 ? REACH_OK : REACH_TIMEOUT;
    OK(reach_says(results, CHECK_FAIL, 2, "from every other host: timed out"), "a host with a firewall");
    for (int h = 0; h < 4; h++) results[2 * 4 + h] = h == 2 ? REACH_OK : REACH_TIMEOUT;
    OK(reach_says(results, CHECK_FAIL, 2, "to and from every other host: timed out"), "a host cut off");

    reach_ports_t ports;
    OK(reach_ports_parse("ports", "20000-20010", &ports) == ERR_OK && ports.low == 20000 &&
           ports.high == 20010 && reach_ports_parse("ports", NULL, &ports) == ERR_OK && ports.low == 0,
       "a range of ports, and none");
    static const char *const wrong[] = {"20", "20-10", "0-5", "5-70000", "5-6x", "x", "-5-6"};
    int n = 0;
    for (int i = 0; i < 7; i++) n += reach_ports_parse("ports", wrong[i], &ports) == ERR_USAGE;
    OK(n == 7, "malformed ranges");

    memset(results, 0, sizeof results);
    results[3 * 4 + 1] = REACH_OTHER + 1 + 2;
    OK(reach_says(results, CHECK_FAIL, 3, "to node2: answered by node3"),
       "an address that another host answers");
    results[3 * 4 + 1] = REACH_OTHER;
    OK(reach_says(results, CHECK_FAIL, 3, "to node2: answered by another machine"),
       "or a machine that is not of the job");
}

/* Host 2 of job 7 answers. */
static void test_sockets(void)
{
    net_address_t self = {.family = 4, .prefix = 8, .bytes = {127, 0, 0, 1}};
    reach_server_t *server = NULL, *second = NULL;
    OK(reach_serve(4, (reach_ports_t){0}, 7, 2, &server) == ERR_OK && reach_server_port(server) > 0,
       "a host listens");
    const int port = reach_server_port(server);
    reach_target_t targets[300] = {{&self, port, 2, REACH_ERROR},
                                   {.result = REACH_OK},
                                   {&self, port, 2, REACH_ERROR},
                                   {&self, port, 1, REACH_OK}};
    reach_connect(targets, 300, 7, 10);
    OK(targets[0].result == REACH_OK && targets[2].result == REACH_OK && targets[1].result == REACH_OK,
       "and answers");
    OK(targets[3].result == REACH_OTHER + 1 + 2, "who it is, if another is expected");
    reach_connect(targets, 1, 8, 10);
    OK(targets[0].result == REACH_OTHER, "it is not of another job");
    OK(reach_serve(4, (reach_ports_t){port, port}, 7, 1, &second) == ERR_SYSTEM && !second, "a port in use");
    reach_path_t path = reach_send(&self, port, 500, 30);
    OK(path.n_sent >= 100 && path.n_lost == 0 && path.mtu >= 1280 && !path.stuck,
       "packets arrive: %d sent, %d lost", path.n_sent, path.n_lost);
    reach_server_stop(&server);
    reach_connect(targets, 1, 7, 10);
    OK(targets[0].result == REACH_REFUSED && !server, "a closed port");
    path = reach_send(&self, port, 10, 10);
    OK(path.n_sent == 0, "nothing is sent to it");
}

/* 1000 packets each; `lost` of those from a to b. */
static reach_path_t paths[16];
static int32_t mtu[4];

static void make_paths(void)
{
    for (int i = 0; i < 16; i++)
        paths[i] = (reach_path_t){.n_sent = i % 5 ? 1000 : 0, .mtu = 1500, .full = i % 5 != 0};
    for (int h = 0; h < 4; h++) mtu[h] = 1500;
}

static bool paths_say(check_status_t status, int host, const char *words)
{
    check_t check = check_new();
    reach_judge_paths(&check, paths, mtu);
    return only(&check, status, host, words);
}

static void test_paths(void)
{
    make_paths();
    paths[1 * 4 + 2].n_lost = 3;
    OK(paths_say(CHECK_OK, -1, "3 of 12000 packets"), "few lost packets are chance");
    paths[1 * 4 + 2].n_lost = 7;
    OK(paths_say(CHECK_WARN, 1, "0.7 % of what it sends to node3"), "a pair that loses packets is named");
    paths[1 * 4 + 2].n_lost = 20;
    OK(paths_say(CHECK_FAIL, 1, "2 % of what it sends to node3"), "more than a hundredth is a failure");
    paths[0 * 4 + 2].n_lost = 20;
    paths[3 * 4 + 2].n_lost = 4;
    OK(paths_say(CHECK_FAIL, 2, "1.5 % of what is sent to it"), "so is a host that loses what arrives");
    make_paths();
    for (int h = 0; h < 4; h++) paths[3 * 4 + h].n_lost = h == 3 ? 0 : 100;
    OK(paths_say(CHECK_FAIL, 3, "10 % of what it sends"), "and one that loses what it sends");
    make_paths();
    paths[2 * 4 + 0].stuck = 1;
    paths[2 * 4 + 0].full = 0;
    OK(paths_say(CHECK_FAIL, 2, "full packets to node1 are lost: 1500 bytes"),
       "full packets that do not arrive");
    make_paths();
    for (int h = 0; h < 4; h++) mtu[h] = 9000;
    for (int i = 0; i < 16; i++) paths[i].mtu = 9000;
    paths[0 * 4 + 1].mtu = 1500;
    OK(paths_say(CHECK_WARN, 0, "1500 of 9000 bytes to node2"),
       "a path that carries less than the interfaces");
}

static void test_not_tried(void)
{
    make_paths();
    for (int b = 0; b < 3; b++) paths[3 * 4 + b] = (reach_path_t){.n_sent = 0};
    OK(paths_say(CHECK_WARN, -1, "3 of 12 pairs were not tried"), "pairs that were not tried are not good");
    make_paths();
    paths[1].full = 0;
    OK(paths_say(CHECK_OK, -1, "full packets pass in 11 of 12 pairs"), "nor are those without full packets");
}

static void test_duplicates(void)
{
    make_hosts();
    add_address(2, "eth0", "10.0.0.2", 24);
    OK(interfaces_say(false, CHECK_FAIL, 2, "10.0.0.2 is an address of node2, too"),
       "an address of two hosts");
    make_hosts();
    add_address(0, "eth0", "10.0.0.4", 24);
    OK(interfaces_say(false, CHECK_FAIL, 0, "10.0.0.4 is an address of node4, too"),
       "the one with two is named");
    make_hosts();
    for (int h = 0; h < 4; h++) add_address(h, "docker0", "172.17.0.1", 16);
    add_address(1, "docker0", "172.17.0.9", 16);
    OK(interfaces_say(false, CHECK_WARN, -1, "docker0 172.17.0.0/16 has the same address"),
       "a bridge stays one where a host has more addresses in it");
}

static bool names_say(check_status_t status, const char *first, const char *second, const char *words)
{
    static const char *const names[] = {"node1", "node2", "node3", "node4"};
    net_name_t resolved[4] = {{.name = ""}};
    check_t check = check_new();
    make_hosts();
    for (int h = 0; h < 4; h++) {
        resolved[h] = (net_name_t){.name = names[h], .n = 1, .address = {hosts[h].address[0]}};
        resolved[0].address[0].bytes[0] = 127; /* Debian's line for the host itself */
    }
    if (first)
        resolved[1].n = inet_pton(AF_INET, first, resolved[1].address[0].bytes) == 1 ? 1 : NAME_UNKNOWN;
    for (int h = 2; second && h < 4; h++) resolved[h].n = second[0] ? NAME_LATE : NAME_UNKNOWN;
    if (first && strcmp(first, "loopback") == 0) resolved[1].n = 0;
    net_judge_names(&check, hosts, resolved);
    return only(&check, status, 0, words);
}

static void test_names(void)
{
    OK(names_say(CHECK_OK, NULL, NULL, "all 3 other hosts"), "names lead to their hosts");
    OK(names_say(CHECK_FAIL, "10.0.0.3", NULL, "node2 is 10.0.0.3 here, an address of node3"),
       "to another host");
    OK(names_say(CHECK_WARN, "10.9.9.9", NULL, "node2 is 10.9.9.9 here, which it does not have"),
       "elsewhere");
    OK(names_say(CHECK_WARN, "", NULL, "node2 does not resolve"), "nowhere");
    OK(names_say(CHECK_FAIL, "loopback", NULL, "node2 leads to this host itself"),
       "to itself, as of a cloned image");
    OK(names_say(CHECK_SKIP, NULL, "late", "2 were not resolved in time"),
       "what was not asked in time is not wrong");
    OK(names_say(CHECK_SKIP, "", "", "host names do not resolve"),
       "none of them: addresses are used instead");
    net_name_t names[] = {{.name = "localhost"}, {.name = "no such host"}};
    OK(net_resolve(names, 2, 60) == ERR_OK && names[0].n == 0 && names[1].n == NAME_UNKNOWN,
       "the resolver: loopback addresses do not count");
}

static void test_links(void)
{
    net_link_t link;
    net_counters_t before, now;
    folder_put("net/eth0/mtu", "9000\n", 5);
    folder_put("net/eth0/speed", "25000\n", 6);
    folder_put("net/eth0/duplex", "full\n", 5);
    folder_put("net/eth1/mtu", "1500\n", 5);
    folder_put("net/eth1/speed", "-1\n", 3);
    folder_put("net/eth1/duplex", "unknown\n", 8);
    net_link_read(folder_path("net"), "eth0", &link);
    OK(link.mtu == 9000 && link.mbit_per_sec == 25000 && strcmp(link.duplex, "full") == 0, "a link");
    net_link_read(folder_path("net"), "eth1", &link);
    OK(link.mtu == 1500 && link.mbit_per_sec == 0 && !link.duplex[0], "what its driver does not know");
    folder_put("net/eth0/statistics/rx_packets", "1000\n", 5);
    folder_put("net/eth0/statistics/rx_errors", "3\n", 2);
    folder_put("net/eth1/statistics/rx_errors", "9\n", 2);
    static const char snmp[] =
        "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets "
        "CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\n"
        "Tcp: 1 200 120000 -1 100 3 1 2 7 5000 4000 20 0 9 0\n";
    folder_put("snmp", snmp, sizeof snmp - 1);
    net_counters_read(folder_path("net"), "eth0:1", folder_path("snmp"), &before);
    OK(before.packets == 1000 && before.errors == 3 && before.segments == 4000 && before.again == 20,
       "counters");
    now = before;
    now.packets += 9000;
    now.segments += 1000;
    now.again += 2;
    check_t check = check_new();
    check.counters = before;
    net_counters_judge(&check, &now);
    OK(only(&check, CHECK_OK, 0, "none now, 3 since boot"), "old errors are not of now");
    now.errors += 4;
    net_counters_judge(&check, &now);
    OK(only(&check, CHECK_WARN, 0, "4 during the check"), "new ones are");
    now.errors = before.errors;
    now.again += 98;
    net_counters_judge(&check, &now);
    OK(only(&check, CHECK_WARN, 0, "10 % of what TCP sent"), "so are retransmissions");
    now.again = before.again;
    now.dropped += 100;
    net_counters_judge(&check, &now);
    OK(only(&check, CHECK_WARN, 0, "100 of 9000"), "and dropped packets");
}

int main(void)
{
    tap_plan(6 + 4 + 8 + 8 + 7 + 2 + 3 + 8 + 7 + 1);
    if (!folder_begin()) return 1;
    test_shared();
    test_not_shared();
    test_reach();
    test_sockets();
    test_paths();
    test_not_tried();
    test_duplicates();
    test_names();
    test_links();
    OK(mem_live() == 0, "allocations balance");
    folder_clear();
    rmdir(folder);
    return tap_done();
}
