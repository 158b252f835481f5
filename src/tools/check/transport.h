/* SPDX-License-Identifier: MIT */
/* The transport that carries data between hosts. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_TRANSPORT_H
#define TOOLS_CHECK_TRANSPORT_H

#include "cluster/comm/nccl_report.h"
#include "tools/check/check.h"
#include "tools/check/fabric.h"

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

/* Whether `name` covers this kind of port. */
bool transport_is(const char *name, fabric_kind_t kind);

/* Derives the kind from NCCL's log: "NET/IB/GDRDMA", "NET/Socket". aws-ofi-nccl calls the network
 * "Libfabric" or "AWS Libfabric", which counts as EFA. False: the log names no transport between hosts. */
bool transport_of_log(const debug_facts_t *log, fabric_kind_t *kind);

/* Add lines about this host. */
void transport_judge_devices(check_t *check, const fabric_t *fabric, const char *expected);
void transport_judge(check_t *check, const transport_facts_t *facts);

#endif
