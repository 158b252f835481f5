/* SPDX-License-Identifier: MIT */
/* The check `network`: interfaces, then TCP reachability, then MPI. network_measure.c measures, the *_judge.c
 * files report findings. */
#include "tools/check/network.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tools/check/cases.h"
#include "tools/check/reach.h"

/* Long enough to retransmit a lost SYN, first after a second. */
static const double connect_sec = 4;

/* A host's listening socket, exchanged between hosts. */
typedef struct listener {
    int32_t port, family;
} listener_t;

/* Collective. The interfaces of all hosts, from their first ranks. */
static err_t exchange_interfaces(network_t *network)
{
    static const char what[] = "comparing interfaces";
    comm_t *comm = network->check->comm;
    net_host_t mine, *all = NULL;
    net_host_read(&mine);
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, "interfaces", &all), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
    for (int h = 0; err == ERR_OK && h < network->n; h++) network->hosts[h] = all[network->leaders[h]];
    mem_free(&all);
    network->n_subnets = net_subnets(network->hosts, network->n, network->subnets);
    return err;
}

/* The first subnet that MPI may use and all hosts share; NULL: none. */
static const net_subnet_t *find_shared_subnet(const network_t *network)
{
    for (int i = 0; i < network->n_subnets; i++) {
        const net_subnet_t *s = &network->subnets[i];
        if (s->used && !s->bridge && s->n_hosts == network->n) return s;
    }
    return NULL;
}

/* Where to reach a host: its address in the shared subnet, otherwise its first that MPI may use. */
static const net_address_t *address_of(const network_t *network, int host, const net_subnet_t *shared)
{
    if (shared) return net_find(&network->hosts[host], shared);
    for (int i = 0; i < network->n_subnets; i++) {
        const net_subnet_t *s = &network->subnets[i];
        const net_address_t *a = s->used && !s->bridge ? net_find(&network->hosts[host], s) : NULL;
        if (a) return a;
    }
    return NULL;
}

/* Connects this host to all others and fills in its row of results. */
static err_t connect_row(const network_t *network, const net_subnet_t *shared, const listener_t *listeners,
                         int32_t *results)
{
    const check_t *check = network->check;
    reach_target_t *targets = NULL;
    TRY(mem_new_array(network->n, sizeof *targets, "hosts to reach", &targets));
    for (int h = 0; h < network->n; h++) {
        const listener_t *to = &listeners[network->leaders[h]];
        targets[h] = (reach_target_t){h == check->host ? NULL : address_of(network, h, shared), to->port,
                                      h == check->host ? REACH_OK : REACH_NO_ROUTE};
        if (to->port == 0) targets[h] = (reach_target_t){NULL, 0, REACH_OK}; /* reported on its own line */
    }
    reach_connect(targets, network->n, connect_sec);
    for (int h = 0; h < network->n; h++) results[check->host * network->n + h] = (int32_t)targets[h].result;
    mem_free(&targets);
    return ERR_OK;
}

/* Collective. All hosts listen, then each connects to all others. */
static err_t try_ports(network_t *network, reach_ports_t ports, const net_subnet_t *shared, int32_t *results)
{
    static const char what[] = "connecting hosts",
                      advice[] = "stop the programs that hold these ports, or widen the range";
    check_t *check = network->check;
    comm_t *comm = check->comm;
    listener_t mine = {0}, *all = NULL;
    bool leader = comm->topo.local_rank == 0;
    const net_address_t *own = address_of(network, check->host, shared);
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, "listeners", &all), what));
    mine.family = own ? own->family : 4;
    int fd = leader && own ? reach_listen(mine.family, ports, &mine.port) : -1;
    if (leader && own && fd < 0)
        check_line(check, check_host(check), "ports", CHECK_FAIL, advice, "cannot listen on any: %s",
                   strerror(errno));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
    err_t row = err == ERR_OK && leader ? connect_row(network, shared, all, results) : ERR_OK;
    if (err == ERR_OK) err = comm_agree(comm, row, what);
    /* Also a barrier: hosts keep listening until all have connected. */
    if (err == ERR_OK)
        err = comm_allreduce(comm, results, (int64_t)network->n * network->n, DTYPE_I32, COMM_MAX, what);
    if (fd >= 0) close(fd);
    mem_free(&all);
    return err;
}

/* On rank 0. */
static void report_reach(network_t *network, const int32_t *results, reach_ports_t ports, bool shared)
{
    check_t *check = network->check;
    int n_fail = reach_judge(check, results, "ports");
    network->reached = n_fail == 0;
    if (n_fail == 0 && ports.low > 0)
        check_line(check, check_job(check), "ports", CHECK_OK, NULL, "%d-%d, all %d pairs connect", ports.low,
                   ports.high, network->n * (network->n - 1));
    else if (n_fail == 0)
        check_line(check, check_job(check), "ports", CHECK_OK, NULL, "any, all %d pairs connect",
                   network->n * (network->n - 1));
    net_judge(check, network->hosts, network->subnets, network->n_subnets, !shared && n_fail == 0);
}

err_t network_reach(network_t *network)
{
    check_t *check = network->check;
    reach_ports_t ports;
    int32_t *results = NULL;
    TRY(exchange_interfaces(network));
    TRY(reach_ports_parse("ports", check->options->ports, &ports));
    if (ports.low == 0) ports = reach_ports_environment();
    const net_subnet_t *shared = find_shared_subnet(network);
    err_t err =
        mem_new_array((int64_t)network->n * network->n, sizeof *results, "reachability of hosts", &results);
    TRY(comm_agree(check->comm, err, "connecting hosts"));
    err = try_ports(network, ports, shared, results);
    if (err == ERR_OK && check->comm->rank == 0) report_reach(network, results, ports, shared != NULL);
    mem_free(&results);
    int32_t reached = network->reached;
    if (err == ERR_OK) err = comm_broadcast(check->comm, &reached, sizeof reached, 0, "connecting hosts");
    network->reached = reached;
    return err;
}

static err_t network_alloc(network_t *network)
{
    int64_t n = network->n, n_all = n * n;
    TRY(mem_new_array(n, sizeof *network->leaders, "hosts", &network->leaders));
    TRY(mem_new_array(n, sizeof *network->hosts, "interfaces of hosts", &network->hosts));
    TRY(mem_new_array(n_all, sizeof *network->latency, "times of pairs", &network->latency));
    TRY(mem_new_array(n_all, sizeof *network->per_byte, "times of pairs", &network->per_byte));
    TRY(mem_new_array(n_all, sizeof *network->alone, "pairs measured again", &network->alone));
    for (int64_t i = 0; i < n_all; i++) network->latency[i] = network->per_byte[i] = NAN;
    const check_t *check = network->check;
    for (int r = 0; r < check->comm->size; r++)
        if (check->ranks[r].local_rank == 0) network->leaders[check->ranks[r].host] = r;
    return ERR_OK;
}

/* Collective. */
static err_t reach_and_measure(network_t *network)
{
    check_t *check = network->check;
    bool parts = check->options->runtime.ranks_per_host > 0;
    if (parts || check->comm->topo.simulated) {
        network->reached = true;
        check_line(check, check_job(check), "interfaces", CHECK_SKIP, NULL, "hosts are simulated%s",
                   parts ? " (--ranks-per-host)" : "");
    } else {
        TRY(network_reach(network));
    }
    if (network->reached) return network_measure(network);
    check_line(check, check_job(check), "latency", CHECK_SKIP, NULL, "not all hosts reach each other");
    return ERR_OK;
}

static err_t network_run(check_t *check)
{
    network_t network = {.check = check, .n = check->n_hosts};
    if (check->n_hosts == 1) {
        check_line(check, check_job(check), "pairs of hosts", CHECK_SKIP, NULL, "one host");
        return ERR_OK;
    }
    err_t err = comm_agree(check->comm, network_alloc(&network), "preparing the network check");
    if (err == ERR_OK) err = reach_and_measure(&network);
    mem_free(&network.leaders);
    mem_free(&network.hosts);
    mem_free(&network.latency);
    mem_free(&network.per_byte);
    mem_free(&network.alone);
    return err;
}

const check_case_t check_network = {"network", "every pair of hosts: interfaces, ports, latency, bandwidth",
                                    true, network_run};
