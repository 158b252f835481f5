/* SPDX-License-Identifier: MIT */
/* `dptrain check`: proves hosts, GPUs, network and folders before a job starts. A table of checks; each says
 * lines about a rank, a host or the whole job; at the end rank 0 has all lines and shows them.
 *
 * A check never ends the job for what it finds: that is a line. Where one rank can fail alone in a Collective
 * check, ranks comm_agree before the next collective, so that nobody waits for who is not coming. */
#ifndef TOOLS_CHECK_CHECK_H
#define TOOLS_CHECK_CHECK_H

#include "base/opt.h"
#include "cluster/session/runtime.h"

/* Ascending: the worst of several is the greatest. */
typedef enum check_status { CHECK_OK, CHECK_SKIP, CHECK_WARN, CHECK_FAIL } check_status_t;
extern const char *const check_status_names[]; /* "ok", "skip", "warn", "fail" */

typedef struct check_options {
    const char *only, *skip, *json, *data, *config, *shared, *out;
    const char *ports, *expect_transport, *infiniband;
    int64_t shared_bytes;
    double shared_timeout_sec, smi_timeout_sec;
    bool list;
    runtime_options_t runtime;
} check_options_t;

enum { CHECK_N_GROUPS = 2 };
/* The groups bound to `options`, with defaults set. */
err_t check_options_bind(check_options_t *options, opt_group_t groups[CHECK_N_GROUPS]);
/* After parsing and before MPI: unknown names in --only and --skip are ERR_USAGE. */
err_t check_options_check(const check_options_t *options);

/* Where a rank is. Hosts of the same name (a fault, or --ranks-per-host) are told apart as "name#1". */
typedef struct check_rank {
    int host, local_rank;
    int twin; /* 1 for the first host of a name that several have, 2 for the second …; 0: nobody else has it
               */
    char host_name[TOPO_HOST_MAX + 8];
} check_rank_t;

typedef struct check {
    const check_options_t *options;
    comm_t *comm;
    check_rank_t *ranks; /* [comm->size], the same on all ranks */
    int host;            /* of this rank; its hosts are 0 … n_hosts - 1 */
    int n_hosts;
    /* The backend of this rank, open; NULL: why_no_backend says why there is none, which is gpu.c's to
     * report. device is its GPU, NULL on the host. */
    const backend_t *backend;
    const backend_device_t *device;
    char why[BACKEND_WHY_MAX]; /* why --device auto has no better one; "" */
    char why_no_backend[ERR_MESSAGE_MAX];
    int n_devices;       /* ranks with a GPU; the same on all ranks. comm_use_device has not been called */
    const char *current; /* name of the running check */
    char *text;          /* lines of this rank, packed; see lines.h */
    size_t n_text;
    err_t status; /* of growing it */
} check_t;

/* What a line is about. */
typedef enum check_scope { CHECK_RANK, CHECK_HOST, CHECK_JOB } check_scope_t;
typedef struct check_where {
    check_scope_t scope;
    int index;   /* of the rank or the host */
    bool speaks; /* whether the calling rank's line counts */
} check_where_t;

/* This rank; this host, where only its local rank 0 is heard; the whole job, where only rank 0 is. */
check_where_t check_rank(const check_t *check);
check_where_t check_host(const check_t *check);
check_where_t check_job(const check_t *check);
/* A rank or a host that the caller says something about; the caller sees to it that one rank does. */
check_where_t check_other_rank(int rank);
check_where_t check_other_host(int host);

const char *check_host_name(const check_t *check, int host);

/* Says a line. `name`: a word or two ("driver", "free memory"). advice: what to do; NULL, or not looked at,
 * when ok or skipped. All texts are copied. The format is what was found, one line without a full stop, short
 * (40 characters fit beside the rest). Lines with the same words become one row, so name neither this rank
 * nor its host in it. Not collective. */
void check_line(check_t *check, check_where_t where, const char *name, check_status_t status,
                const char *advice, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* The same for what is measured and differs a little everywhere: lines that are ok become one row from the
 * least value to the greatest. */
void check_measured(check_t *check, check_where_t where, const char *name, check_status_t status,
                    const char *advice, double value, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

/* Collective. Each host's local rank 0 gives a text (cut at 120 bytes): a line about each host, `unequal`
 * where its text is not what most hosts have. "" is none; where all have none, it is skipped. NULL: this host
 * has no part in it (a line of its own has said why). */
err_t check_same(check_t *check, const char *name, check_status_t unequal, const char *advice,
                 const char *text);

/* One check. A Collective one is called on all ranks and returns what all ranks agreed on (or what ended the
 * communication); otherwise an error is this rank's alone and becomes a failing line named "error". Errors
 * are for what the check could not do; what it finds are lines. */
typedef struct check_case {
    const char *name, *what; /* "shared", "the shared folder is shared, fast, writable" */
    bool collective;
    err_t (*run)(check_t *check);
} check_case_t;

extern const check_case_t *const check_cases[]; /* in the order in which they run, ended by NULL */

/* Prints the table of checks. */
err_t check_print_list(void);

/* Collective. Runs what the options choose; rank 0 prints the table and writes --json. ERR_GATE when a line
 * failed, on all ranks. */
err_t check_run(const check_options_t *options, void (*abort_job)(err_t code));

#endif
