/* SPDX-License-Identifier: MIT */
/* Findings about the transport in use: whether it is the expected or the fastest one, and how to select
 * another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/transport.h"

const char *const transport_names[] = {"efa", "ib", "tcp", NULL};

bool transport_is(const char *name, fabric_kind_t kind)
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
