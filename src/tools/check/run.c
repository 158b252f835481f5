/* SPDX-License-Identifier: MIT */
/* Runs the selected checks, gathers their lines and shows them. The error of a check becomes a line, unless
 * communication was lost. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/hosts/topo.h"
#include "cluster/watch/watchdog.h"
#include "text/progress.h"
#include "tools/check/lines.h"

/* Number of hosts, up to and including `host`, with the same name as rank r's host. */
static int count_name(const check_t *check, int r, int host)
{
    int n = 0;
    for (int other = 0; other < check->comm->size; other++)
        n += check->ranks[other].local_rank == 0 && check->ranks[other].host <= host &&
             strcmp(check->ranks[other].host_name, check->ranks[r].host_name) == 0;
    return n;
}

static void number_twins(check_t *check)
{
    for (int r = 0; r < check->comm->size; r++)
        if (count_name(check, r, check->n_hosts) > 1)
            check->ranks[r].twin = count_name(check, r, check->ranks[r].host);
    for (int r = 0; r < check->comm->size; r++) {
        check_rank_t *rank = &check->ranks[r];
        size_t n = strlen(rank->host_name);
        if (rank->twin) snprintf(rank->host_name + n, sizeof rank->host_name - n, "#%d", rank->twin);
    }
}

/* Collective. */
static err_t find_ranks(check_t *check)
{
    const topo_t *topo = &check->comm->topo;
    check_rank_t mine = {.host = topo->host, .local_rank = topo->local_rank};
    memcpy(mine.host_name, topo->host_name, sizeof topo->host_name);
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0) CPU_ZERO(&mine.cpus);
    err_t err = mem_new_array(check->comm->size, sizeof *check->ranks, "the hosts of ranks", &check->ranks);
    TRY(comm_agree(check->comm, err, "finding the ranks"));
    TRY(comm_allgather(check->comm, &mine, sizeof mine, check->ranks, "finding the ranks"));
    check->host = topo->host;
    check->n_hosts = topo->n_hosts;
    number_twins(check);
    return ERR_OK;
}

/* Not an error if the backend is not available: the check `gpu` reports it. */
static err_t open_check_backend(check_t *check)
{
    const runtime_options_t *options = &check->options->runtime;
    const backend_t *backend = NULL;
    backend_options_t how = {.n_threads = 1,
                             .local_rank = check->comm->topo.local_rank,
                             .gpus = options->gpus,
                             .workspace_bytes = options->workspace};
    err_t err = backend_find(options->device, &backend, check->why);
    if (err == ERR_OK && backend->open) err = backend->open(&how);
    if (err == ERR_OK) check->backend = backend;
    if (err != ERR_OK) snprintf(check->why_no_backend, sizeof check->why_no_backend, "%s", err_message());
    if (err == ERR_OK && backend->device) check->device = backend->device();
    int32_t n = check->device != NULL;
    TRY(comm_allreduce(check->comm, &n, 1, DTYPE_I32, COMM_SUM, "counting GPUs"));
    check->n_devices = n;
    return ERR_OK;
}

static err_t run_check_case(check_t *check, const check_case_t *c)
{
    comm_t *comm = check->comm;
    check->current = c->name;
    /* Ranks start each check together, so that a timeout names the check that delays a rank. */
    TRY(comm_agree(comm, ERR_OK, c->name));
    watchdog_phase("check %s", c->name);
    if (check->unreached && c->collective) {
        /* MPI would end the job where it cannot connect. */
        check_line(check, check_job(check), "all", CHECK_SKIP, NULL, "not all hosts reach each other");
        return ERR_OK;
    }
    err_t err = c->run(check);
    if (err == ERR_OK) return ERR_OK;
    if (c->collective && comm->agreed != err) return err;
    check_line(check, c->collective ? check_job(check) : check_rank(check), "error", CHECK_FAIL,
               "the check did not complete; fix the cause that the message names", "%s", err_message());
    return ERR_OK;
}

/* On rank 0: what is opened and read before the checks. */
typedef struct prepared {
    check_profile_t *profile; /* NULL: none */
    int history;              /* -1: none */
} prepared_t;

/* On rank 0. */
static err_t write_profile(const check_t *check, const check_lines_t *facts, bool ready)
{
    const char *path = check->options->write_profile;
    if (!path) return ERR_OK;
    if (ready) return check_profile_write(check, facts, path);
    log_warn("%s is not written: only hosts that are ready have the facts of a profile", path);
    return ERR_OK;
}

/* On rank 0: judges facts, finds the worst status, and shows all. */
static err_t show_results(check_t *check, const prepared_t *prepared, check_lines_t *lines,
                          check_status_t *worst)
{
    check_lines_t facts = {.n = lines->n};
    if (check->comm->rank > 0) return ERR_OK;
    TRY(mem_new_array(lines->n, sizeof *facts.line, "facts", &facts.line));
    memcpy(facts.line, lines->line, (size_t)lines->n * sizeof *facts.line);
    err_t err = check_facts_judge(check, prepared->profile, lines);
    for (int64_t i = 0; i < lines->n; i++)
        if (lines->line[i].status > *worst) *worst = lines->line[i].status;
    const bool is_judged = err == ERR_OK;
    if (is_judged && prepared->history >= 0 && check_history_read(check, prepared->history, lines) != ERR_OK)
        log_warn("earlier checks are not shown: %s", err_message());
    if (err == ERR_OK) err = check_show_table(check, lines);
    if (err == ERR_OK && check->options->json) err = check_show_json(check, lines, check->options->json);
    if (err == ERR_OK) err = write_profile(check, &facts, !check_prevents(check, *worst));
    mem_free(&facts.line);
    if (is_judged) check_after(check, lines, prepared->history);
    return err;
}

/* On rank 0, before the check begins. */
static void say_check(const check_t *check, int i, int n, const char *name)
{
    if (check->comm->rank > 0) return;
    if (progress_wants_lines()) print_out("checking %s (%d of %d)\n", name, i + 1, n);
    progress_draw("checking", i, n, name);
    fflush(stdout);
}

static err_t run_chosen(check_t *check)
{
    int n = 0, done = 0;
    for (int i = 0; check_cases[i]; i++) n += check_is_chosen(check->options, check_cases[i]->name);
    for (int i = 0; check_cases[i]; i++) {
        if (!check_is_chosen(check->options, check_cases[i]->name)) continue;
        say_check(check, done++, n, check_cases[i]->name);
        TRY(run_check_case(check, check_cases[i]));
    }
    if (check->comm->rank == 0) progress_clear_line();
    return ERR_OK;
}

static err_t run_checks(check_t *check, const prepared_t *prepared)
{
    check_lines_t lines;
    check_status_t worst = CHECK_OK;
    TRY(run_chosen(check));
    TRY(check_lines_gather(check, &lines));
    err_t err = comm_agree(check->comm, show_results(check, prepared, &lines, &worst), "writing the results");
    check_lines_free(&lines);
    TRY(err);
    int32_t result = worst;
    TRY(comm_broadcast(check->comm, &result, sizeof result, 0, "the result"));
    /* The table shows why. */
    bool ready = !check_prevents(check, (check_status_t)result);
    return comm_agree(check->comm, ready ? ERR_OK : ERR_GATE, "the result");
}

static err_t prepare_target(const char *path)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    if (!path) return ERR_OK;
    TRY(fs_temp_path(path, folder, temp));
    TRY(fs_make_folder(folder));
    return fs_check_writable(folder);
}

/* On rank 0, before the checks: files that would fail after them. */
static err_t prepare_files(const check_t *check, prepared_t *out)
{
    const check_options_t *o = check->options;
    if (check->comm->rank > 0) return ERR_OK;
    TRY(prepare_target(o->json));
    TRY(prepare_target(o->write_profile));
    if (o->profile) TRY(check_profile_read(o->profile, &out->profile));
    return check_after_prepare(check, &out->history);
}

static const check_t *_Atomic running;
static void (*abort_hook)(err_t code);

/* Ends the job in the midst of a check, such as where a wait expires: what this rank has found so far may be the cause. */
static void abort_telling(err_t code)
{
    check_lines_t lines = {0};
    const check_t *check = running;
    const check_status_t least = check && check->comm->rank == 0 ? CHECK_WARN : CHECK_FAIL;
    running = NULL;
    if (!check && code == ERR_PEER && log_speaks())
        log_note(
            "if hosts do not reach each other, scripts/cluster_health.sh HOSTS names the pairs, without MPI");
    if (check && check_lines_copy(check, &lines) != ERR_OK) lines.n = 0;
    for (int64_t i = 0; i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        if (line->rule != CHECK_FINDING || line->status < least) continue;
        log_rank_warn("found before the end: %s%s%s, %s: %s",
                      line->scope == CHECK_HOST ? check_host_name(check, line->index) : "",
                      line->scope == CHECK_HOST ? ": " : "", line->check, line->name, line->found);
    }
    abort_hook(code);
}

err_t check_run(const check_options_t *options, void (*abort_job)(err_t code))
{
    check_t check = {.options = options};
    runtime_t runtime;
    prepared_t prepared = {.history = -1};
    abort_hook = abort_job;
    err_t err = runtime_open_comm(&options->runtime, abort_telling, &runtime);
    check.comm = runtime.comm;
    if (err == ERR_OK) err = comm_agree(check.comm, prepare_files(&check, &prepared), "opening files");
    if (err == ERR_OK) err = find_ranks(&check);
    if (err == ERR_OK) err = open_check_backend(&check);
    runtime.backend = check.backend;
    running = err == ERR_OK ? &check : NULL;
    if (err == ERR_OK) err = run_checks(&check, &prepared);
    running = NULL;
    mem_free(&check.text);
    mem_free(&check.ranks);
    mem_free(&check.to_root);
    check_profile_free(&prepared.profile);
    if (prepared.history >= 0) close(prepared.history);
    /* The table shows what failed. */
    runtime_close(&runtime, err == ERR_GATE ? ERR_OK : err);
    return err;
}
