/* SPDX-License-Identifier: MIT */
/* Which way data takes between hosts. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_TRANSPORT_H
#define TOOLS_CHECK_TRANSPORT_H

#include "cluster/comm/debug_log.h"
#include "tools/check/check.h"
#include "tools/check/fabric.h"

/* For --expect-transport, NULL-terminated: "efa", "ib" (RoCE, too), "tcp". */
extern const char *const transport_names[];

/* What one host knows after a transfer. */
typedef struct transport_facts {
    const char *who;  /* "MPI", "NCCL" */
    const char *says; /* what the library's own parts or log tell: "tcp"; "": nothing */
    fabric_use_t use;
    const fabric_t *fabric;
    const char *expected; /* one of transport_names, or NULL */
} transport_facts_t;

/* Whether the use is what the name stands for. */
bool transport_is(const char *name, fabric_kind_t kind);

/* By NCCL's log alone: "NET/IB/GDRDMA" and "Socket". False: it tells nothing of a way between hosts. With
 * aws-ofi-nccl the network is called "Libfabric" or "AWS Libfabric", and taken for EFA. */
bool transport_of_log(const debug_facts_t *log, fabric_kind_t *kind);

/* Say lines about this host. */
void transport_judge_devices(check_t *check, const fabric_t *fabric, const char *expected);
void transport_judge(check_t *check, const transport_facts_t *facts);

#endif
