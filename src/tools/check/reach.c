/* SPDX-License-Identifier: MIT */
/* The check `reach`: hosts over plain sockets, before MPI carries more than a few bytes. Who has which address, what names lead
 * to, who answers on a port; then packets from each host to each other. Where MPI does not start, --reach does a part of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "tools/check/cases.h"
#include "tools/check/network.h"

/* ---- Judging connections: failing pairs are attributed to hosts where possible ---- */
static const char ports_name[] = "ports";
static const char *const words[] = {"reached",  "refused", "timed out",
                                    "no route", "error",   "answered by another machine"};
static const char refused[] =
    "a firewall rejects the connection (iptables -L, nft list ruleset), or the address belongs to another "
    "host: open the ports between the hosts, or pass open ones to run.sh --ports";
static const char silent[] =
    "a firewall or security group drops packets, or the link is down: open the ports between the hosts, or "
    "pass open ones to run.sh --ports; test with ip route get and ping";

static const char impostor[] =
    "another machine has that address, or a proxy answers: look for it by ip neigh on both hosts and ip address on the other";

static const char *reach_advice(int32_t result)
{
    return result >= REACH_OTHER ? impostor : result == REACH_REFUSED ? refused : silent;
}

static const char *reach_text(int32_t result)
{
    return words[result < REACH_OTHER ? result : REACH_OTHER];
}

/* "timed out", "answered by node3". */
static const char *reach_words(const check_t *check, int32_t result, char out[TOPO_HOST_MAX + 32])
{
    const int other = result - REACH_OTHER - 1;
    if (result <= REACH_OTHER || other >= check->n_hosts) return reach_text(result);
    snprintf(out, TOPO_HOST_MAX + 32, "answered by %s", check_host_name(check, other));
    return out;
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

static void judge_unreachable_host(check_t *check, const int32_t *results, int host)
{
    int n = check->n_hosts;
    int32_t in = all_fail(results, n, host, false), out = all_fail(results, n, host, true);
    check_where_t where = check_other_host(host);
    char text[TOPO_HOST_MAX + 32];
    if (in && out)
        check_line(check, where, ports_name, CHECK_FAIL, reach_advice(in), "to and from every other host: %s",
                   reach_words(check, in, text));
    else if (in)
        check_line(check, where, ports_name, CHECK_FAIL, reach_advice(in), "from every other host: %s",
                   reach_words(check, in, text));
    else
        check_line(check, where, ports_name, CHECK_FAIL, reach_advice(out), "to every other host: %s",
                   reach_words(check, out, text));
}

int reach_judge(check_t *check, const int32_t *results)
{
    int n = check->n_hosts, n_fail = 0, n_lines = 0;
    for (int h = 0; h < n; h++)
        if (host_fails(results, n, h)) judge_unreachable_host(check, results, h);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            int32_t result = results[a * n + b];
            char text[TOPO_HOST_MAX + 32];
            n_fail += a != b && result != REACH_OK;
            if (a == b || result == REACH_OK || host_fails(results, n, a) || host_fails(results, n, b))
                continue;
            if (n_lines++ < NET_MAX_LINES)
                check_line(check, check_other_host(a), ports_name, CHECK_FAIL, reach_advice(result),
                           "to %s: %s", check_host_name(check, b), reach_words(check, result, text));
        }
    if (n_lines > NET_MAX_LINES)
        check_line(check, check_job(check), ports_name, CHECK_FAIL, silent, "%d more pairs fail",
                   n_lines - NET_MAX_LINES);
    return n_fail;
}

/* ---- Judging packets ---- */
static const char loss_advice[] =
    "check cable, transceiver, switch port, duplex and ring buffers (ethtool -S DEVICE), rules that drop "
    "(iptables -L -v), and the load of the link";
static const char mtu_advice[] =
    "the path carries less than the interfaces: set the MTU of all hosts and switches to the same "
    "value (ip link set DEVICE mtu N; test: ping -M do -s N-28)";

/* Few lost packets are chance, or congestion. */
static bool is_lossy(int64_t n_lost, int64_t n_sent)
{
    return n_lost >= 5 && (double)n_lost > 0.001 * (double)n_sent;
}

static void report_loss(check_t *check, int host, const char *where, int64_t n_lost, int64_t n_sent)
{
    const double share = (double)n_lost / (double)n_sent;
    check_line(check, check_other_host(host), "packet loss", share > 0.01 ? CHECK_FAIL : CHECK_WARN,
               loss_advice, "%.2g %% %s", 100 * share, where);
}

/* Sums over a host's pairs that lose packets, if these are most of at least two: then the host is the cause. */
static bool loses(const check_t *check, const reach_path_t *paths, int host, bool sends, int64_t *n_lost,
                  int64_t *n_sent)
{
    const int n = check->n_hosts;
    int n_lossy = 0;
    *n_lost = *n_sent = 0;
    for (int h = 0; h < n; h++) {
        const reach_path_t *p = sends ? &paths[host * n + h] : &paths[h * n + host];
        if (h == host) continue;
        *n_lost += p->n_lost;
        *n_sent += p->n_sent;
        n_lossy += p->n_lost > 0 && p->n_lost * 1000 > p->n_sent;
    }
    return n_lossy > 1 && 2 * n_lossy > n - 1 && is_lossy(*n_lost, *n_sent);
}

static void judge_loss(check_t *check, const reach_path_t *paths)
{
    const int n = check->n_hosts;
    int64_t n_lost, n_sent, all_lost = 0, all_sent = 0;
    int n_lines = 0;
    for (int h = 0; h < n; h++)
        for (int sends = 0; sends < 2; sends++)
            if (loses(check, paths, h, sends, &n_lost, &n_sent)) {
                report_loss(check, h, sends ? "of what it sends" : "of what is sent to it", n_lost, n_sent);
                n_lines++;
            }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const reach_path_t *p = &paths[a * n + b];
            char where[TOPO_HOST_MAX + 32];
            all_lost += p->n_lost;
            all_sent += p->n_sent;
            if (!is_lossy(p->n_lost, p->n_sent) || loses(check, paths, a, true, &n_lost, &n_sent) ||
                loses(check, paths, b, false, &n_lost, &n_sent) || n_lines++ >= NET_MAX_LINES)
                continue;
            snprintf(where, sizeof where, "of what it sends to %s", check_host_name(check, b));
            report_loss(check, a, where, p->n_lost, p->n_sent);
        }
    if (n_lines == 0 && all_sent > 0)
        check_line(check, check_job(check), "packet loss", CHECK_OK, NULL, "%lld of %lld packets",
                   (long long)all_lost, (long long)all_sent);
}

static void judge_mtu(check_t *check, const reach_path_t *paths, const int32_t *mtu)
{
    const int n = check->n_hosts;
    int n_lines = 0, n_full = 0, n_tried = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const reach_path_t *p = &paths[a * n + b];
            const int least = mtu[a] < mtu[b] ? mtu[a] : mtu[b];
            const bool less = p->mtu > 0 && p->mtu < least;
            n_full += p->full;
            n_tried += p->n_sent > 0;
            if ((!p->stuck && !less) || n_lines++ >= NET_MAX_LINES) continue;
            if (p->stuck)
                check_line(check, check_other_host(a), "path MTU", CHECK_FAIL, mtu_advice,
                           "full packets to %s are lost: %d bytes", check_host_name(check, b), p->mtu);
            else
                check_line(check, check_other_host(a), "path MTU", CHECK_WARN, mtu_advice,
                           "%d of %d bytes to %s", p->mtu, least, check_host_name(check, b));
        }
    if (n_lines == 0)
        check_line(check, check_job(check), "path MTU", n_full > 0 ? CHECK_OK : CHECK_SKIP, NULL,
                   n_full == n * (n - 1) ? "full packets pass between all hosts"
                                         : "full packets pass in %d of %d pairs",
                   n_full, n * (n - 1));
    if (n_tried < n * (n - 1))
        check_line(check, check_job(check), "packets", CHECK_WARN,
                   "the rows packet loss and ports name hosts; after they are repaired, check again",
                   "%d of %d pairs were not tried in time", n * (n - 1) - n_tried, n * (n - 1));
}

void reach_judge_paths(check_t *check, const reach_path_t *paths, const int32_t *mtu)
{
    judge_loss(check, paths);
    judge_mtu(check, paths, mtu);
}

/* ---- The check ---- */
static const char net_folder[] = "/sys/class/net", snmp_file[] = "/proc/net/snmp";
/* Long enough to retransmit a lost SYN, first after a second. */
static const double connect_sec = 4, path_sec = 5, all_paths_sec = 60, names_sec = 10;

/* A host, exchanged between the hosts' first ranks. */
typedef struct entry {
    net_host_t net;
    int32_t port, mtu;
    int64_t mbit_per_sec;
} entry_t;

typedef struct hosts {
    check_t *check;
    int n;
    entry_t *all;    /* [comm->size]: those of first ranks count */
    int *leaders;    /* [n]: first rank of each host */
    net_host_t *net; /* [n] */
    net_subnet_t subnets[NET_SUBNETS];
    int n_subnets;
    const net_subnet_t *shared; /* the first subnet that MPI may use and all hosts share; NULL: none */
    reach_server_t *server;
    uint64_t job;
    int32_t *results;    /* [n × n] */
    reach_path_t *paths; /* [n × n] */
} hosts_t;

/* Where to reach a host: its address in the shared subnet, otherwise its first that MPI may use; NULL: none. */
static const net_address_t *address_of(const hosts_t *hosts, int host)
{
    const net_host_t *net = &hosts->net[host];
    if (hosts->shared) return net_find(net, hosts->shared);
    for (int i = 0; i < net->n; i++) {
        bool bridge = false;
        for (int k = 0; k < hosts->n_subnets; k++)
            bridge |= hosts->subnets[k].bridge && net_find(net, &hosts->subnets[k]) == &net->address[i];
        if (!bridge && net_is_used(net, &net->address[i])) return &net->address[i];
    }
    return NULL;
}

/* Collective. Sets all but results and paths. */
static err_t exchange(hosts_t *hosts, const entry_t *mine)
{
    static const char what[] = "comparing interfaces";
    TRY(comm_allgather(hosts->check->comm, mine, sizeof *mine, hosts->all, what));
    for (int h = 0; h < hosts->n; h++) hosts->net[h] = hosts->all[hosts->leaders[h]].net;
    hosts->n_subnets = net_subnets(hosts->net, hosts->n, hosts->subnets);
    hosts->shared = NULL;
    for (int i = 0; !hosts->shared && i < hosts->n_subnets; i++) {
        const net_subnet_t *s = &hosts->subnets[i];
        if (s->used && !s->bridge && s->n_hosts == hosts->n) hosts->shared = s;
    }
    return ERR_OK;
}

/* Not collective. What the hosts' names lead to here. */
static err_t compare_names(const hosts_t *hosts)
{
    check_t *check = hosts->check;
    net_name_t *names;
    TRY(mem_new_array(hosts->n, sizeof *names, "names of hosts", &names));
    for (int h = 0; h < hosts->n; h++) names[h].name = check->ranks[hosts->leaders[h]].host_name;
    err_t err = net_resolve(names, hosts->n, names_sec);
    if (err == ERR_OK) net_judge_names(check, hosts->net, names);
    mem_free(&names);
    return err;
}

/* Listens; *port: 0 where it cannot. Open MPI's own range may be taken by the job's ranks alone. */
static void listen_for_all(hosts_t *hosts, reach_ports_t ports, int32_t *port)
{
    check_t *check = hosts->check;
    const check_where_t where = check_host(check);
    const net_address_t *own = address_of(hosts, check->host);
    const bool of_mpi = !check->options->ports && ports.low > 0;
    if (!own)
        check_line(
            check, where, ports_name, CHECK_FAIL,
            "give it an address in the network of the others, or select another one: run.sh --interface",
            "no address that MPI may use");
    else if (reach_serve(own->family, ports, hosts->job, check->host, &hosts->server) == ERR_OK)
        *port = reach_server_port(hosts->server);
    else
        check_line(check, where, ports_name, of_mpi ? CHECK_SKIP : CHECK_FAIL,
                   "stop the programs that hold these ports, or widen the range",
                   of_mpi ? "%s; MPI's range has no other for this check" : "%s", err_message());
}

/* Collective. All hosts listen, then each connects to all others. *n_pairs: that were tried. */
static err_t connect_all(hosts_t *hosts, reach_ports_t ports, int *n_pairs)
{
    static const char what[] = "connecting hosts";
    check_t *check = hosts->check;
    const int n = hosts->n;
    entry_t mine = hosts->all[check->comm->rank];
    reach_target_t *targets = NULL;
    *n_pairs = 0;
    if (check_host(check).speaks) listen_for_all(hosts, ports, &mine.port);
    TRY(exchange(hosts, &mine));
    TRY(comm_agree(check->comm, mem_new_array(n, sizeof *targets, "hosts to reach", &targets), what));
    for (int h = 0; h < n; h++) {
        const entry_t *to = &hosts->all[hosts->leaders[h]];
        /* A host without a port has a line of its own. */
        const bool other = h != check->host && to->port > 0;
        *n_pairs += (n - 1) * (to->port > 0);
        targets[h] = (reach_target_t){other ? address_of(hosts, h) : NULL, to->port, h,
                                      other ? REACH_NO_ROUTE : REACH_OK};
    }
    if (check_host(check).speaks) {
        reach_connect(targets, n, hosts->job, connect_sec);
        for (int h = 0; h < n; h++) hosts->results[check->host * n + h] = targets[h].result;
    }
    mem_free(&targets);
    TRY(comm_barrier_asleep(check->comm, what)); /* others may need the CPU to answer */
    return comm_allreduce(check->comm, hosts->results, (int64_t)n * n, DTYPE_I32, COMM_MAX, what);
}

/* On rank 0. */
static void report_connections(const hosts_t *hosts, reach_ports_t ports, int n_pairs)
{
    check_t *check = hosts->check;
    char range[32] = "any";
    const bool all = n_pairs == hosts->n * (hosts->n - 1);
    const int n_fail = reach_judge(check, hosts->results);
    if (ports.low > 0) snprintf(range, sizeof range, "%d-%d", ports.low, ports.high);
    if (n_fail == 0 && n_pairs > 0)
        check_line(check, check_job(check), ports_name, CHECK_OK, NULL, "%s, %s%d pairs connect", range,
                   all ? "all " : "", n_pairs);
    net_judge(check, hosts->net, hosts->subnets, hosts->n_subnets, !hosts->shared && n_fail == 0);
}

/* Not collective. Sends to each host in turn, so that few send to one at a time; then again where packets are lost: other traffic
 * is temporary. Ends long before the other hosts have waited too long. */
static void send_to_all(const hosts_t *hosts)
{
    const check_t *check = hosts->check;
    const int n = hosts->n, me = check->host, few = 4000 / (n - 1) < 100 ? 100 : 4000 / (n - 1);
    const int n_packets = (few < 1500 ? few : 1500) * (check->options->level > 1 ? 8 : 1);
    const int n_rounds = pairs_rounds(n);
    const double end = clock_sec() + fmin(all_paths_sec, check->options->runtime.timeout_sec / 4);
    for (int i = 0; i < 3 * n_rounds; i++) {
        const double left = end - clock_sec();
        const int h = pairs_partner(n, i % n_rounds, me), port = hosts->all[hosts->leaders[h]].port;
        const net_address_t *to = h == me || port == 0 ? NULL : address_of(hosts, h);
        reach_path_t *path = &hosts->paths[me * n + h];
        const bool good = path->n_sent > 0 && path->n_lost < 2 && !path->stuck;
        if (!to || left <= 0 || good) continue;
        /* A host that loses packets must not take the time of those that follow. */
        const double limit = i < n_rounds ? fmin(path_sec, 1.5 * left / (n_rounds - i)) : path_sec;
        const reach_path_t again = reach_send(to, port, n_packets, limit);
        const bool passes = path->stuck && again.full;
        if (path->n_sent == 0 || passes ||
            (double)again.n_lost * path->n_sent < (double)path->n_lost * again.n_sent)
            *path = again;
    }
}

/* Collective. */
static err_t try_paths(hosts_t *hosts)
{
    static const char what[] = "sending packets between hosts";
    check_t *check = hosts->check;
    const int64_t n = hosts->n, n_numbers = n * n * (int64_t)(sizeof(reach_path_t) / sizeof(int32_t));
    int32_t *mtu;
    if (check_host(check).speaks) send_to_all(hosts);
    TRY(comm_barrier_asleep(check->comm, what));
    TRY(comm_allreduce(check->comm, hosts->paths, n_numbers, DTYPE_I32, COMM_MAX, what));
    if (check->comm->rank > 0) return ERR_OK;
    TRY(mem_new_array(n, sizeof *mtu, "MTUs", &mtu));
    for (int h = 0; h < n; h++) mtu[h] = hosts->all[hosts->leaders[h]].mtu;
    reach_judge_paths(check, hosts->paths, mtu);
    mem_free(&mtu);
    return ERR_OK;
}

/* Which hosts rank 0's can connect to, or they to it. */
static err_t find_paths(const hosts_t *hosts)
{
    check_t *check = hosts->check;
    const int n = hosts->n, root = check->ranks[0].host;
    TRY(mem_new_array(n, sizeof *check->to_root, "paths to rank 0", &check->to_root));
    int n_lost = 0;
    for (int h = 0; h < n; h++)
        check->to_root[h] = h == root || hosts->results[root * n + h] == REACH_OK ? CHECK_PATH_BACK
                            : hosts->results[h * n + root] == REACH_OK            ? CHECK_PATH_THERE
                                                                                  : CHECK_NO_PATH;
    for (int h = 0; h < n; h++) n_lost += check->to_root[h] == CHECK_NO_PATH;
    if (n_lost > 0)
        check_line(check, check_job(check), "results", CHECK_SKIP, NULL,
                   "those of %d host%s are missing: no way to rank 0", n_lost, n_lost == 1 ? "" : "s");
    return ERR_OK;
}

/* Collective. */
static err_t reach_hosts(hosts_t *hosts)
{
    static const char what[] = "comparing interfaces";
    check_t *check = hosts->check;
    comm_t *comm = check->comm;
    const bool leads = check_host(check).speaks;
    reach_ports_t ports;
    entry_t mine = {.port = 0};
    net_link_t link = {0};
    net_host_read(&mine.net);
    TRY(exchange(hosts, &mine));
    const net_address_t *own = address_of(hosts, check->host);
    if (own) net_link_read(net_folder, own->interface, &link);
    if (own && leads) net_counters_read(net_folder, own->interface, snmp_file, &check->counters);
    if (leads) net_link_facts(check, &link);
    mine.mtu = link.mtu;
    mine.mbit_per_sec = link.mbit_per_sec;
    hosts->all[comm->rank] = mine; /* sent with the port */
    hosts->job = (uint64_t)(1e6 * clock_unix_sec()) ^ (uint64_t)getpid() << 40;
    TRY(comm_broadcast(comm, &hosts->job, sizeof hosts->job, 0, what));
    TRY(reach_ports_parse("ports", check->options->ports, &ports));
    if (ports.low == 0) ports = reach_ports_environment();
    int n_pairs;
    TRY(connect_all(hosts, ports, &n_pairs));
    if (comm->rank == 0) report_connections(hosts, ports, n_pairs);
    TRY(comm_agree(comm, leads ? compare_names(hosts) : ERR_OK, "resolving names"));
    for (int i = 0; i < hosts->n * hosts->n; i++) check->unreached |= hosts->results[i] != REACH_OK;
    if (check->unreached) TRY(comm_agree(comm, find_paths(hosts), what));
    for (int h = 0; h < hosts->n; h++) {
        const double rate = 1e6 * (double)hosts->all[hosts->leaders[h]].mbit_per_sec;
        if (h == 0 || rate < check->link_bits_per_sec) check->link_bits_per_sec = rate;
    }
    return check->unreached ? ERR_OK : try_paths(hosts);
}

static err_t hosts_alloc(hosts_t *hosts)
{
    const check_t *check = hosts->check;
    const int64_t n = hosts->n, n_all = n * n;
    TRY(mem_new_array(check->comm->size, sizeof *hosts->all, "interfaces", &hosts->all));
    TRY(mem_new_array(n, sizeof *hosts->leaders, "hosts", &hosts->leaders));
    TRY(mem_new_array(n, sizeof *hosts->net, "interfaces of hosts", &hosts->net));
    TRY(mem_new_array(n_all, sizeof *hosts->results, "reachability of hosts", &hosts->results));
    TRY(mem_new_array(n_all, sizeof *hosts->paths, "packets between hosts", &hosts->paths));
    check_leaders(check, hosts->leaders);
    return ERR_OK;
}

static err_t reach_run(check_t *check)
{
    hosts_t hosts = {.check = check, .n = check->n_hosts};
    const bool parts = check->options->runtime.ranks_per_host > 0;
    if (check->n_hosts == 1 || parts || check->comm->topo.simulated) {
        check_line(check, check_job(check), "interfaces", CHECK_SKIP, NULL,
                   check->n_hosts == 1 ? "one host" : "hosts are simulated%s",
                   parts ? " (--ranks-per-host)" : "");
        return ERR_OK;
    }
    err_t err = comm_agree(check->comm, hosts_alloc(&hosts), "preparing to reach hosts");
    if (err == ERR_OK) err = reach_hosts(&hosts);
    reach_server_stop(&hosts.server);
    mem_free(&hosts.all);
    mem_free(&hosts.leaders);
    mem_free(&hosts.net);
    mem_free(&hosts.results);
    mem_free(&hosts.paths);
    return err;
}

void reach_report_counters(check_t *check)
{
    net_counters_t now;
    if (!check_host(check).speaks || check->counters.packets == 0) return;
    net_counters_read(net_folder, check->counters.interface, snmp_file, &now);
    net_counters_judge(check, &now);
}

const check_case_t check_reach = {
    "reach", "between hosts without MPI: addresses, names, ports, packet loss, MTU", true, reach_run};

/* ---- Hosts by name alone ---- */
enum { ALONE_MAX = 1024, ALONE_PORT = 20817 };
/* The hosts are started by ssh, some later than others. */
static const double alone_sec = 12;

/* The first IPv4 address of a name, or its first; NULL: none. */
static const net_address_t *first_of(const net_name_t *name)
{
    for (int i = 0; i < name->n; i++)
        if (name->address[i].family == 4) return &name->address[i];
    return name->n > 0 ? &name->address[0] : NULL;
}

/* Connects until all others have answered, or time is up, and answers them for all of it. Prints those that have not; returns their
 * number. */
static int meet(const net_name_t *names, int n, int self, uint64_t job, int port)
{
    static reach_target_t targets[ALONE_MAX];
    int n_left = 0;
    const double end = clock_sec() + alone_sec;
    for (int h = 0; h < n; h++)
        targets[h] = (reach_target_t){h == self ? NULL : first_of(&names[h]), port, h, REACH_NO_ROUTE};
    while (clock_sec() < end) {
        reach_connect(targets, n, job, 3);
        for (int h = 0; h < n; h++)
            if (targets[h].result == REACH_OK) targets[h].to = NULL;
        clock_sleep(0.2);
    }
    for (int h = 0; h < n; h++) {
        const net_name_t *name = &names[h];
        const int32_t result = targets[h].result;
        const int other = result - REACH_OTHER - 1;
        if (h == self || result == REACH_OK) continue;
        n_left++;
        if (!targets[h].to)
            print_out("to %s: %s\n", name->name,
                      name->n == 0 ? "the name leads to this host itself" : "the name does not resolve");
        else
            print_out("to %s, %s: %s%s\n", name->name, net_address_text(targets[h].to).text,
                      other >= 0 && other < n ? "answered by " : "",
                      other >= 0 && other < n ? names[other].name : reach_text(result));
    }
    return n_left;
}

/* Of the names that is this host's; -1: none. Debian gives a host's own name a loopback address. */
static int find_self(const net_name_t *names, int n)
{
    char host[TOPO_HOST_MAX];
    net_host_t own;
    int self = -1;
    net_host_read(&own);
    launch_host_name(host, sizeof host);
    for (int h = 0; h < n; h++)
        if (strcmp(names[h].name, host) == 0) self = h;
    for (int h = 0; h < n; h++)
        for (int i = 0; i < names[h].n; i++)
            if (net_has(&own, &names[h].address[i])) self = h;
    return self;
}

err_t check_reach_alone(const check_options_t *options)
{
    const char *list = options->reach;
    static char text[ALONE_MAX * 65];
    static net_name_t names[ALONE_MAX];
    reach_ports_t ports;
    reach_server_t *server = NULL;
    int n = 0;
    if (strlen(list) >= sizeof text) RAISE(ERR_USAGE, "--reach: the list is too long");
    strcpy(text, list);
    for (char *rest = text, *word; (word = strsep(&rest, ",")) && n < ALONE_MAX;)
        if (word[0]) names[n++].name = word;
    TRY(reach_ports_parse("ports", options->ports, &ports));
    if (ports.low == 0) ports = (reach_ports_t){ALONE_PORT, ALONE_PORT};
    ports.high = ports.low; /* all hosts must know it */
    TRY(net_resolve(names, n, alone_sec));
    const int self = find_self(names, n);
    if (self < 0) RAISE(ERR_USAGE, "--reach: none of %s is this host", list);
    const net_address_t *own = first_of(&names[self]);
    TRY(reach_serve(own ? own->family : 4, ports, XXH3_64bits(list, strlen(list)), self, &server));
    const int n_left = meet(names, n, self, XXH3_64bits(list, strlen(list)), ports.low);
    reach_server_stop(&server);
    if (n_left == 0) print_out("reaches all %d other hosts\n", n - 1);
    return n_left > 0 ? ERR_GATE : ERR_OK;
}
