/* SPDX-License-Identifier: MIT */
/* `dptrain check`: verifies hosts, GPUs, network and folders before a job starts. Each check of a table
 * reports lines about a rank, a host or the whole job; at the end rank 0 gathers and shows them.
 *
 * A finding is a line and never ends the job. If one rank can fail alone in a Collective check, ranks
 * comm_agree before the next collective, so that no rank waits for a missing one. */
#ifndef TOOLS_CHECK_CHECK_H
#define TOOLS_CHECK_CHECK_H

#include <sched.h>

#include "cluster/session/runtime.h"
#include "text/opt.h"

/* In ascending order of severity. */
typedef enum check_status { CHECK_OK, CHECK_SKIP, CHECK_WARN, CHECK_FAIL } check_status_t;
extern const char *const check_status_names[]; /* "ok", "skip", "warn", "fail" */

typedef struct check_options {
    const char *only, *skip, *json, *data, *config, *shared, *out;
    const char *ports, *reach, *expect_transport, *infiniband, *profile, *write_profile;
    const char *history, *drain_command;
    int64_t level, shared_bytes, expect_gpus, expect_cpus;
    double burn_in_sec, expect_gbps, expect_busbw, shared_timeout_sec, smi_timeout_sec;
    bool list, strict, content, allow_busy;
    runtime_options_t runtime;
} check_options_t;

enum { CHECK_N_GROUPS = 3 };
/* Binds the option groups to `options` and sets defaults. */
err_t check_options_bind(check_options_t *options, opt_group_t groups[CHECK_N_GROUPS]);
/* Call after parsing, before MPI. ERR_USAGE: an unknown name in --only or --skip, or invalid --ports. */
err_t check_options_check(const check_options_t *options);
/* Warns of options that change nothing in this run. */
void check_options_warn_idle(const check_options_t *options, const opt_group_t groups[CHECK_N_GROUPS]);
/* Whether --only and --skip leave the check of this name. */
bool check_is_chosen(const check_options_t *options, const char *name);

/* The place of a rank. Hosts with the same name (a fault, or --ranks-per-host) are numbered "name#1". */
typedef struct check_rank {
    int host, local_rank;
    int twin; /* 1, 2, …: number among hosts with the same name; 0: the name is unique */
    char host_name[TOPO_HOST_MAX + 8];
    cpu_set_t cpus; /* that it may use; empty: unknown, as where the kernel has more CPUs than a set */
} check_rank_t;

/* What the network interface of this host and its TCP have counted; -1: unknown. */
typedef struct net_counters {
    char interface[16];
    int64_t packets, errors, dropped; /* of the interface, both ways */
    int64_t segments, again;          /* sent by TCP; of these, sent again */
} net_counters_t;

/* Whether two hosts can connect: the second to the first, or the first to the second, too or alone. */
typedef enum check_path { CHECK_NO_PATH, CHECK_PATH_THERE, CHECK_PATH_BACK } check_path_t;

typedef struct check {
    const check_options_t *options;
    comm_t *comm;
    check_rank_t *ranks; /* [comm->size], the same on all ranks */
    int host;            /* of this rank, 0 … n_hosts - 1 */
    int n_hosts;
    const backend_t *backend;             /* of this rank, open; NULL: see why_no_backend */
    const backend_device_t *device;       /* this rank's GPU; NULL for host backends */
    char why[BACKEND_WHY_MAX];            /* why --device auto chose no better backend; "" */
    char why_no_backend[ERR_MESSAGE_MAX]; /* reported by gpu.c */
    int n_devices;         /* ranks with a GPU; the same on all ranks. comm_use_device has not been called */
    bool unreached;        /* the check `reach` found hosts that do not reach each other */
    check_path_t *to_root; /* [n_hosts]: between each and rank 0's; NULL: both ways */
    double link_bits_per_sec; /* the slowest negotiated rate of the hosts' links; 0: unknown */
    net_counters_t counters;  /* before the network was used */
    const char *current;      /* name of the running check */
    char *text;               /* packed lines of this rank; see lines.h */
    size_t n_text;
    err_t status; /* of allocating `text` */
} check_t;

/* The subject of a line. */
typedef enum check_scope { CHECK_RANK, CHECK_HOST, CHECK_JOB } check_scope_t;
typedef struct check_where {
    check_scope_t scope;
    int index;   /* of the rank or the host */
    bool speaks; /* false: the calling rank's line is dropped */
} check_where_t;

/* This rank; this host, reported by its local rank 0; the whole job, reported by rank 0. */
check_where_t check_rank(const check_t *check);
check_where_t check_host(const check_t *check);
check_where_t check_job(const check_t *check);
check_where_t check_other_host(int host);

const char *check_host_name(const check_t *check, int host);
/* Sets out[n_hosts] to the first rank of each host. */
void check_leaders(const check_t *check, int *out);

/* Adds a line. Not collective. Texts are copied. Lines with equal texts become one row, so do not name this
 * rank or host in them.
 *
 *   name    a word or two: "driver", "free memory"
 *   advice  what to do; ignored, and may be NULL, for CHECK_OK and CHECK_SKIP
 *   format  the finding: one line of about 40 characters, without a full stop */
void check_line(check_t *check, check_where_t where, const char *name, check_status_t status,
                const char *advice, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* The same for a measured value that varies between hosts: CHECK_OK lines become one row that shows the
 * worst and the best value. */
typedef struct check_value {
    double value;
    bool less; /* smaller values are better, as of times */
} check_value_t;
static inline check_value_t check_more(double value)
{
    return (check_value_t){value, false};
}
static inline check_value_t check_less(double value)
{
    return (check_value_t){value, true};
}
void check_measured(check_t *check, check_where_t where, const char *name, check_status_t status,
                    const char *advice, check_value_t value, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

/* ---- Facts ----
 * Properties of hosts, which rank 0 judges when all checks have run: against the other hosts, the profile (--profile), and
 * the options --expect-…. */
typedef enum check_rule {
    CHECK_FINDING, /* no fact: a line that was judged where it was found */
    CHECK_SAME,    /* of the job, to be the same on all hosts: a profile does not have it */
    CHECK_EQUAL,   /* of the machine, to be the same on all hosts; the minority is named */
    CHECK_SPEED,   /* more is better: CHECK_SLOW below the others is a warning, CHECK_SLOWER a failure */
} check_rule_t;
#define CHECK_SLOW   0.05
#define CHECK_SLOWER 0.15

typedef struct check_fact {
    const char *name, *advice;
    /* What is compared with its equals: one of several facts of this name, such as a library, whose equal ones then
     * share a row; of a speed, the kind of hardware. "": the only one. */
    const char *item;
    check_rule_t rule;
    check_status_t
        unequal; /* of CHECK_SAME and CHECK_EQUAL: the status of hosts that differ; CHECK_OK: they may */
    check_status_t alone; /* of itself, where all hosts are alike: a limit that is too low everywhere */
    double value;         /* NAN: the text is compared */
    double tolerance;     /* relative difference up to which values are equal; in profiles too */
} check_fact_t;

/* Adds a fact. Texts are copied.
 *
 *   format  the value, with its unit. "": none; where no host has one the fact is skipped */
void check_fact(check_t *check, check_where_t where, const check_fact_t *fact, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Texts of this host: CHECK_SAME, CHECK_EQUAL.
 *
 *   text  NULL: this host does not take part, for a reason reported elsewhere */
void check_same(check_t *check, const char *name, check_status_t unequal, const char *advice,
                const char *text);
void check_equal(check_t *check, const char *name, check_status_t unequal, const char *advice,
                 const char *text);

/* One check. A Collective one runs on all ranks and returns an error that all ranks agreed on, or one that
 * ended communication. Any other error concerns this rank alone and becomes a failing line named "error".
 * Errors mean that the check could not do its work; findings are lines. */
typedef struct check_case {
    const char *name, *what; /* "shared", "the shared folder is the same on all hosts, and fast" */
    bool collective;
    err_t (*run)(check_t *check);
} check_case_t;

extern const check_case_t *const check_cases[]; /* in running order, NULL-terminated */

/* Whether a status prevents the verdict "ready". */
bool check_prevents(const check_t *check, check_status_t status);

/* Not collective, instead of check_run, without MPI: --reach, on each of the hosts of the list at the same time. Listens, connects
 * to all others, prints a line for each that cannot be reached. ERR_GATE: there are some. ERR_USAGE: this host is not in the list. */
err_t check_reach_alone(const check_options_t *options);

/* Prints the table of checks. */
err_t check_print_list(void);

/* Collective. Runs the selected checks; rank 0 prints the table and writes --json. ERR_GATE on all ranks if a
 * line failed or, with --strict, is a warning. */
err_t check_run(const check_options_t *options, void (*abort_job)(err_t code));

#endif
