/* SPDX-License-Identifier: MIT */
/* The check `transport`: sends data through MPI and NCCL while watching library logs and counters of ports, of bytes and of errors. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/collective.h"
#include "cluster/comm/device.h"
#include "tools/check/cases.h"
#include "tools/check/network.h"

/* ---- Ports and byte counters of network devices (InfiniBand, RoCE, EFA, Ethernet), from sysfs ---- */
const char *const fabric_kind_names[FABRIC_KINDS] = {"TCP", "InfiniBand", "RoCE", "EFA"};

/* InfiniBand counts 4-byte units: "port_xmit_data: octets divided by 4" (specification, PortCounters). */
enum { IB_UNIT = 4 };

static bool read_word(const char *folder, const char *file, char *out, size_t n_bytes)
{
    char path[FS_PATH_MAX];
    out[0] = '\0';
    return fs_join(path, folder, file) == ERR_OK && fs_read_line(path, out, n_bytes);
}

/* The last component of a link's target. */
static void read_link(const char *folder, const char *file, char *out, size_t n_bytes)
{
    char path[FS_PATH_MAX], to[FS_PATH_MAX];
    ssize_t n = fs_join(path, folder, file) == ERR_OK ? readlink(path, to, sizeof to - 1) : 0;
    to[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(to, '/');
    snprintf(out, n_bytes, "%.*s", (int)n_bytes - 1, slash ? slash + 1 : to);
}

/* To the kernel, an EFA is an InfiniBand device with a special link layer. */
static fabric_kind_t port_kind(const char *device, const char *port, const char *driver)
{
    char vendor[16], layer[32];
    if (strcmp(driver, "efa") == 0) return FABRIC_EFA;
    if (read_word(device, "device/vendor", vendor, sizeof vendor) && strcmp(vendor, "0x1d0f") == 0)
        return FABRIC_EFA;
    read_word(port, "link_layer", layer, sizeof layer);
    return strcmp(layer, "Ethernet") == 0 ? FABRIC_ROCE : FABRIC_IB;
}

static void add_port(const char *device, const char *name, const char *number, fabric_t *out)
{
    char ports[FS_PATH_MAX], port[FS_PATH_MAX], state[32];
    if (out->n == FABRIC_MAX || fs_join(ports, device, "ports") != ERR_OK ||
        fs_join(port, ports, number) != ERR_OK)
        return;
    fabric_port_t *p = &out->port[out->n++];
    *p = (fabric_port_t){0};
    snprintf(p->name, sizeof p->name, "%.32s:%.8s", name, number);
    read_link(device, "device/driver", p->driver, sizeof p->driver);
    p->kind = port_kind(device, port, p->driver);
    /* "4: ACTIVE" */
    p->active = read_word(port, "state", state, sizeof state) && strstr(state, "ACTIVE");
    int64_t words = fs_read_count(port, "counters/port_xmit_data");
    p->sent = words < 0 ? -1 : IB_UNIT * words;
    if (p->kind == FABRIC_EFA) p->sent = fs_read_count(port, "hw_counters/tx_bytes");
}

static void add_net_device(const char *device, const char *name, fabric_t *out)
{
    char state[32];
    if (out->n == FABRIC_MAX || strcmp(name, "lo") == 0) return;
    fabric_port_t *p = &out->port[out->n++];
    *p = (fabric_port_t){.kind = FABRIC_TCP};
    snprintf(p->name, sizeof p->name, "%.40s", name);
    read_link(device, "device/driver", p->driver, sizeof p->driver);
    read_word(device, "operstate", state, sizeof state);
    p->active = strcmp(state, "down") != 0;
    p->sent = fs_read_count(device, "statistics/tx_bytes");
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void each_port(const char *device, const char *name, fabric_t *out)
{
    char folder[FS_PATH_MAX];
    struct dirent **entries;
    if (fs_join(folder, device, "ports") != ERR_OK) return;
    int n = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        add_port(device, name, entries[i]->d_name, out);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

static void each_device(const char *folder, void (*add)(const char *device, const char *name, fabric_t *out),
                        fabric_t *out)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char device[FS_PATH_MAX];
        if (fs_join(device, folder, entries[i]->d_name) == ERR_OK) add(device, entries[i]->d_name, out);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

void fabric_read(const char *infiniband, const char *net, fabric_t *out)
{
    out->n = 0;
    each_device(infiniband, each_port, out);
    each_device(net, add_net_device, out);
}

static int64_t bytes_moved(const fabric_t *before, const fabric_port_t *after)
{
    for (int i = 0; i < before->n; i++)
        if (strcmp(before->port[i].name, after->name) == 0 && before->port[i].sent >= 0 && after->sent >= 0)
            return after->sent - before->port[i].sent;
    return 0;
}

fabric_use_t fabric_compare(const fabric_t *before, const fabric_t *after, int64_t n_bytes, bool sockets)
{
    static const fabric_kind_t order[] = {FABRIC_TCP, FABRIC_IB, FABRIC_ROCE, FABRIC_EFA, FABRIC_TCP};
    int64_t sums[FABRIC_KINDS] = {0};
    fabric_use_t use = {0};
    for (int i = 0; i < after->n; i++) sums[after->port[i].kind] += bytes_moved(before, &after->port[i]);
    for (int i = sockets ? 0 : 1; i < 5 && !use.known; i++) {
        use.known = sums[order[i]] >= n_bytes / 10 * 8;
        use.kind = order[i];
    }
    for (int i = 0; use.known && i < after->n; i++) {
        const fabric_port_t *p = &after->port[i];
        size_t used = strlen(use.names);
        /* Ports with a share of the transfer; the others carried only background traffic. */
        if (p->kind != use.kind || bytes_moved(before, p) < n_bytes / 20) continue;
        if (used + strlen(p->name) + 3 < sizeof use.names)
            snprintf(use.names + used, sizeof use.names - used, "%s%s", used ? ", " : "", p->name);
    }
    return use;
}

/* ---- Errors and rates of ports ---- */
/* Those that show what a link loses. port_xmit_wait only means that others wait, and out_of_sequence grows with adaptive routing.
 * `grew` judges growth during a transfer of seconds. */
enum { LINK_DOWNED = 0 };
static const struct {
    const char *file, *what;
    check_status_t grew;
} counters[FABRIC_COUNTERS] = {
    [LINK_DOWNED] = {"counters/link_downed", "link losses", CHECK_FAIL},
    {"counters/link_error_recovery", "link recoveries", CHECK_FAIL},
    {"counters/port_rcv_errors", "corrupt packets", CHECK_FAIL},
    {"counters/local_link_integrity_errors", "integrity errors", CHECK_FAIL},
    {"counters/symbol_error", "symbol errors", CHECK_WARN},
    {"counters/excessive_buffer_overrun_errors", "buffer overruns", CHECK_WARN},
    {"counters/port_xmit_discards", "discarded packets", CHECK_WARN},
    {"hw_counters/packet_seq_err", "retransmissions", CHECK_WARN},
    {"hw_counters/local_ack_timeout_err", "timeouts", CHECK_WARN},
};

void fabric_health_read(const char *infiniband, const fabric_t *fabric, fabric_health_t *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < fabric->n; i++) {
        const fabric_port_t *p = &fabric->port[i];
        char folder[FS_PATH_MAX], rate[32];
        const char *colon = strrchr(p->name, ':');
        for (int k = 0; k < FABRIC_COUNTERS; k++) out->count[i][k] = -1;
        if (p->kind == FABRIC_TCP || !colon ||
            snprintf(folder, sizeof folder, "%s/%.*s/ports/%s", infiniband, (int)(colon - p->name), p->name,
                     colon + 1) >= (int)sizeof folder)
            continue;
        for (int k = 0; k < FABRIC_COUNTERS; k++) out->count[i][k] = fs_read_count(folder, counters[k].file);
        /* "400 Gb/sec (4X NDR)" */
        if (p->active && read_word(folder, "rate", rate, sizeof rate)) out->rate[i] = strtod(rate, NULL);
    }
}

void fabric_rates(const fabric_t *fabric, const fabric_health_t *health, char *out, size_t n_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < fabric->n; i++) {
        int n = 0;
        bool first = true;
        for (int k = 0; k < fabric->n; k++) {
            if (health->rate[k] != health->rate[i]) continue;
            n++;
            first &= k >= i;
        }
        if (first && health->rate[i] > 0 && used < n_bytes)
            used += (size_t)snprintf(out + used, n_bytes - used, "%s%d x %g", used ? ", " : "", n,
                                     health->rate[i]);
    }
    if (used > 0 && used < n_bytes) snprintf(out + used, n_bytes - used, " Gbit/s");
}

void fabric_judge_errors(check_t *check, const fabric_t *fabric, const fabric_health_t *before,
                         const fabric_health_t *after)
{
    static const char advice[] =
        "clean or replace cable and transceiver, and look at the switch's port (ibdiagnet, ethtool -S); if "
        "only the switch was restarted, reset the counts (perfquery -R)";
    check_where_t where = check_host(check);
    int n_bad = 0, n_counted = 0;
    int64_t total = 0;
    for (int i = 0; i < fabric->n; i++) {
        char found[120] = "";
        check_status_t worst = CHECK_OK;
        for (int k = 0; k < FABRIC_COUNTERS; k++) {
            int64_t was = before->count[i][k], grew = after && was >= 0 ? after->count[i][k] - was : 0;
            size_t used = strlen(found);
            n_counted += was >= 0;
            if (was > 0) total += was;
            if (grew <= 0) continue;
            if (counters[k].grew > worst) worst = counters[k].grew;
            snprintf(found + used, sizeof found - used, "%s%s +%" PRId64, used ? ", " : "", counters[k].what,
                     grew);
        }
        const fabric_port_t *p = &fabric->port[i];
        if (worst > CHECK_OK)
            check_line(check, where, "port errors", worst, advice, "%s: %s", p->name, found);
        else if (p->active && before->count[i][LINK_DOWNED] > 0)
            check_line(check, where, "port errors", CHECK_WARN, advice,
                       "%s: link losses since boot: %" PRId64, p->name, before->count[i][LINK_DOWNED]);
        else
            continue;
        n_bad++;
    }
    if (n_bad == 0 && n_counted > 0)
        check_measured(check, where, "port errors", CHECK_OK, NULL, check_less((double)total),
                       "%" PRId64 " since boot%s", total, after ? ", none during the test" : "");
}

/* ---- Judging: whether the transport is the expected or the fastest one, and how to select another ---- */
const char *const transport_names[] = {"efa", "ib", "tcp", NULL};

/* Whether `name` covers this kind of port. */
static bool transport_is(const char *name, fabric_kind_t kind)
{
    switch (kind) {
    case FABRIC_EFA:
        return strcmp(name, "efa") == 0;
    case FABRIC_IB:
    case FABRIC_ROCE:
        return strcmp(name, "ib") == 0;
    default:
        return strcmp(name, "tcp") == 0;
    }
}

bool transport_of_log(const debug_facts_t *log, fabric_kind_t *kind)
{
    const char *way = strstr(log->transport, "NET/");
    if (!way) return false;
    if (strncmp(way, "NET/IB", 6) == 0)
        *kind = FABRIC_IB;
    else if (strncmp(way, "NET/Socket", 10) == 0)
        *kind = FABRIC_TCP;
    else if (strstr(way, "Libfabric") || strstr(log->network, "Libfabric"))
        *kind = FABRIC_EFA;
    else
        return false;
    return true;
}

/* How to make a library use a transport. */
static const char *advice_for(const char *library, const char *name)
{
    bool nccl = strcmp(library, "NCCL") == 0;
    if (strcmp(name, "efa") == 0)
        return nccl ? "run.sh --transport efa: aws-ofi-nccl on LD_LIBRARY_PATH, FI_PROVIDER=efa; "
                      "NCCL_DEBUG=INFO shows why it is not used"
                    : "run.sh --transport efa: mpirun --mca pml cm --mca mtl ofi -x FI_PROVIDER=efa with the "
                      "MPI and libfabric of the EFA installer; fi_info -p efa; a security group that allows "
                      "all traffic to itself; ulimit -l unlimited";
    if (strcmp(name, "ib") == 0)
        return nccl ? "run.sh --transport ib: NCCL_IB_DISABLE unset, NCCL_IB_HCA naming the devices; "
                      "NCCL_DEBUG=INFO shows why they are not used"
                    : "run.sh --transport ib: mpirun --mca pml ucx with an MPI built with UCX; "
                      "UCX_NET_DEVICES=mlx5_0:1; ibv_devinfo; ulimit -l unlimited";
    return nccl ? "run.sh --transport tcp: NCCL_IB_DISABLE=1, NCCL_NET=Socket, NCCL_SOCKET_IFNAME"
                : "run.sh --transport tcp: mpirun --mca pml ob1 --mca btl tcp,vader,self";
}

/* The fastest kind with an active port; false: only Ethernet. */
static bool best_kind(const fabric_t *fabric, fabric_kind_t *kind)
{
    bool any = false;
    for (int i = 0; i < fabric->n; i++) {
        const fabric_port_t *p = &fabric->port[i];
        if (p->kind == FABRIC_TCP || !p->active) continue;
        /* Nearly all Ethernet cards can do RoCE, but few are configured for it. */
        if (!any || p->kind != FABRIC_ROCE) *kind = p->kind;
        any = true;
    }
    return any;
}

/* Lists the ports of a kind, "mlx5_0:1, mlx5_1:1 (down)"; returns the number of active ones. */
static int list_kind(const fabric_t *fabric, fabric_kind_t kind, char *out, size_t n_bytes, int *n)
{
    int n_active = 0;
    size_t used = 0;
    *n = 0;
    out[0] = '\0';
    for (int i = 0; i < fabric->n; i++) {
        const fabric_port_t *p = &fabric->port[i];
        if (p->kind != kind) continue;
        n_active += p->active;
        if (used < n_bytes)
            used += (size_t)snprintf(out + used, n_bytes - used, "%s%s%s", (*n)++ ? ", " : "", p->name,
                                     p->active ? "" : " (down)");
    }
    return n_active;
}

void transport_judge_devices(check_t *check, const fabric_t *fabric, const char *expected)
{
    check_where_t where = check_host(check);
    bool any = false, wanted = false;
    for (int k = FABRIC_IB; k < FABRIC_KINDS; k++) {
        char names[160];
        int n, n_active = list_kind(fabric, (fabric_kind_t)k, names, sizeof names, &n);
        if (n == 0) continue;
        any = true;
        wanted |= expected && n_active > 0 && transport_is(expected, (fabric_kind_t)k);
        /* An unused port is normal; a card without an active port is a fault, unless it is RoCE. */
        check_line(check, where, fabric_kind_names[k],
                   n_active > 0 || k == FABRIC_ROCE ? CHECK_OK : CHECK_WARN,
                   "ports must be ACTIVE: check cable, driver and subnet manager (ibstat)", "%s", names);
    }
    if (expected && strcmp(expected, "tcp") != 0 && !wanted)
        check_line(
            check, where, "device", CHECK_FAIL,
            strcmp(expected, "efa") == 0
                ? "check that the instance has EFA, its driver (lsmod | grep efa) and /dev/infiniband in the "
                  "container"
                : "check driver and subnet manager (ibstat), /dev/infiniband in the container",
            "no active port for --expect-transport %s", expected);
    else if (!any)
        check_line(check, where, "RDMA device", CHECK_SKIP, NULL, "none");
}

static void describe_use(const transport_facts_t *facts, char *out, size_t n_bytes)
{
    const char *reported = facts->reported && facts->reported[0] ? facts->reported : NULL;
    if (facts->use.known)
        snprintf(out, n_bytes, "%s%s%s%s%s%s", fabric_kind_names[facts->use.kind],
                 facts->use.names[0] ? " via " : "", facts->use.names, reported ? " (" : "",
                 reported ? reported : "", reported ? ")" : "");
    else
        snprintf(out, n_bytes, "not seen in any port counter%s%s", reported ? "; it reports " : "",
                 reported ? reported : "");
}

/* Appends settings that may have selected the transport. */
static void add_settings(char *out, size_t n_bytes)
{
    static const char *const names[] = {"OMPI_MCA_pml", "OMPI_MCA_mtl",    "OMPI_MCA_btl", "FI_PROVIDER",
                                        "UCX_TLS",      "UCX_NET_DEVICES", "NCCL_NET",     "NCCL_IB_DISABLE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        size_t used = strlen(out);
        if (value && used < n_bytes) snprintf(out + used, n_bytes - used, "; %s=%s", names[i], value);
    }
}

void transport_judge(check_t *check, const transport_facts_t *facts)
{
    check_where_t where = check_host(check);
    char found[ERR_MESSAGE_MAX];
    fabric_kind_t best = FABRIC_TCP;
    describe_use(facts, found, sizeof found);
    const char *expected = facts->expected;
    if (expected && !(facts->use.known && transport_is(expected, facts->use.kind))) {
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, ", not %s", expected);
        add_settings(found, sizeof found);
        check_line(check, where, facts->name, CHECK_FAIL, advice_for(facts->name, expected), "%s", found);
    } else if (!expected && facts->use.known && facts->use.kind == FABRIC_TCP &&
               best_kind(facts->fabric, &best) && best != FABRIC_ROCE) {
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, ", although %s is available", fabric_kind_names[best]);
        add_settings(found, sizeof found);
        check_line(check, where, facts->name, CHECK_WARN,
                   advice_for(facts->name, best == FABRIC_EFA ? "efa" : "ib"), "%s", found);
    } else {
        check_line(check, where, facts->name, facts->use.known ? CHECK_OK : CHECK_SKIP, NULL, "%s", found);
    }
}

/* ---- The check ---- */
static const char net_folder[] = "/sys/class/net";
static const char what[] = "detecting the transport";

/* Messages grow until the total stands out from other traffic, or enough time has passed. */
enum { FIRST_BYTES = 256 << 10, LAST_BYTES = 8 << 20, ENOUGH_BYTES = 64 << 20 };
static const double enough_sec = 0.3;
/* Some drivers update their counters once a second. */
static const double counters_sec = 2.5;

enum { BUFFER_BYTES = 32 << 20, N_SUMS = 4 };

typedef struct ring {
    comm_t *comm;
    char *send, *recv;
    int n_out; /* ranks of this host that send to another host */
    int64_t sent;
} ring_t;

static int count_out(const check_t *check)
{
    int n = 0, size = check->comm->size;
    for (int r = 0; r < size; r++)
        n += check->ranks[r].host == check->host && check->ranks[(r + 1) % size].host != check->host;
    return n;
}

/* Collective. */
static err_t send_once(ring_t *ring, int64_t n_bytes)
{
    collective_t *call = NULL;
    const collective_spec_t spec = {.kind = COLLECTIVE_SENDRECV,
                                    .type = COLLECTIVE_INT8,
                                    .count = n_bytes,
                                    .send = ring->send,
                                    .recv = ring->recv,
                                    .what = what};
    TRY(comm_agree(ring->comm, collective_new(ring->comm, &spec, &call), what));
    err_t err = collective_run(call);
    collective_free(&call);
    ring->sent += ring->n_out * n_bytes;
    return err;
}

/* Collective. */
static err_t send_round(ring_t *ring)
{
    double start = clock_sec(), took = 0;
    int64_t n_bytes = FIRST_BYTES, total = 0;
    while (total < ENOUGH_BYTES && took < enough_sec) {
        TRY(send_once(ring, n_bytes));
        total += n_bytes;
        if (n_bytes < LAST_BYTES) n_bytes *= 2;
        took = clock_sec() - start;
        TRY(comm_allreduce(ring->comm, &took, 1, DTYPE_F64, COMM_MAX, what));
    }
    return ERR_OK;
}

static void read_fabric(const check_t *check, fabric_t *out)
{
    fabric_read(check->options->infiniband, net_folder, out);
}

/* Waits until a counter shows which ports sent n_bytes since `before`. */
static fabric_use_t find_use(const check_t *check, const fabric_t *before, int64_t n_bytes, bool sockets)
{
    fabric_t after;
    double deadline = clock_sec() + counters_sec;
    fabric_use_t use;
    do {
        read_fabric(check, &after);
        use = fabric_compare(before, &after, n_bytes, sockets);
        if (!use.known) clock_sleep(0.05);
    } while (!use.known && clock_sec() < deadline);
    return use;
}

/* Collective. */
static err_t watch_mpi(check_t *check, const fabric_t *before)
{
    ring_t ring = {.comm = check->comm, .n_out = count_out(check)};
    char reported[64];
    err_t err = mem_new(LAST_BYTES, "a message to the next rank", &ring.send);
    if (err == ERR_OK) err = mem_new(LAST_BYTES, "a message from the previous rank", &ring.recv);
    err = comm_agree(check->comm, err, what);
    if (err == ERR_OK) err = send_round(&ring);
    if (err == ERR_OK && check_host(check).speaks) {
        collective_transport(check->comm, reported, sizeof reported);
        bool sockets = strstr(reported, "tcp") != NULL;
        transport_judge(check, &(transport_facts_t){.name = "MPI",
                                                    .reported = reported,
                                                    .use = find_use(check, before, ring.sent, sockets),
                                                    .fabric = before,
                                                    .expected = check->options->expect_transport});
    }
    mem_free(&ring.send);
    mem_free(&ring.recv);
    return err;
}

/* Collective. */
static err_t sum_on_gpus(check_t *check)
{
    comm_t *comm = check->comm;
    comm_buffer_t buffer = {0};
    int64_t count = BUFFER_BYTES / (int64_t)sizeof(float);
    TRY(comm_buffer_new(comm, BUFFER_BYTES, &buffer));
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < N_SUMS; i++) err = comm_buffer_allreduce(comm, &buffer, count, what);
    if (err == ERR_OK) err = comm_agree(comm, check->backend->memory->sync(), what);
    comm_buffer_free(comm, &buffer);
    return err;
}

/* The kind of port in rank 0's NCCL log, shared by all ranks. */
typedef struct log_kind {
    int32_t known, kind;
} log_kind_t;

static err_t share_log(check_t *check, log_kind_t *out)
{
    debug_facts_t facts;
    fabric_kind_t kind = FABRIC_TCP;
    debug_log_read(&facts);
    *out = (log_kind_t){.known = transport_of_log(&facts, &kind)};
    out->kind = (int32_t)kind;
    return comm_broadcast(check->comm, out, sizeof *out, 0, what);
}

/* Collective, where all ranks have GPUs. */
static err_t watch_nccl(check_t *check)
{
    char reported[160];
    fabric_t before;
    log_kind_t log;
    TRY(runtime_use_device(check->comm, check->backend));
    if (!comm_on_device(check->comm)) {
        check_line(check, check_job(check), "NCCL", CHECK_SKIP, NULL, "gradients go through MPI");
        return ERR_OK;
    }
    read_fabric(check, &before);
    TRY(sum_on_gpus(check));
    TRY(share_log(check, &log));
    if (!check_host(check).speaks) return ERR_OK;
    comm_describe_gradients(check->comm, reported, sizeof reported);
    /* With any algorithm, each host sends the summed data at least once; half of it leaves a margin. */
    bool sockets = log.known && log.kind == FABRIC_TCP;
    fabric_use_t use = find_use(check, &before, (int64_t)N_SUMS * BUFFER_BYTES / 2, sockets);
    if (!use.known && log.known) use = (fabric_use_t){.known = true, .kind = (fabric_kind_t)log.kind};
    transport_judge(check, &(transport_facts_t){.name = "NCCL",
                                                .reported = reported,
                                                .use = use,
                                                .fabric = &before,
                                                .expected = check->options->expect_transport});
    return ERR_OK;
}

static err_t transport_run(check_t *check)
{
    fabric_t before;
    fabric_health_t start, end;
    char rates[96];
    read_fabric(check, &before);
    fabric_health_read(check->options->infiniband, &before, &start);
    transport_judge_devices(check, &before, check->options->expect_transport);
    if (check->n_hosts == 1) {
        fabric_judge_errors(check, &before, &start, NULL);
        check_line(check, check_job(check), "MPI", CHECK_SKIP, NULL, "one host");
        return ERR_OK;
    }
    fabric_rates(&before, &start, rates, sizeof rates);
    check_equal(
        check, "link rates", CHECK_WARN,
        "a port came up at a lower rate, or not at all: look at cable, transceiver and switch (ibstat, ethtool)",
        rates[0] ? rates : NULL);
    TRY(watch_mpi(check, &before));
    if (check->n_devices == check->comm->size) TRY(watch_nccl(check));
    fabric_health_read(check->options->infiniband, &before, &end);
    fabric_judge_errors(check, &before, &start, &end);
    return ERR_OK;
}

const check_case_t check_transport = {"transport", "transport of MPI and NCCL between hosts", true,
                                      transport_run};
