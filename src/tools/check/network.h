/* SPDX-License-Identifier: MIT */
/* Facts about the network and their judgement, which tests supply with facts: network interfaces, TCP connections, speed of every
 * pair of hosts, the transport. Private to src/tools/check. */
#ifndef TOOLS_CHECK_NETWORK_H
#define TOOLS_CHECK_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/comm/nccl_report.h"
#include "text/figure.h"
#include "tools/check/check.h"

/* ---- Network interfaces ---- */
typedef struct net_address {
    char interface[16];
    uint8_t family; /* 4 or 6 */
    uint8_t prefix; /* bits of the subnet */
    uint8_t bytes[16];
} net_address_t;

enum { NET_MAX = 16, NET_SELECTION = 160 };

/* The addresses of a host's active interfaces, except loopback and link-local ones. */
typedef struct net_host {
    int32_t n;
    net_address_t address[NET_MAX];
    char include[NET_SELECTION], exclude[NET_SELECTION]; /* Open MPI's btl_tcp_if_…; "": not set */
} net_host_t;

/* Reads this host's addresses, and MPI's selection from the environment. */
void net_host_read(net_host_t *out);

typedef struct net_subnet {
    net_address_t first; /* the address of the first host in it */
    int n_hosts;         /* hosts with an address in it */
    bool bridge;         /* several hosts have the same address in it: a local bridge such as Docker's */
    bool used;           /* MPI's selection includes it */
} net_subnet_t;

/* Lists the subnets, the most common first, up to NET_SUBNETS; returns their number. Skips IPv6 if all hosts
 * have IPv4. */
enum { NET_SUBNETS = 32 };
int net_subnets(const net_host_t *hosts, int n_hosts, net_subnet_t out[NET_SUBNETS]);

/* Whether MPI's selection includes an address of the host. */
bool net_is_used(const net_host_t *host, const net_address_t *a);

/* More lines about one thing would not help. */
enum { NET_MAX_LINES = 16 };

/* A host's address in a subnet, or NULL. */
const net_address_t *net_find(const net_host_t *host, const net_subnet_t *subnet);

/* "10.0.0.0/24" */
typedef struct net_text {
    char text[64];
} net_text_t;

/* Adds lines about the interfaces of all hosts; called on one rank.
 *
 *   routed  without a shared subnet: hosts reach each other nevertheless */
void net_judge(check_t *check, const net_host_t *hosts, const net_subnet_t *subnets, int n_subnets,
               bool routed);

net_text_t net_address_text(const net_address_t *a); /* "10.0.0.1" */
/* Whether a host has the address, in any subnet. */
bool net_has(const net_host_t *host, const net_address_t *a);
/* Loopback and link-local addresses do not identify a network. */
bool net_is_local(const net_address_t *a);

/* A link as its driver negotiated it, and how large packets may be. 0, "": unknown. */
typedef struct net_link {
    int32_t mtu;
    int64_t mbit_per_sec;
    char duplex[12];
} net_link_t;
/* Reads FOLDER/INTERFACE.
 *
 *   folder  /sys/class/net */
void net_link_read(const char *folder, const char *interface, net_link_t *out);
/* Adds facts about this host's link to the others. */
void net_link_facts(check_t *check, const net_link_t *link);

/* Reads what the interface and this host's TCP have counted since boot.
 *
 *   net, snmp  /sys/class/net and /proc/net/snmp */
void net_counters_read(const char *net, const char *interface, const char *snmp, net_counters_t *out);
/* Adds lines about what they counted since check->counters was read. */
void net_counters_judge(check_t *check, const net_counters_t *now);

/* ---- Names ---- */
enum { NAME_MAX_ADDRESSES = 8, NAME_UNKNOWN = -1, NAME_LATE = -2 };

/* What a name resolves to on this host. */
typedef struct net_name {
    const char *name;
    int n;                                     /* -1: it does not resolve, or not in time */
    net_address_t address[NAME_MAX_ADDRESSES]; /* family and bytes */
} net_name_t;

/* Resolves names, for up to timeout_sec together. ERR_SYSTEM without memory. */
err_t net_resolve(net_name_t *names, int n, double timeout_sec);

/* Adds a line about this host: names of other hosts that lead to a third one, or nowhere.
 *
 *   names  [n_hosts] */
void net_judge_names(check_t *check, const net_host_t *hosts, const net_name_t *names);

/* ---- TCP connections ---- */
/* Each host listens and answers with who it is. REACH_OTHER: another machine answered, host result - REACH_OTHER - 1 of the
 * job, or an unknown one (REACH_OTHER itself). */
typedef enum reach {
    REACH_OK,
    REACH_REFUSED,
    REACH_TIMEOUT,
    REACH_NO_ROUTE,
    REACH_ERROR,
    REACH_OTHER
} reach_t;

/* A range of ports; both 0: the kernel chooses. */
typedef struct reach_ports {
    int low, high;
} reach_ports_t;
/* Parses "LO-HI"; NULL gives zeros. ERR_USAGE names `option`. */
err_t reach_ports_parse(const char *option, const char *text, reach_ports_t *out);
/* The range set by Open MPI's btl_tcp_port_min_v4 and …_range_v4, if any. */
reach_ports_t reach_ports_environment(void);

typedef struct reach_server reach_server_t;
/* Listens on all addresses of a family (4 or 6), on the first free port of the range, and answers in a thread, which reads and
 * drops what it gets. ERR_SYSTEM: no port, or no thread. */
err_t reach_serve(int family, reach_ports_t ports, uint64_t job, int host, reach_server_t **out);
int reach_server_port(const reach_server_t *server);
void reach_server_stop(reach_server_t **server); /* NULL inside is fine */

/* Connects to n hosts concurrently, for up to timeout_sec. */
typedef struct reach_target {
    const net_address_t *to; /* NULL: skip */
    int port, host;
    int32_t result;
} reach_target_t;
void reach_connect(reach_target_t *targets, int n, uint64_t job, double timeout_sec);

/* Adds lines about hosts and pairs that fail; called on one rank. Returns the number of failing pairs.
 *
 *   results  [n_hosts × n_hosts] of reach_t, from the row's host to the column's */
int reach_judge(check_t *check, const int32_t *results);

/* ---- Packets from one host to another, through one TCP connection ---- */
typedef struct reach_path {
    int32_t n_sent, n_lost; /* packets; what was sent again without need is not lost */
    int32_t mtu;            /* that the kernel knows of the path; 0: unknown */
    int32_t full;           /* full packets pass */
    int32_t stuck;          /* small packets pass, full ones do not */
} reach_path_t;
reach_path_t reach_send(const net_address_t *to, int port, int n_packets, double timeout_sec);

/* Adds lines about loss and MTU; called on one rank.
 *
 *   paths  [n_hosts × n_hosts]
 *   mtu    [n_hosts]: of the interfaces used; 0: unknown */
void reach_judge_paths(check_t *check, const reach_path_t *paths, const int32_t *mtu);

/* Adds lines about what was counted since the check `reach` began. */
void reach_report_counters(check_t *check);

/* ---- Pairs of hosts ---- */
/* Number of rounds that cover all pairs of n hosts when each host has at most one partner per round (the
 * circle method of round-robin tournaments): n - 1, or n if n is odd. */
int pairs_rounds(int n);
/* The partner of `host` in a round; itself if it has none. */
int pairs_partner(int n, int round, int host);

/* A pair is slow if its time exceeds PAIRS_SLOW times the usual time plus a slack: a warning; beyond PAIRS_BROKEN times the usual
 * time plus the slack it is a failure. */
#define PAIRS_SLOW   1.3
#define PAIRS_BROKEN 2.0
/* Between groups of hosts, which share links, these are PAIRS_APART times as much. */
#define PAIRS_APART 2.5

typedef struct pairs {
    int n;
    /* Over the measured pairs. usual is the first quartile: one slow host among three or four affects half of
     * all pairs, and with them the median. */
    double least, median, greatest, usual;
    double limit;    /* times above it are slow */
    double broken;   /* times above it are a failure */
    bool *slow;      /* [n × n], symmetric: slow pairs not explained by a slow host or by groups */
    bool *slow_host; /* [n]: slow to all other hosts, or to more than half of at least four */
    double *of_host; /* [n]: the median time of its pairs */
    int n_groups;    /* 2 or more: hosts form groups (switches), fast inside, slow between */
    int *group;      /* [n]: numbered by first host; -1: a slow host */
    double between;  /* the median time of pairs between groups */
    double slack;
} pairs_t;

/* Classifies the pairs. Free with pairs_free.
 *
 *   sec  [n × n]: times of pairs a < b; NaN: not measured */
err_t pairs_judge(const double *sec, int n, double slack_sec, pairs_t *out);
void pairs_free(pairs_t *pairs);
/* Iterates over all pairs above the limit. Start with *a = *b = 0; false: no more. */
bool pairs_next_slow(const pairs_t *p, const double *sec, int *a, int *b);

/* ---- Speed between hosts ---- */
/* Adds lines about latency or bandwidth; called on one rank.
 *
 *   sec  [n_hosts × n_hosts], in seconds or seconds per byte */
typedef struct network_unit {
    const char *name;               /* "latency" */
    figure_t (*figure)(double sec); /* of a value of `sec` */
} network_unit_t;
extern const network_unit_t network_latency, network_bandwidth;
void network_judge(check_t *check, const pairs_t *pairs, const double *sec, const network_unit_t *unit);

/* ---- Ports and their counters ---- */
/* RoCE is RDMA over Ethernet, used through the same libraries as InfiniBand. */
typedef enum fabric_kind { FABRIC_TCP, FABRIC_IB, FABRIC_ROCE, FABRIC_EFA, FABRIC_KINDS } fabric_kind_t;
extern const char *const fabric_kind_names[FABRIC_KINDS]; /* "TCP", "InfiniBand", "RoCE", "EFA" */

typedef struct fabric_port {
    char name[48]; /* "eth0", "mlx5_0:1" */
    fabric_kind_t kind;
    bool active;
    char driver[24]; /* "mlx5_core", "efa"; "": unknown */
    int64_t sent;    /* bytes since boot or driver load; -1: not counted */
} fabric_port_t;

enum { FABRIC_MAX = 64 };

typedef struct fabric {
    int n;
    fabric_port_t port[FABRIC_MAX];
} fabric_t;

/* Reads all ports.
 *
 *   infiniband, net  /sys/class/infiniband and /sys/class/net */
void fabric_read(const char *infiniband, const char *net, fabric_t *out);

/* The kind of port that sent a known amount of data between two readings. */
typedef struct fabric_use {
    bool known;
    fabric_kind_t kind;
    char names[96]; /* "mlx5_0:1, mlx5_1:1" */
} fabric_use_t;

/* Finds the ports that carried a transfer. If both a network interface and an RDMA port sent that much,
 * `sockets` decides: TCP over the port (IPoIB), or other traffic on the interface.
 *
 *   n_bytes  that this host sent to others at least
 *   sockets  the library reports that it uses sockets */
fabric_use_t fabric_compare(const fabric_t *before, const fabric_t *after, int64_t n_bytes, bool sockets);

/* ---- What carries a transfer ---- */
/* Values of --expect-transport, NULL-terminated: "efa", "ib" (also RoCE), "tcp". */
extern const char *const transport_names[];

/* One host's facts after a transfer. */
typedef struct transport_facts {
    const char *name;     /* of the library: "MPI", "NCCL" */
    const char *reported; /* as reported by the library or its log: "tcp"; "": nothing */
    fabric_use_t use;
    const fabric_t *fabric;
    const char *expected; /* one of transport_names, or NULL */
} transport_facts_t;

/* Derives the kind from NCCL's log: "NET/IB/GDRDMA", "NET/Socket". aws-ofi-nccl calls the network
 * "Libfabric" or "AWS Libfabric", which counts as EFA. False: the log names no transport between hosts. */
bool transport_of_log(const debug_facts_t *log, fabric_kind_t *kind);

/* Add lines about this host. */
void transport_judge_devices(check_t *check, const fabric_t *fabric, const char *expected);
void transport_judge(check_t *check, const transport_facts_t *facts);

/* ---- Errors and rates of RDMA ports ---- */
enum { FABRIC_COUNTERS = 9 };

/* Of the ports of a fabric_t, in its order. */
typedef struct fabric_health {
    double rate[FABRIC_MAX];                    /* Gbit/s; 0: unknown, or not active */
    int64_t count[FABRIC_MAX][FABRIC_COUNTERS]; /* since boot or a reset; -1: not counted */
} fabric_health_t;

/* infiniband: /sys/class/infiniband */
void fabric_health_read(const char *infiniband, const fabric_t *fabric, fabric_health_t *out);

/* Lists the rates of active ports: "8 x 400, 2 x 200 Gbit/s"; "": none. */
void fabric_rates(const fabric_t *fabric, const fabric_health_t *health, char *out, size_t n_bytes);

/* Adds a line about each port whose link was lost since boot or whose errors grew, or one about all.
 *
 *   after  of the same ports, after a transfer; NULL: there was none */
void fabric_judge_errors(check_t *check, const fabric_t *fabric, const fabric_health_t *before,
                         const fabric_health_t *after);

#endif
