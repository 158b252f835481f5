/* SPDX-License-Identifier: MIT */
/* Gradients on GPUs, without a GPU: assignment of GPUs, the choice between NCCL and MPI, messages when NCCL
 * does not come up, and NCCL's log. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/comm/device.h"
#include "cluster/comm/nccl_report.h"
#include "tests/tap.h"

static comm_gpu_t gpu(int rank, const char *host, const char *uuid, const char *name)
{
    comm_gpu_t g = {.rank = rank};
    snprintf(g.host, sizeof g.host, "%s", host);
    snprintf(g.uuid, sizeof g.uuid, "%s", uuid);
    snprintf(g.name, sizeof g.name, "%s", name);
    snprintf(g.pci, sizeof g.pci, "0000:%02d:00.0", rank);
    return g;
}

static void test_shared(void)
{
    bool shared = true;
    /* A GPU's index on a host does not identify it; the same uuid on two hosts is artificial, and not a
     * conflict. */
    const comm_gpu_t apart[] = {gpu(0, "node-a", "GPU-1", "H200"), gpu(1, "node-a", "GPU-2", "H200"),
                                gpu(2, "node-b", "GPU-1", "H200")};
    OK(device_check_shared(apart, 3, false, &shared) == ERR_OK && !shared, "a GPU for each rank");
    const comm_gpu_t together[] = {gpu(0, "node-a", "GPU-1", "H200"), gpu(1, "node-b", "GPU-7", "H200"),
                                   gpu(2, "node-b", "GPU-8", "H200"), gpu(3, "node-b", "GPU-7", "H200")};
    OK(device_check_shared(together, 4, false, &shared) == ERR_USAGE &&
           SAYS("ranks 1 and 3 on node-b", "GPU-7", "H200", "fewer ranks per host", "--gpus", "--share-gpu"),
       "two ranks on one GPU are named, with what to do");
    shared = false;
    OK(device_check_shared(together, 4, true, &shared) == ERR_OK && shared, "unless sharing is allowed");
    OK(device_check_shared(together, 1, false, &shared) == ERR_OK && !shared, "one rank");
}

static void test_mix(void)
{
    char text[256];
    const comm_gpu_t gpus[] = {gpu(0, "node-a", "1", "NVIDIA H200"), gpu(1, "node-a", "2", "NVIDIA H200"),
                               gpu(2, "node-b", "3", "NVIDIA A100")};
    OK(!device_describe_mix(gpus, 2, text, sizeof text), "the same GPU everywhere");
    bool mixed = device_describe_mix(gpus, 3, text, sizeof text);
    OK(mixed && strcmp(text, "NVIDIA H200 (rank 0 on node-a, 2 ranks), NVIDIA A100 (rank 2 on node-b)") == 0,
       "GPUs that differ: %s", text);
    char little[20];
    OK(device_describe_mix(gpus, 3, little, sizeof little) && strlen(little) == 19, "more names than fit");
}

static void test_choice(void)
{
    OK(device_wants("auto", "nccl", 2, false) && device_wants("nccl", "nccl", 2, false),
       "NCCL for several ranks");
    OK(!device_wants("auto", "nccl", 1, false) && device_wants("nccl", "nccl", 1, false),
       "for one rank, if requested");
    OK(!device_wants("auto", "nccl", 2, true) && device_wants("nccl", "nccl", 2, true),
       "the same if ranks share a GPU");
    OK(!device_wants("mpi", "nccl", 2, false) && !device_wants("self", "nccl", 1, false),
       "not for mpi and self");
}

static void test_arrivals(void)
{
    const comm_gpu_t gpus[] = {gpu(0, "node-a", "1", "H200"), gpu(1, "node-a", "2", "H200"),
                               gpu(2, "node-b", "3", "H200"), gpu(3, "node-b", "4", "H200")};
    arrival_t a[4] = {{ARRIVAL_UP, 0, ""}, {ARRIVAL_UP, 0, ""}, {ARRIVAL_UP, 0, ""}, {ARRIVAL_UP, 0, ""}};
    OK(arrival_judge(a, gpus, 4, 300) == ERR_OK, "all ranks are up");
    a[1].state = a[3].state = ARRIVAL_UNDER_WAY;
    OK(arrival_judge(a, gpus, 4, 300) == ERR_PEER &&
           SAYS("in 300 s", "rank 1 on node-a, rank 3 on node-b did not arrive", "NCCL_SOCKET_IFNAME"),
       "late ranks are named");
    for (int i = 0; i < 4; i++) a[i].state = ARRIVAL_UNDER_WAY;
    OK(arrival_judge(a, gpus, 4, 2.5) == ERR_PEER &&
           SAYS("in 2.5 s on any of the ranks 0 to 3", "on node-a, node-b:", "firewalls", "NCCL_DEBUG=INFO"),
       "if all are late, the hosts are named");
    a[0] = (arrival_t){ARRIVAL_FAILED, ERR_PEER, "a peer has gone"};
    a[2] = (arrival_t){ARRIVAL_FAILED, ERR_SYSTEM, "no socket interface found"};
    OK(arrival_judge(a, gpus, 4, 300) == ERR_SYSTEM && SAYS("rank 2 on node-b: no socket interface found"),
       "the rank that failed is named, not those that noticed");
    a[2].state = ARRIVAL_UP;
    OK(arrival_judge(a, gpus, 4, 300) == ERR_PEER && SAYS("rank 0 on node-a: a peer has gone"),
       "a lost peer");
    enum { MANY = 100 };
    static comm_gpu_t more[MANY];
    static arrival_t late[MANY];
    for (int r = 0; r < MANY; r++) {
        char host[16];
        snprintf(host, sizeof host, "node-%d", r / 2);
        more[r] = gpu(r, host, "u", "H200");
        late[r].state = r == 7 ? ARRIVAL_UP : ARRIVAL_UNDER_WAY;
    }
    OK(arrival_judge(late, more, MANY, 300) == ERR_PEER &&
           SAYS("rank 6 on node-3, rank 8 on node-4 and 91 more"),
       "a hundred ranks");
}

/* Lines in the format of NCCL 2.19 to 2.28. */
static const char two_hosts[] =
    "node-a:2101:2101 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
    "node-a:2101:2101 [0] NCCL INFO cudaDriverVersion 13000\n"
    "node-a:2101:2130 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
    "node-a:2101:2130 [0] NCCL INFO Using network IB\n"
    "node-a:2101:2130 [0] NCCL INFO Channel 00/16 :    0   1   2   3\n"
    "node-a:2101:2141 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0(1)/GDRDMA\n"
    "node-a:2101:2141 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/1/GDRDMA/Shared\n"
    "node-a:2101:2141 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node-a:2101:2141 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node-a:2101:2130 [0] NCCL INFO Connected all rings\n"
    "node-a:2101:2130 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}\n"
    "node-a:2101:2130 [0] NCCL INFO AllReduce: 102247272 Bytes -> Algo NVLS_TREE proto SIMPLE "
    "channel{Lo..Hi}={0..15}\n"
    "node-a:2101:2130 [0] NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n"
    "node-a:2101:2130 [0] NCCL INFO Broadcast: 999999999 Bytes -> Algo RING proto LL "
    "channel{Lo..Hi}={0..0}\n";

static void test_log(void)
{
    debug_facts_t f = {.transport = ""};
    size_t n = debug_log_parse(two_hosts, strlen(two_hosts), &f);
    OK(n == strlen(two_hosts) && strcmp(f.transport, "NET/IB/GDRDMA, P2P/CUMEM/read") == 0, "transports: %s",
       f.transport);
    OK(strcmp(f.algorithm, "NVLS_TREE/SIMPLE") == 0 && strcmp(f.network, "IB") == 0,
       "the algorithm of the largest allreduce: %s, and the network: %s", f.algorithm, f.network);
    f = (debug_facts_t){.transport = ""};
    static const char old[] =
        "h:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
        "h:1:2 [0] NCCL INFO Channel 02/01 : 0[1000] -> 1[2000] via P2P/IPC\n"
        "h:1:2 [0] NCCL INFO Channel 03/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
        "h:1:2 [0] NCCL INFO AllReduce [Symmetric]: 2048 Bytes -> Kernel AllReduce_AGxLL_R "
        "nchannels 4 nthreads 512 nWorks 1\nhalf a line: Using network Sock";
    n = debug_log_parse(old, strlen(old), &f);
    OK(strcmp(f.transport, "SHM/direct/direct, P2P/IPC, NET/Socket") == 0 &&
           strcmp(f.algorithm, "AllReduce_AGxLL_R") == 0,
       "other versions: %s, %s", f.transport, f.algorithm);
    OK(strncmp(old + n, "half a line", 11) == 0 && !f.network[0], "an incomplete line is left for later");
    static char junk[4096];
    memset(junk, 'x', sizeof junk - 1);
    junk[sizeof junk - 2] = '\n';
    OK(debug_log_parse(junk, sizeof junk - 1, &f) == sizeof junk - 1, "a line that is far too long");
}

/* The file that NCCL would write. */
static void test_file(void)
{
    debug_facts_t f;
    unsetenv("NCCL_DEBUG");
    unsetenv("NCCL_DEBUG_FILE");
    debug_log_open();
    const char *path = getenv("NCCL_DEBUG_FILE");
    FILE *log = path ? fopen(path, "w") : NULL;
    OK(log && strcmp(getenv("NCCL_DEBUG"), "INFO") == 0, "NCCL is told to write its log to a file");
    if (!log) exit(1);
    fputs("h:1:1 [0] NCCL INFO Using network So", log);
    fflush(log);
    debug_log_hide();
    debug_log_read(&f);
    OK(access(path, F_OK) != 0 && !f.network[0],
       "which is soon unlinked, and an incomplete line is not read");
    fputs("cket\n", log);
    /* More than the file keeps. */
    for (int i = 0; i < 40000; i++)
        fprintf(log, "h:1:1 [0] NCCL INFO AllReduce: %d Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n",
                i);
    fflush(log);
    debug_log_read(&f);
    OK(strcmp(f.network, "Socket") == 0 && f.largest == 39999, "later lines are read");
    fputs("h:1:1 [0] NCCL INFO AllReduce: 50000 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}\n", log);
    fclose(log);
    debug_log_read(&f);
    OK(f.largest == 50000 && strcmp(f.algorithm, "TREE/LL") == 0, "also after the file was truncated");
}

int main(void)
{
    tap_plan(26);
    test_shared();
    test_mix();
    test_choice();
    test_arrivals();
    test_log();
    test_file();
    return tap_done();
}
