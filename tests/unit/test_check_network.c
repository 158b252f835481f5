/* SPDX-License-Identifier: MIT */
/* Findings of dptrain check from measured pairs and port counters, without a network;
 * InfiniBand and EFA from recorded /sys trees and logs. RUN np=0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/four_hosts.h"
#include "tests/tap.h"
#include "tools/check/network.h"

enum { MAX = 16 };
static double sec[MAX * MAX];
static pairs_t pairs;

/* Pairs of 10 us, up to 1.2 times that by chance. */
static void make(int n, uint64_t seed)
{
    rng_t rng = rng_new(seed, 0, 0);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) sec[a * n + b] = 1e-5 * (1 + 0.2 * rng_uniform(&rng));
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

static void test_network_lines(void)
{
    check_t check = check_new();
    make(4, 1);
    judge(4);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_OK, -1, ", median 10.9"), "one line for all pairs, with their range");
    slow(4, 1, 3, 1.6);
    judge(4);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_WARN, 1, " us to node4; others have 1"), "a slow pair is a warning");
    slow(4, 1, 3, 2);
    judge(4);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_FAIL, 1, " us to node4"), "one of twice the usual time a failure");
    for (int i = 0; i < 16; i++) sec[i] = 1e-9;
    for (int b = 0; b < 4; b++) slow(4, 2, b, b == 2 ? 1 : 40);
    judge(4);
    network_judge(&check, &pairs, sec, &network_bandwidth);
    OK(only(&check, CHECK_FAIL, 2, "25 MB/s to the others, which have 1.000 GB/s"), "a slow host");
    make_groups(4, 2);
    network_judge(&check, &pairs, sec, &network_latency);
    OK(only(&check, CHECK_OK, -1, "2 groups (node1 +1, node3 +1): "), "switches are reported");
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
    tap_plan(1 + 3 + 1 + 3 + 3 + 5 + 10 + 12 + 6 + 4 + 1);
    if (!mkdtemp(folder)) return 1;
    test_rounds();
    test_healthy();
    test_slow_pair();
    test_slow_host();
    test_groups();
    test_network_lines();
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
