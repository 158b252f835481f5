/* SPDX-License-Identifier: MIT */
/* Interface, transport and ports of a job over several hosts: chooses what all hosts have, says why, and adds OpenMPI's flags, and
 * variables for NCCL and libfabric. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "launch/job.h"

enum { NAMES_SHOWN = 16 }; /* hosts in a message */

/* ---- Subnets ---- */
typedef struct net {
    int family, bits;
    unsigned char bytes[sizeof(struct in6_addr)]; /* those of the host part are 0 */
} net_t;

/* An address of a node. */
typedef struct link {
    net_t net;
    int node, order; /* order: among the links of all nodes */
    const address_t *address;
} link_t;

/* The links in a subnet that all nodes share. */
typedef struct subnet {
    const link_t *links; /* sorted by node; NULL: none */
    int n_links;
    int64_t mbits_per_sec; /* of the slowest link that is known; 0: none is */
    bool is_named;         /* it has an address from the list of hosts */
    int order;             /* of its first link */
} subnet_t;

/* The address that a text begins with, up to a %zone or /BITS; bits -1: all of them. */
static bool net_read(const char *text, int64_t bits, net_t *out)
{
    char address[INET6_ADDRSTRLEN];
    *out = (net_t){.family = strchr(text, ':') ? AF_INET6 : AF_INET};
    const int n_bytes = out->family == AF_INET6 ? 16 : 4;
    if (snprintf(address, sizeof address, "%.*s", (int)strcspn(text, "%/"), text) >= (int)sizeof address ||
        bits > 8 * n_bytes || inet_pton(out->family, address, out->bytes) != 1)
        return false;
    out->bits = bits < 0 ? 8 * n_bytes : (int)bits;
    for (int i = 0; i < n_bytes; i++) {
        const int kept = out->bits - 8 * i;
        if (kept < 8) out->bytes[i] = (unsigned char)(kept > 0 ? out->bytes[i] & (0xff << (8 - kept)) : 0);
    }
    return true;
}

static const char *net_text(job_t *job, const net_t *net)
{
    char address[INET6_ADDRSTRLEN] = "";
    inet_ntop(net->family, net->bytes, address, sizeof address);
    return start_text(job, "%s/%d", address, net->bits);
}

static int compare_nets(const void *first, const void *second)
{
    const net_t *a = first, *b = second;
    if (a->family != b->family) return a->family < b->family ? -1 : 1;
    if (a->bits != b->bits) return a->bits < b->bits ? -1 : 1;
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

static int compare_links(const void *first, const void *second)
{
    const link_t *a = first, *b = second;
    const int nets = compare_nets(&a->net, &b->net);
    return nets ? nets : a->order - b->order;
}

/* Local bridges, which other hosts cannot reach. */
static bool is_bridge(const char *interface)
{
    static const char *const prefixes[] = {"docker", "virbr", "br-",    "cni", "flannel",
                                           "cali",   "lxdbr", "podman", "veth"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(interface, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* All nodes' links, in their order; those of bridges only if the user names one. */
static int find_links(job_t *job, bool with_bridges, link_t **out)
{
    size_t n_addresses = 0;
    int n = 0;
    for (int i = 0; i < job->n_nodes; i++) n_addresses += (size_t)job->nodes[i].answer.n_addresses;
    launch_need(arena_new(&job->start, (n_addresses + 1) * sizeof **out, out));
    for (int i = 0; i < job->n_nodes; i++) {
        const answer_t *answer = &job->nodes[i].answer;
        for (int k = 0; k < answer->n_addresses; k++) {
            const address_t *a = &answer->addresses[k];
            link_t link = {.node = i, .order = n, .address = a};
            if (strcmp(a->interface, "lo") == 0 || (!with_bridges && is_bridge(a->interface))) continue;
            if (net_read(a->text, a->bits, &link.net)) (*out)[n++] = link;
        }
    }
    return n;
}

/* A node's interfaces, for messages. */
static const char *links_of(job_t *job, const link_t *links, int n, int node)
{
    message_t text = {0};
    for (int k = 0; k < n; k++)
        if (links[k].node == node)
            message_append(&text, "%s %s %s", text.n ? "," : "", links[k].address->interface,
                           net_text(job, &links[k].net));
    return text.n ? start_text(job, "%s", text.text) : " no address at all";
}

/* IPv4, then the fastest, then the one of the hosts' given addresses. */
static bool is_better(const subnet_t *a, const subnet_t *b)
{
    if (!b->links) return true;
    const int family_a = a->links->net.family, family_b = b->links->net.family;
    if (family_a != family_b) return family_a == AF_INET;
    if (a->mbits_per_sec != b->mbits_per_sec) return a->mbits_per_sec > b->mbits_per_sec;
    if (a->is_named != b->is_named) return a->is_named;
    return a->order < b->order;
}

/* Finds the best subnet that all nodes share.
 *
 *   links    sorted by compare_links
 *   wanted   only this one; NULL: any
 *   *n_like  how many of its family they share */
static subnet_t find_subnet(job_t *job, const link_t *links, int n, const net_t *wanted, int *n_like)
{
    subnet_t best = {0};
    net_t *named;
    int n_named = 0, n_shared[2] = {0};
    launch_need(arena_new(&job->start, (size_t)(job->n_nodes + 1) * sizeof *named, &named));
    for (int i = 0; i < job->n_nodes; i++) n_named += net_read(job->nodes[i].name, -1, &named[n_named]);
    qsort(named, (size_t)n_named, sizeof *named, compare_nets);
    for (int k = 0, end; k < n; k = end) {
        subnet_t net = {.links = &links[k], .order = links[k].order};
        int n_nodes = 0;
        for (end = k; end < n && compare_nets(&links[end].net, &links[k].net) == 0; end++) {
            const link_t *link = &links[end];
            const int64_t speed = link->address->mbits_per_sec;
            net_t address;
            n_nodes += end == k || link->node != link[-1].node;
            if (speed > 0 && (net.mbits_per_sec == 0 || speed < net.mbits_per_sec)) net.mbits_per_sec = speed;
            if (n_named > 0 && !net.is_named && net_read(link->address->text, -1, &address))
                net.is_named = bsearch(&address, named, (size_t)n_named, sizeof *named, compare_nets);
        }
        net.n_links = end - k;
        if (n_nodes < job->n_nodes || (wanted && compare_nets(wanted, &links[k].net) != 0)) continue;
        n_shared[links[k].net.family == AF_INET6]++;
        if (is_better(&net, &best)) best = net;
    }
    if (best.links) *n_like = n_shared[best.links->net.family == AF_INET6];
    return best;
}

/* The names of the network's interface, sorted; none where they are unknown. */
static words_t interface_names(const job_t *job)
{
    words_t names = {0};
    for (int i = 0; i < job->n_nodes; i++)
        if (job->nodes[i].interface) words_add(&names, job->nodes[i].interface);
    words_sort(&names);
    int n = 0;
    for (int i = 0; i < names.n; i++)
        if (n == 0 || strcmp(names.at[i], names.at[n - 1]) != 0) names.at[n++] = names.at[i];
    if (n < names.n) words_remove(&names, n, names.n - n);
    return names;
}

/* An interface that the user names: every host has one. */
static err_t choose_named(job_t *job, const link_t *links, int n, const char *name)
{
    int k = 0;
    for (int i = 0; i < job->n_nodes; i++) {
        bool has = job->nodes[i].answer.has_no_ip;
        for (; k < n && links[k].node == i; k++) has |= strcmp(links[k].address->interface, name) == 0;
        if (!has)
            RAISE(ERR_SYSTEM, "--interface %s: %s has no such interface with an address:%s", name,
                  job->nodes[i].name, links_of(job, links, n, i));
        job->nodes[i].interface = name;
    }
    job->subnet = name;
    say(job, "interface %s: set by --interface", name);
    return ERR_OK;
}

/* The subnets of each host; of hosts that have the same, the first is named. */
static void say_subnets(job_t *job, const link_t *links, int n)
{
    words_t said = {0};
    for (int i = 0; i < job->n_nodes && said.n < NAMES_SHOWN; i++) {
        const char *subnets = links_of(job, links, n, i);
        if (words_have(&said, subnets)) continue;
        say(job, "%s has%s", job->nodes[i].name, subnets);
        words_add(&said, subnets);
    }
    words_free(&said);
}

/* Packets to an address of two nodes reach either: MPI would wait for the wrong one. */
static err_t refuse_duplicates(const job_t *job, const subnet_t *subnet)
{
    const link_t *links = subnet->links;
    for (int k = 0; k < subnet->n_links; k++)
        for (int i = 0; i < k; i++)
            if (links[i].node != links[k].node && strcmp(links[i].address->text, links[k].address->text) == 0)
                RAISE(
                    ERR_SYSTEM,
                    "%s is an address of %s and of %s: remove it from one of them (ip address del), or choose another "
                    "network by --interface",
                    links[k].address->text, job->nodes[links[i].node].name, job->nodes[links[k].node].name);
    return ERR_OK;
}

/* Sets the subnet and each node's interface in it. */
static err_t choose_interface(job_t *job)
{
    const char *request = job->options.interface;
    net_t wanted = {0}; /* equals none until it is read */
    link_t *links, *sorted;
    int n_like = 0;
    for (int i = 0; i < job->n_nodes; i++)
        if (job->nodes[i].answer.has_no_ip && (!request || strchr(request, '/')))
            RAISE(
                ERR_SYSTEM,
                "%s has no ip command (iproute2) to list addresses; choose an interface by --interface NAME",
                job->nodes[i].name);
    const int n = find_links(job, request != NULL, &links);
    if (request && !strchr(request, '/')) return choose_named(job, links, n, request);
    const char *slash = request ? strchr(request, '/') : NULL;
    int64_t bits;
    if (request && (!word_number(slash + 1, &bits) || !net_read(request, bits, &wanted))) wanted = (net_t){0};
    launch_need(arena_new(&job->start, (size_t)(n + 1) * sizeof *sorted, &sorted));
    memcpy(sorted, links, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_links);
    const subnet_t best = find_subnet(job, sorted, n, request ? &wanted : NULL, &n_like);
    for (int i = 0, k = 0; !best.links && i < job->n_nodes; i++) {
        bool has = false;
        for (; k < n && links[k].node == i; k++) has |= compare_nets(&links[k].net, &wanted) == 0;
        if (request && !has)
            RAISE(ERR_SYSTEM, "--interface %s: %s has no address there:%s", request, job->nodes[i].name,
                  links_of(job, links, n, i));
    }
    if (!best.links) {
        say_subnets(job, links, n);
        RAISE(ERR_SYSTEM, "the hosts share no subnet; if their subnets are routed, choose an interface by "
                          "--interface NAME");
    }
    TRY(refuse_duplicates(job, &best));
    for (int k = best.n_links - 1; k >= 0; k--)
        job->nodes[best.links[k].node].interface = best.links[k].address->interface;
    job->subnet = net_text(job, &best.links->net);
    words_t names = interface_names(job);
    /* IPv6 next to IPv4 is the same network. */
    say(job, "interface %s (%s): %s", words_join(&job->start, &names, ","), job->subnet,
        request      ? "set by --interface"
        : n_like > 1 ? "the fastest that all hosts share"
                     : "the only one that all hosts share");
    words_free(&names);
    return ERR_OK;
}

/* ---- Transport ---- */
/* Hosts that lack something, for a message: " a b". */
typedef struct lacking {
    message_t names;
    int n;
} lacking_t;

static void add_lacking(lacking_t *lacking, const char *name)
{
    if (lacking->n++ < NAMES_SHOWN) message_append(&lacking->names, " %s", name);
}

static const char *lacking_text(job_t *job, const lacking_t *lacking)
{
    if (lacking->n <= NAMES_SHOWN) return start_text(job, "%s", lacking->names.text);
    return start_text(job, "%s and %d more", lacking->names.text, lacking->n - NAMES_SHOWN);
}

/* Without the plugin NCCL would silently use sockets. */
static void check_efa(job_t *job)
{
    static const char path[] = "LD_LIBRARY_PATH";
    int n_lacking = 0;
    bool is_set = env_find(&job->hidden, path) >= 0; /* the user's */
    for (int i = 0; i < job->n_nodes; i++) {
        const char *folder = job->nodes[i].answer.ofi, *old = getenv(path);
        if (!folder) {
            if (n_lacking++ < NAMES_SHOWN)
                say(job,
                    "%s: aws-ofi-nccl was not found in the folders of Amazon's installer; add the folder of "
                    "libnccl-net.so to LD_LIBRARY_PATH (--env-file), or NCCL will fail",
                    job->nodes[i].name);
        } else if (!is_set) {
            env_drop(&job->env, path);
            words_add(&job->env, start_text(job, "%s=%s:/opt/amazon/efa/lib64:/opt/amazon/efa/lib%s%s", path,
                                            folder, old && *old ? ":" : "", old ? old : ""));
            is_set = true;
        }
    }
    if (n_lacking > NAMES_SHOWN)
        say(job, "aws-ofi-nccl was not found on %d more hosts", n_lacking - NAMES_SHOWN);
}

static const char *const transport_names[] = {"tcp", "ib", "efa"};

/* False: auto. */
static bool find_transport(const char *name, transport_t *out)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, transport_names[i]) == 0) {
            *out = (transport_t)i;
            return true;
        }
    return false;
}

/* Chooses what every host has, and says why. */
static err_t choose_transport(job_t *job)
{
    const char *request = job->options.transport, *why = "set by --transport";
    const int n = job->n_nodes;
    lacking_t no_efa = {0}, no_ib = {0}, no_rdma = {0};
    int n_roce = 0;
    for (int i = 0; i < n; i++) {
        const answer_t *answer = &job->nodes[i].answer;
        if (!answer->has_efa) add_lacking(&no_efa, job->nodes[i].name);
        if (!answer->has_ib) add_lacking(&no_ib, job->nodes[i].name);
        if (!answer->has_ib && !answer->has_roce) add_lacking(&no_rdma, job->nodes[i].name);
        n_roce += answer->has_roce;
    }
    const int n_efa = n - no_efa.n, n_ib = n - no_ib.n;
    if (find_transport(request, &job->transport)) {
        /* RoCE is the same transport over Ethernet. */
        if (job->transport == TRANSPORT_EFA && n_efa < n)
            RAISE(ERR_SYSTEM, "--transport efa: no EFA device on%s", lacking_text(job, &no_efa));
        if (job->transport == TRANSPORT_IB && no_rdma.n > 0)
            RAISE(ERR_SYSTEM, "--transport ib: no active InfiniBand or RoCE port on%s",
                  lacking_text(job, &no_rdma));
    } else if (n_efa == n) {
        job->transport = TRANSPORT_EFA;
        why = "every host has an EFA device";
    } else if (n_ib == n) {
        job->transport = TRANSPORT_IB;
        why = "every host has an active InfiniBand port";
    } else {
        job->transport = TRANSPORT_TCP;
        if (n_roce == n)
            why = "the hosts' RDMA ports are Ethernet; if RoCE is set up, use --transport ib";
        else if (n_ib > 0)
            why = start_text(job, "InfiniBand is active on %d of %d hosts, not on%s", n_ib, n,
                             lacking_text(job, &no_ib));
        else if (n_efa > 0)
            why = start_text(job, "EFA is on %d of %d hosts, not on%s", n_efa, n, lacking_text(job, &no_efa));
        else
            why = "no host has an EFA device or an active InfiniBand port";
    }
    say(job, "transport %s: %s", transport_names[job->transport], why);
    if (job->transport == TRANSPORT_EFA) check_efa(job);
    return ERR_OK;
}

/* Variables that are already set keep their values. */
static void add_transport_flags(job_t *job)
{
    words_t *flags = &job->mpi_flags;
    if (job->transport == TRANSPORT_IB) {
        words_add_list(flags, "--mca", "pml", "ucx", NULL);
        if (job->mpi_major < 5) words_add_list(flags, "--mca", "btl", "^openib", NULL);
        env_default(job, "NCCL_NET", "IB");
        return;
    }
    /* OpenMPI's default for large messages, put, hardly sends while it receives. With EFA, MPI carries little next to NCCL: TCP,
     * without the matching layer that would open libfabric as well. */
    words_add_list(flags, "--mca", "pml", "ob1", "--mca", "btl",
                   job->mpi_major < 5 ? "tcp,vader,self" : "tcp,sm,self", "--mca", "btl_tcp_flags", "send",
                   NULL);
    /* OpenMPI 5's other component warns of all ranks of the same host. */
    if (job->mpi_major >= 5) words_add_list(flags, "--mca", "opal_reachable", "weighted", NULL);
    if (job->transport == TRANSPORT_EFA) {
        env_default(job, "FI_PROVIDER", "efa");
        env_default(job, "FI_EFA_USE_DEVICE_RDMA", "1");
    }
    /* Set explicitly, so that a missing plugin is an NCCL error, not a slow run. */
    env_default(job, "NCCL_NET", job->transport == TRANSPORT_EFA ? "AWS Libfabric" : "Socket");
}

static void add_interface_flags(job_t *job)
{
    /* Without a probe the subnet's interfaces are unknown; NCCL then chooses. */
    words_t names = interface_names(job);
    const char *runtime = job->subnet, *own = getenv("NCCL_SOCKET_IFNAME");
    /* PRRTE before 3.0.9 does not find the subnet of an interface that has several addresses. */
    if (job->mpi_major >= 5 && names.n > 0) runtime = words_join(&job->start, &names, ",");
    mpi_runtime_flag(job, "oob_tcp_if_include", "prte_if_include", runtime);
    words_add_list(&job->mpi_flags, "--mca", "btl_tcp_if_include", job->subnet, NULL);
    /* NCCL takes names, not subnets; = requests an exact match. */
    if (own && *own) {
        /* The user's. */
    } else if (names.n == 1 ||
               strcmp(job->options.launcher, "srun") == 0) { /* srun has one environment for all */
        if (names.n > 0)
            env_default(job, "NCCL_SOCKET_IFNAME",
                        start_text(job, "=%s", words_join(&job->start, &names, ",")));
    } else
        for (int i = 0; names.n > 1 && i < job->n_nodes; i++)
            words_add_list(&job->nodes[i].flags, "-x",
                           start_text(job, "NCCL_SOCKET_IFNAME==%s", job->nodes[i].interface), NULL);
    words_free(&names);
}

/* ---- Daemons ---- */
/* Daemons are started through the tree if every host has setup_ssh.sh's configuration, otherwise from here, at most 128 logins at a
 * time. */
static void add_spawn_flags(job_t *job)
{
    if (job->how != BY_SSH) return;
    mpi_runtime_flag(job, "plm_rsh_args", "plm_ssh_args", words_join(&job->start, &job->ssh, " "));
    if (!job->options.tree_spawn || job->ssh_own_config || (job->n_nodes > 64 && !job->ssh_all_ways)) {
        mpi_runtime_flag(job, "plm_rsh_no_tree_spawn", "plm_ssh_no_tree_spawn", "1");
        mpi_runtime_flag(job, "plm_rsh_num_concurrent", "plm_ssh_num_concurrent", "128");
    }
}

/* Makes mpirun notice a host that is lost after 10 s at most, while a link that is cut for 5 s does no harm. By default it takes 8 minutes,
 * or --timeout. */
static void add_keepalive_flags(job_t *job)
{
    static const char *const settings[][2] = {
        {"oob_tcp_keepalive_time", "2"}, {"oob_tcp_keepalive_intvl", "2"}, {"oob_tcp_keepalive_probes", "4"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *name = settings[i][0];
        if (!getenv(start_text(job, "OMPI_MCA_%s", name)) && !getenv(start_text(job, "PRTE_MCA_%s", name)))
            mpi_runtime_flag(job, name, name, settings[i][1]);
    }
}

static int compare_labels(const void *first, const void *second)
{
    const char *a = *(const char *const *)first, *b = *(const char *const *)second;
    const size_t n_a = strcspn(a, "."), n_b = strcspn(b, ".");
    const int order = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return order ? order : (n_a > n_b) - (n_a < n_b);
}

/* OpenMPI takes hosts for the same whose names are alike up to the first dot. */
static void add_name_flags(job_t *job)
{
    words_t names = {0};
    net_t address;
    bool are_alike = false;
    for (int i = 0; i < job->n_nodes; i++)
        if (!net_read(job->nodes[i].alias, -1, &address)) words_add(&names, job->nodes[i].alias);
    if (names.n > 1) qsort(names.at, (size_t)names.n, sizeof *names.at, compare_labels);
    for (int i = 1; i < names.n; i++) are_alike |= compare_labels(&names.at[i - 1], &names.at[i]) == 0;
    if (are_alike) mpi_runtime_flag(job, "orte_keep_fqdn_hostnames", "prte_keep_fqdn_hostnames", "1");
    words_free(&names);
}

err_t network_choose(job_t *job)
{
    for (int i = 0; i < job->n_nodes; i++) job->nodes[i].interface = NULL;
    if (job->options.checks) {
        TRY(choose_interface(job));
        TRY(choose_transport(job));
    } else {
        const char *interface = job->options.interface;
        if (!interface || !find_transport(job->options.transport, &job->transport))
            RAISE(ERR_USAGE, "--no-checks with several hosts requires --interface and --transport");
        job->subnet = interface;
        /* A name is the same on all hosts; a subnet may not be. */
        for (int i = 0; !strchr(interface, '/') && i < job->n_nodes; i++) job->nodes[i].interface = interface;
    }
    add_spawn_flags(job);
    /* A rank of OpenMPI 5 that loses its connection to another ends the job. If it waits a second, mpirun hears of the lost rank
     * before. */
    if (job->mpi_major >= 5) words_add_list(&job->mpi_flags, "--mca", "opal_abort_delay", "1", NULL);
    if (job->supervisor) add_keepalive_flags(job);
    add_name_flags(job);
    add_interface_flags(job);
    add_transport_flags(job);
    return ERR_OK;
}

/* ---- Ports ---- */
static bool has_other_ports(const job_t *job, const answer_t *answer)
{
    return answer->port_low >= 0 && answer->port_high >= 0 &&
           (answer->port_low < job->low_port || answer->port_high > job->high_port);
}

/* Each rank listens on one port. mpirun uses every port that it is given, so it gets a few separate ones, the last. NCCL has no
 * setting: it uses the system's ephemeral range. */
err_t network_ports(job_t *job)
{
    const int low = job->low_port, high = job->high_port, n_all = high - low + 1;
    const int n_own = n_all < 8 ? 1 : n_all < 64 ? n_all / 4 : 16, n = n_all - n_own;
    const answer_t *first = NULL;
    int most = job->n_nodes > 0 ? 0 : job->np, n_like = 0;
    for (int i = 0; i < job->n_nodes; i++)
        if (job->nodes[i].ranks > most) most = job->nodes[i].ranks;
    if (most > n)
        RAISE(ERR_USAGE,
              "--ports %d-%d: %d ports for %d ranks of a host, plus %d for mpirun: widen the range", low,
              high, n, most, n_own);
    words_add_list(&job->mpi_flags, "--mca", "btl_tcp_port_min_v4", start_text(job, "%d", low), "--mca",
                   "btl_tcp_port_range_v4", start_text(job, "%d", n), NULL);
    mpi_runtime_flag(job, "oob_tcp_dynamic_ipv4_ports", "oob_tcp_dynamic_ipv4_ports",
                     start_text(job, "%d-%d", low + n, high));
    /* Most hosts are alike: one message for the first and all that are. */
    for (int i = job->n_nodes - 1; i >= 0; i--)
        if (has_other_ports(job, &job->nodes[i].answer)) first = &job->nodes[i].answer;
    for (int i = 0; first && i < job->n_nodes; i++) {
        const answer_t *answer = &job->nodes[i].answer;
        n_like += answer->port_low == first->port_low && answer->port_high == first->port_high;
    }
    for (int i = 0; first && i < job->n_nodes; i++) {
        const answer_t *answer = &job->nodes[i].answer;
        const bool is_like = answer->port_low == first->port_low && answer->port_high == first->port_high;
        if (!has_other_ports(job, answer) || (is_like && answer != first)) continue;
        say(job,
            "%s: NCCL uses the system's ports, %d-%d%s; sysctl net.ipv4.ip_local_port_range='%d %d' limits them",
            job->nodes[i].name, (int)answer->port_low, (int)answer->port_high,
            is_like && n_like > 1
                ? start_text(job, ", as on %d more host%s", n_like - 1, n_like == 2 ? "" : "s")
                : "",
            low, high);
    }
    return ERR_OK;
}
