/* SPDX-License-Identifier: MIT */
/* Findings of dptrain check from measured pairs, interfaces, ports and counters, without a network;
 * InfiniBand and EFA from recorded /sys trees and logs. RUN np=0 */
#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/tap.h"
#include "tools/check/lines.h"
#include "tools/check/network.h"

enum { MAX = 16 };
static double sec[MAX * MAX];
static pairs_t pairs;

/* Pairs of 10 us, up to 1.5 times that by chance. */
static void make(int n, uint64_t seed)
{
    rng_t rng = rng_new(seed, 0, 0);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) sec[a * n + b] = 1e-5 * (1 + 0.5 * rng_uniform(&rng));
}

static void slow(int n, int a, int b, double factor)
{
    sec[(a < b ? a : b) * n + (a < b ? b : a)] *= factor;
}

static int count_slow(int n)
{
    int count = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) count += pairs.slow[a * n + b];
    return count;
}

static int count_slow_hosts(int n)
{
    int count = 0;
    for (int a = 0; a < n; a++) count += pairs.slow_host[a];
    return count;
}

static void judge(int n)
{
    pairs_free(&pairs);
    if (pairs_judge(sec, n, 0, &pairs) != ERR_OK) exit(1);
}

static void test_rounds(void)
{
    bool right = true;
    for (int n = 2; n <= MAX; n++) {
        int met[MAX][MAX] = {{0}};
        for (int round = 0; round < pairs_rounds(n); round++)
            for (int a = 0; a < n; a++) {
                int b = pairs_partner(n, round, a);
                right &= b >= 0 && b < n && pairs_partner(n, round, b) == a;
                if (b != a) met[a][b]++;
            }
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) right &= met[a][b] == (a != b);
        right &= pairs_rounds(n) == n - 1 + n % 2;
    }
    OK(right, "all pairs meet once, in the fewest possible rounds");
}

static void test_healthy(void)
{
    bool quiet = true;
    for (int n = 2; n <= MAX; n++)
        for (uint64_t seed = 0; seed < 50; seed++) {
            make(n, seed);
            judge(n);
            quiet &= count_slow(n) == 0 && count_slow_hosts(n) == 0 && pairs.n_groups == 1;
        }
    OK(quiet, "noise is not a fault, with 2 to 16 hosts");
    for (int i = 0; i < 16; i++) sec[i] = 1;
    judge(4);
    OK(count_slow(4) == 0 && pairs.median >= 1 && pairs.median <= 1, "equal times are not");
    for (int i = 0; i < 16; i++) sec[i] = NAN;
    judge(4);
    OK(count_slow(4) == 0 && count_slow_hosts(4) == 0, "pairs that were not measured are not");
}

static void test_slow_pair(void)
{
    bool right = true;
    for (int n = 3; n <= MAX; n++)
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++) {
                make(n, (uint64_t)(n * a + b));
                slow(n, a, b, 8);
                judge(n);
                right &= count_slow(n) == 1 && pairs.slow[a * n + b] && count_slow_hosts(n) == 0;
            }
    OK(right, "any single slow pair is named");
}

static void test_slow_host(void)
{
    bool right = true;
    for (int n = 3; n <= MAX; n++)
        for (int host = 0; host < n; host++) {
            make(n, (uint64_t)(n + host));
            for (int b = 0; b < n; b++)
                if (b != host) slow(n, host, b, 8);
            judge(n);
            right &= count_slow(n) == 0 && count_slow_hosts(n) == 1 && pairs.slow_host[host] &&
                     pairs.of_host[host] > 5e-5;
        }
    OK(right, "a slow host is named, but not its pairs");
    make(8, 5);
    for (int b = 0; b < 6; b++) slow(8, 7, b, 8);
    judge(8);
    OK(count_slow_hosts(8) == 1 && pairs.slow_host[7] && count_slow(8) == 0,
       "a host that is fast with one other is still slow");
    make(2, 1);
    slow(2, 0, 1, 1000);
    judge(2);
    OK(count_slow(2) == 0 && count_slow_hosts(2) == 0, "with two hosts there is nothing to compare");
}

static void make_groups(int n, int n_first)
{
    make(n, (uint64_t)(n * n_first));
    for (int a = 0; a < n_first; a++)
        for (int b = n_first; b < n; b++) slow(n, a, b, 6);
    judge(n);
}

static void test_groups(void)
{
    bool right = true;
    for (int n = 4; n <= MAX; n++)
        for (int n_first = 2; n_first <= n - 2; n_first++) {
            make_groups(n, n_first);
            /* If nearly all pairs are slow, slow is the usual time. */
            if (pairs.n_groups == 1) right &= count_slow(n) == 0;
            right &= pairs.n_groups <= 2 && count_slow_hosts(n) == 0 && count_slow(n) == 0;
        }
    OK(right, "two switches are neither slow hosts nor slow pairs");
    make_groups(8, 4);
    OK(pairs.n_groups == 2 && pairs.group[0] == 0 && pairs.group[7] == 1 && pairs.between > 5e-5,
       "but two groups");
    slow(8, 1, 6, 8);
    judge(8);
    OK(pairs.n_groups == 2 && count_slow(8) == 1 && pairs.slow[1 * 8 + 6], "with one slow pair between them");
}

/* A job of four hosts with a rank each. */
static check_rank_t ranks[4];
static const check_options_t options;
static comm_t comm = {.rank = 0, .size = 4};

static check_t check_new(void)
{
    for (int r = 0; r < 4; r++) {
        ranks[r] = (check_rank_t){.host = r};
        snprintf(ranks[r].host_name, sizeof ranks[r].host_name, "node%d", r + 1);
    }
    return (check_t){.options = &options, .comm = &comm, .ranks = ranks, .n_hosts = 4, .current = "network"};
}

/* Whether exactly one line has this status, host (-1: the job) and words. Discards all lines. */
static bool only(check_t *check, check_status_t status, int host, const char *words)
{
    check_lines_t lines = {0};
    int n = 0, n_bad = 0;
    if (check->text) check_lines_unpack(check->text, check->n_text, &lines);
    for (int64_t i = 0; i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        bool this_host =
            host < 0 ? line->scope == CHECK_JOB : line->scope == CHECK_HOST && line->index == host;
        n += line->status == status && this_host && strstr(line->found, words) != NULL;
        n_bad += line->status > CHECK_SKIP;
        if (line->status > CHECK_SKIP && !line->advice[0]) n_bad += 100;
    }
    bool right = n == 1 && n_bad == (status > CHECK_SKIP);
    for (int64_t i = 0; !right && i < lines.n; i++)
        printf("# %s %d %s: %s\n", check_status_names[lines.line[i].status], lines.line[i].index,
               lines.line[i].name, lines.line[i].found);
    mem_free(&lines.line);
    mem_free(&check->text);
    check->n_text = 0;
    return right;
}

static void test_network_lines(void)
{
    check_t check = check_new();
    make(4, 1);
    judge(4);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_OK, -1, " us, median 1"), "one line for all pairs, with their range");
    slow(4, 1, 3, 5);
    judge(4);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_WARN, 1, " us to node4; others have 1"), "a slow pair is a warning");
    slow(4, 1, 3, 10);
    judge(4);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_FAIL, 1, " us to node4"), "a very slow one a failure");
    for (int i = 0; i < 16; i++) sec[i] = 1e-9;
    for (int b = 0; b < 4; b++) slow(4, 2, b, b == 2 ? 1 : 40);
    judge(4);
    network_judge(&check, &pairs, sec, &network_bandwidth);
    OK(only(&check, CHECK_FAIL, 2, "25 MB/s to the others, which have 1.000 GB/s"), "a slow host");
    make_groups(4, 2);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_OK, -1, "2 groups (node1 +1, node3 +1): "), "switches are reported");
}

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
    reach_judge(&check, results, "ports");
    return only(&check, status, host, words);
}

static void test_reach(void)
{
    int32_t results[16] = {0};
    check_t check = check_new();
    OK(reach_judge(&check, results, "ports") == 0 && !check.text, "all reach all");
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

    net_address_t self = {.family = 4, .prefix = 8, .bytes = {127, 0, 0, 1}};
    int port, port2, fd = reach_listen(4, (reach_ports_t){0}, &port);
    reach_target_t targets[300] = {
        {&self, port, REACH_ERROR}, {NULL, 0, REACH_OK}, {&self, port, REACH_ERROR}};
    reach_connect(targets, 300, 5);
    OK(fd >= 0 && port > 0 && targets[0].result == REACH_OK && targets[2].result == REACH_OK,
       "a listening port");
    int fd2 = reach_listen(4, (reach_ports_t){port, port}, &port2);
    OK(fd2 < 0 && port2 == 0, "a port in use");
    close(fd);
    reach_connect(targets, 1, 5);
    OK(targets[0].result == REACH_REFUSED, "a closed port");
}

static char folder[] = "/tmp/dptrain-fabric-XXXXXX";

/* A file of a recorded /sys, its folders with it. */
static void put(const char *path, const char *text)
{
    char full[FS_PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    for (char *slash = full + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    if (!f) exit(1);
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void read_tree(fabric_t *out)
{
    char infiniband[FS_PATH_MAX], net[FS_PATH_MAX];
    snprintf(infiniband, sizeof infiniband, "%s/infiniband", folder);
    snprintf(net, sizeof net, "%s/net", folder);
    fabric_read(infiniband, net, out);
}

/* As a p4d instance, a DGX with InfiniBand and one with RoCE show them. */
static void record_tree(void)
{
    char full[FS_PATH_MAX];
    put("infiniband/rdmap16s27/ports/1/state", "4: ACTIVE");
    put("infiniband/rdmap16s27/ports/1/link_layer", "Unspecified");
    put("infiniband/rdmap16s27/ports/1/hw_counters/tx_bytes", "1000");
    put("infiniband/rdmap16s27/device/vendor", "0x1d0f");
    put("infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
    put("infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
    put("infiniband/mlx5_0/ports/1/counters/port_xmit_data", "25000");
    put("infiniband/mlx5_1/ports/1/state", "1: DOWN");
    put("infiniband/mlx5_1/ports/1/link_layer", "InfiniBand");
    put("infiniband/mlx5_1/ports/1/counters/port_xmit_data", "0");
    put("infiniband/mlx5_2/ports/1/state", "4: ACTIVE");
    put("infiniband/mlx5_2/ports/1/link_layer", "Ethernet");
    put("infiniband/mlx5_2/ports/1/counters/port_xmit_data", "70");
    snprintf(full, sizeof full, "%s/infiniband/mlx5_2/device", folder);
    if (mkdir(full, 0700) != 0) exit(1);
    snprintf(full, sizeof full, "%s/infiniband/mlx5_2/device/driver", folder);
    if (symlink("../../../bus/pci/drivers/mlx5_core", full) != 0) exit(1);
    put("net/eth0/statistics/tx_bytes", "5000");
    put("net/eth0/operstate", "up");
    put("net/lo/statistics/tx_bytes", "999999");
}

static const fabric_port_t *port_of(const fabric_t *fabric, const char *name)
{
    static const fabric_port_t none;
    for (int i = 0; i < fabric->n; i++)
        if (strcmp(fabric->port[i].name, name) == 0) return &fabric->port[i];
    return &none;
}

static bool moved_by(const char *file, const char *text, int64_t n_bytes, bool sockets, fabric_kind_t kind,
                     const char *names)
{
    fabric_t before, after;
    read_tree(&before);
    put(file, text);
    read_tree(&after);
    fabric_use_t use = fabric_compare(&before, &after, n_bytes, sockets);
    bool right = use.known && use.kind == kind && strcmp(use.names, names) == 0;
    if (!right) printf("# %d %s '%s'\n", use.known, fabric_kind_names[use.kind], use.names);
    return right;
}

static void test_fabric(void)
{
    fabric_t fabric;
    record_tree();
    read_tree(&fabric);
    const fabric_port_t *efa = port_of(&fabric, "rdmap16s27:1"), *ib = port_of(&fabric, "mlx5_0:1"),
                        *down = port_of(&fabric, "mlx5_1:1"), *roce = port_of(&fabric, "mlx5_2:1");
    OK(fabric.n == 5, "all ports but the loopback");
    OK(efa->kind == FABRIC_EFA && efa->active && efa->sent == 1000, "EFA, by its vendor");
    OK(ib->kind == FABRIC_IB && ib->active && ib->sent == 100000 && !down->active,
       "InfiniBand, in words of 4 bytes");
    OK(roce->kind == FABRIC_ROCE && strcmp(roce->driver, "mlx5_core") == 0, "RoCE");
    OK(port_of(&fabric, "eth0")->kind == FABRIC_TCP && port_of(&fabric, "eth0")->sent == 5000, "Ethernet");
    OK(moved_by("net/eth0/statistics/tx_bytes", "1105000", 1000000, true, FABRIC_TCP, "eth0"),
       "TCP moved it");
    OK(moved_by("infiniband/rdmap16s27/ports/1/hw_counters/tx_bytes", "1101000", 1000000, false, FABRIC_EFA,
                "rdmap16s27:1"),
       "EFA moved it");
    OK(moved_by("infiniband/mlx5_0/ports/1/counters/port_xmit_data", "285000", 1000000, false, FABRIC_IB,
                "mlx5_0:1"),
       "InfiniBand moved it");
    fabric_t before = fabric, after = fabric;
    for (int i = 0; i < fabric.n; i++)
        if (fabric.port[i].kind != FABRIC_EFA) after.port[i].sent += 1100000;
    OK(fabric_compare(&before, &after, 1000000, true).kind == FABRIC_TCP &&
           fabric_compare(&before, &after, 1000000, false).kind == FABRIC_IB,
       "if both moved it, the library decides: IPoIB, or other traffic");
    OK(!fabric_compare(&before, &before, 1000000, true).known, "if nothing moved it, the kind is unknown");
}

static bool transport_says(const char *expected, bool known, fabric_kind_t kind, check_status_t status,
                           const char *words)
{
    fabric_t fabric;
    check_t check = check_new();
    comm.topo = (topo_t){.size = 4, .local_size = 1};
    read_tree(&fabric);
    transport_facts_t facts = {.name = "MPI",
                               .reported = "tcp",
                               .use = {.known = known, .kind = kind, .names = "port0"},
                               .fabric = &fabric,
                               .expected = expected};
    transport_judge(&check, &facts);
    return only(&check, status, 0, words);
}

static void test_transport(void)
{
    fabric_t fabric;
    check_t check = check_new();
    OK(transport_says(NULL, true, FABRIC_TCP, CHECK_WARN, "TCP via port0 (tcp), although"),
       "sockets beside EFA");
    OK(transport_says("efa", true, FABRIC_TCP, CHECK_FAIL, "TCP via port0 (tcp), not efa"),
       "EFA was expected");
    OK(transport_says("ib", true, FABRIC_TCP, CHECK_FAIL, "not ib"), "InfiniBand was expected");
    OK(transport_says("ib", true, FABRIC_ROCE, CHECK_OK, "RoCE via port0"), "RoCE counts as InfiniBand");
    OK(transport_says("efa", true, FABRIC_EFA, CHECK_OK, "EFA via port0"), "EFA as expected");
    OK(transport_says("tcp", true, FABRIC_TCP, CHECK_OK, "TCP via port0"), "TCP as expected");
    OK(transport_says("tcp", true, FABRIC_EFA, CHECK_FAIL, "EFA via port0 (tcp), not tcp"),
       "EFA instead of TCP");
    OK(transport_says("ib", false, FABRIC_TCP, CHECK_FAIL, "not seen"),
       "a transport that is not seen is a failure if one was expected");
    OK(transport_says(NULL, false, FABRIC_TCP, CHECK_SKIP, "not seen"), "otherwise it is skipped");
    fabric.n = 0;
    transport_judge_devices(&check, &fabric, "efa");
    OK(only(&check, CHECK_FAIL, 0, "no active port for --expect-transport efa"), "EFA is missing");
    transport_judge_devices(&check, &fabric, NULL);
    OK(only(&check, CHECK_SKIP, 0, "none"), "a missing RDMA device is not a fault");
    read_tree(&fabric);
    transport_judge_devices(&check, &fabric, "ib");
    OK(only(&check, CHECK_OK, 0, "mlx5_0:1, mlx5_1:1 (down)"), "ports, and which of them are down");
}

static bool health_says(const char *file, const char *text, check_status_t status, const char *words)
{
    fabric_t fabric;
    fabric_health_t before, after;
    char infiniband[FS_PATH_MAX];
    check_t check = check_new();
    comm.topo = (topo_t){.size = 4, .local_size = 1};
    snprintf(infiniband, sizeof infiniband, "%s/infiniband", folder);
    read_tree(&fabric);
    fabric_health_read(infiniband, &fabric, &before);
    if (file) put(file, text);
    fabric_health_read(infiniband, &fabric, &after);
    fabric_judge_errors(&check, &fabric, &before, file ? &after : NULL);
    return only(&check, status, 0, words);
}

/* Counters as mlx5 has them; a port that is down does not count. */
static void test_port_errors(void)
{
    fabric_t fabric;
    fabric_health_t health;
    char infiniband[FS_PATH_MAX], rates[64];
    check_t check = check_new();
    snprintf(infiniband, sizeof infiniband, "%s/infiniband", folder);
    read_tree(&fabric);
    fabric_health_read(infiniband, &fabric, &health);
    fabric_judge_errors(&check, &fabric, &health, NULL);
    OK(check.n_text == 0, "ports without counters");
    put("infiniband/mlx5_0/ports/1/counters/symbol_error", "14");
    put("infiniband/mlx5_0/ports/1/counters/link_downed", "0");
    put("infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "3");
    put("infiniband/mlx5_1/ports/1/counters/link_downed", "5");
    put("infiniband/mlx5_2/ports/1/hw_counters/packet_seq_err", "0");
    OK(health_says(NULL, NULL, CHECK_OK, "22 since boot"), "errors since boot are shown");
    OK(health_says("infiniband/mlx5_0/ports/1/counters/symbol_error", "15", CHECK_WARN,
                   "mlx5_0:1: symbol errors +1") &&
           health_says("infiniband/mlx5_2/ports/1/hw_counters/packet_seq_err", "7", CHECK_WARN,
                       "mlx5_2:1: retransmissions +7"),
       "errors during the test are a warning");
    OK(health_says("infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "5", CHECK_FAIL,
                   "mlx5_0:1: corrupt packets +2") &&
           health_says("infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "0", CHECK_OK,
                       "none during the test"),
       "corrupt packets a failure, a reset of the counter is not");
    OK(health_says("infiniband/mlx5_0/ports/1/counters/link_downed", "2", CHECK_FAIL, "link losses +2") &&
           health_says(NULL, NULL, CHECK_WARN, "mlx5_0:1: link losses since boot: 2"),
       "a link that was lost");
    put("infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
    put("infiniband/mlx5_1/ports/1/rate", "10 Gb/sec (4X SDR)");
    put("infiniband/mlx5_2/ports/1/rate", "400 Gb/sec (4X NDR)");
    put("infiniband/rdmap16s27/ports/1/rate", "100 Gb/sec (4X EDR)");
    fabric_health_read(infiniband, &fabric, &health);
    fabric_rates(&fabric, &health, rates, sizeof rates);
    OK(strcmp(rates, "2 x 400, 1 x 100 Gbit/s") == 0, "rates of the active ports: %s", rates);
}

static bool log_is(const char *text, fabric_kind_t kind)
{
    debug_facts_t facts = {0};
    fabric_kind_t found = FABRIC_KINDS;
    debug_log_parse(text, strlen(text), &facts);
    return transport_of_log(&facts, &found) && found == kind;
}

/* Lines of NCCL's logs. */
static void test_log(void)
{
    debug_facts_t facts = {0};
    fabric_kind_t kind;
    OK(log_is("n1:9:9 [0] NCCL INFO Using network IBext\n"
              "n1:9:9 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IBext/0/GDRDMA\n",
              FABRIC_IB),
       "InfiniBand");
    OK(log_is("n1:9:9 [0] NCCL INFO Using network Socket\n"
              "n1:9:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n",
              FABRIC_TCP),
       "sockets");
    OK(log_is("n1:9:9 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)\n"
              "n1:9:9 [0] NCCL INFO Using network AWS Libfabric\n"
              "n1:9:9 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/AWS Libfabric/1/GDRDMA\n",
              FABRIC_EFA),
       "EFA through aws-ofi-nccl");
    static const char inside[] = "n1:9:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n";
    debug_log_parse(inside, strlen(inside), &facts);
    OK(!transport_of_log(&facts, &kind), "transports inside a host do not count");
}

int main(void)
{
    tap_plan(1 + 3 + 1 + 3 + 3 + 5 + 6 + 4 + 9 + 10 + 12 + 6 + 4 + 1);
    if (!mkdtemp(folder)) return 1;
    test_rounds();
    test_healthy();
    test_slow_pair();
    test_slow_host();
    test_groups();
    test_network_lines();
    test_shared();
    test_not_shared();
    test_reach();
    test_fabric();
    test_transport();
    test_port_errors();
    test_log();
    pairs_free(&pairs);
    OK(mem_live() == 0, "allocations balance");
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || tap_done();
}
