/* SPDX-License-Identifier: MIT */
/* Prepares a start: hosts, environment, network, command. After a fault, or with --min-ranks, the hosts that can take part are gathered:
 * all are asked side by side, those that do not answer or are not fit are left out for a while, and the job waits while too few are
 * left. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/job.h"
#include "records/record.h"

/* ---- Hosts that are left ---- */
static supervisor_host_t *known_host(supervisor_t *s, const char *name)
{
    for (int i = 0; i < s->n_hosts; i++)
        if (strcmp(s->hosts[i].name, name) == 0) return &s->hosts[i];
    launch_need(mem_grow(s->n_hosts + 1, sizeof *s->hosts, "the job's hosts", &s->hosts));
    s->hosts[s->n_hosts] =
        (supervisor_host_t){.name = job_text(s->job, "%s", name), .n_gpus = -1, .left_out_until = -1};
    return &s->hosts[s->n_hosts++];
}

/* Notes of each host, at its first start, how many GPUs it has and how it calls itself. */
static void note_hosts(job_t *job)
{
    for (int i = 0; i < job->n_nodes && job->supervisor; i++) {
        supervisor_host_t *host = known_host(job->supervisor, job->nodes[i].name);
        if (host->n_gpus >= 0) continue;
        host->n_gpus = job->nodes[i].answer.gpu_cpus.n;
        host->own_name = job_text(job, "%s", job->nodes[i].answer.name);
    }
}

/* How many hosts say the same of NCCL, OpenMPI or the configuration; the first of the most frequent counts. */
static const char *most_say(const job_t *job, const char *same)
{
    const size_t n_name = strcspn(same, " ");
    const char *best = same;
    int most = 0;
    for (int i = 0; i < job->n_nodes; i++)
        for (int k = 0; k < job->nodes[i].answer.same.n; k++) {
            const char *said = job->nodes[i].answer.same.at[k];
            int n = 0;
            if (strncmp(said, same, n_name + 1) != 0) continue;
            for (int j = 0; j < job->n_nodes; j++) n += words_have(&job->nodes[j].answer.same, said);
            if (n > most) most = n, best = said;
        }
    return best;
}

/* Why a host cannot take part, joined by "; "; NULL: it can. `checked`: the check works on some host; without the job's environment the
 * program may not run there at all, and then nothing is known. */
static const char *judge(job_t *job, const node_t *node, const char *hash, bool checked)
{
    const answer_t *a = &node->answer;
    supervisor_t *s = job->supervisor;
    message_t m = {0};
    const char *problems = job->options.checks ? probe_judge(job, node, hash) : NULL;
    if (!problems && !a->complete)
        problems = ask_cause(job, node, node->patience_sec < 0 ? probe_sec() : node->patience_sec);
    if (problems) {
        for (; *problems; problems++) message_append(&m, *problems == '\n' ? "; " : "%c", *problems);
        return start_text(job, "%s", m.text);
    }
    if (a->lacks_data) message_append(&m, "; no data at %s", s->data);
    for (int i = 0; i < a->fails.n; i++) message_append(&m, "; dptrain check: %s", a->fails.at[i]);
    if (a->check > 1 && checked)
        message_append(&m, "; dptrain check ended with code %lld", (long long)a->check);
    for (int i = 0; i < a->same.n; i++) {
        const char *said = a->same.at[i], *most = most_say(job, said);
        const int n = (int)strcspn(said, " ");
        if (strcmp(said, most) != 0)
            message_append(&m, "; %.*s: %s; most hosts have %s", n, said, said + n + 1, most + n + 1);
    }
    const int n_gpus = known_host(s, node->name)->n_gpus;
    if (a->gpu_cpus.n < n_gpus) message_append(&m, "; %d of %d GPUs are left", a->gpu_cpus.n, n_gpus);
    return m.n ? start_text(job, "%s", m.text + 2) : NULL;
}

static void leave_out(job_t *job, const char *name, const char *why)
{
    supervisor_t *s = job->supervisor;
    supervisor_host_t *host = known_host(s, name);
    host->left_out_until = clock_sec() + (double)job->options.cool_down;
    if (host->why && strcmp(host->why, why) == 0) return;
    host->why = job_text(job, "%s", why);
    say(job, "%s is left out for %lld s: %s", name, (long long)job->options.cool_down, why);
    json_t *j = life_begin(&s->life, RECORD_JOB_LEFT_OUT);
    json_string(j, "host", name);
    json_string(j, "reason", why);
    json_int(j, "cool_down_sec", job->options.cool_down);
    life_end(&s->life);
}

/* Asks all hosts; those that the fault has made suspect get less time. */
static err_t ask_fleet(job_t *job)
{
    supervisor_t *s = job->supervisor;
    words_t arguments = {0};
    words_t families = {0};
    for (int i = 0; i < job->n_nodes; i++) {
        node_t *node = &job->nodes[i];
        node->own_name = known_host(s, node->name)->own_name;
        node->patience_sec = hosts_listed(node, &job->suspects) ? 2 : -1;
    }
    for (int i = 0; i < job->families.n; i += 2)
        if (!words_have(&families, job->families.at[i])) words_add(&families, job->families.at[i]);
    words_add_list(&arguments, job->options.checks ? "yes" : "no",
                   start_text(job, "%s%s", job->id, s->earlier_id), words_join(&job->start, &families, " "),
                   job->program, job->wdir, job->prefix ? job->prefix : "", ask_ofi_folders(job), s->folder,
                   s->data ? s->data : "", NULL);
    if (job->device && strcmp(job->device, "auto") != 0)
        words_add_list(&arguments, "--device", job->device, NULL);
    const err_t err = ask_hosts(job, "fleet", &arguments, probe_sec());
    words_free(&arguments);
    words_free(&families);
    job->probed = job->options.checks;
    /* A host that has answered has no daemon of an earlier start any more; a long job would otherwise look for more and more. */
    for (int i = 0; i < job->n_nodes; i++)
        for (int k = 0; k < job->families.n && job->nodes[i].answer.complete;)
            if (strcmp(job->families.at[k + 1], job->nodes[i].name) == 0)
                words_remove(&job->families, k, 2);
            else
                k += 2;
    return err;
}

/* Keeps the hosts that can take part. Says of each other one, once, why it is left out. */
static err_t sift(job_t *job)
{
    const char *hash = "";
    int *fit, n = 0;
    bool checked = false;
    if (job->options.checks) TRY(launch_hash(job, &hash));
    launch_need(arena_new(&job->start, (size_t)(job->n_nodes + 1) * sizeof *fit, &fit));
    for (int i = 0; i < job->n_nodes; i++)
        checked |= job->nodes[i].answer.check >= 0 && job->nodes[i].answer.check <= 1;
    for (int i = 0; i < job->n_nodes; i++) {
        const char *why = judge(job, &job->nodes[i], hash, checked);
        if (why)
            leave_out(job, job->nodes[i].name, why);
        else
            fit[n++] = i;
    }
    hosts_select(job, fit, n);
    return ERR_OK;
}

/* Puts a host first that has the run's folder, and its newest checkpoint: rank 0 resumes there. False, with the reason, if the folder may
 * be on a host that is not left. */
static bool put_folder_first(job_t *job, const char **why)
{
    supervisor_t *s = job->supervisor;
    int best = -1, *order;
    bool is_shared = false;
    for (int i = 0; i < job->n_nodes; i++) {
        const answer_t *a = &job->nodes[i].answer;
        if (a->folder == FOLDER_WITH_RECORDS && (best < 0 || a->newest > job->nodes[best].answer.newest))
            best = i;
        /* The chief's rank 0 would have made the folder. */
        is_shared |= a->folder == FOLDER_OF_JOB || (s->chief && strcmp(job->nodes[i].name, s->chief) == 0);
    }
    if (best < 0) {
        if (is_shared || !s->chief || !s->chief[0]) return true;
        *why = start_text(
            job, "none of them has %s, and %s is not among them; put the folder where all hosts see it",
            s->folder, s->chief);
        return false;
    }
    if (job->nodes[best].answer.newest > s->newest) s->newest = job->nodes[best].answer.newest;
    if (best == 0) return true;
    say(job, "rank 0 moves to %s, which has the newest checkpoint", job->nodes[best].name);
    launch_need(arena_new(&job->start, (size_t)job->n_nodes * sizeof *order, &order));
    order[0] = best;
    for (int i = 0, n = 1; i < job->n_nodes; i++)
        if (i != best) order[n++] = i;
    hosts_select(job, order, job->n_nodes);
    return true;
}

/* The samples of a step are fixed; their number need not divide by that of the ranks. */
static bool training_allows(const supervisor_t *s, int64_t n)
{
    const int64_t group = s->group > 0 ? s->group : 1;
    return (s->shards == 0 || s->shards % n == 0) && (s->global_batch == 0 || s->global_batch / group >= n);
}

/* Which numbers of ranks the training allows. */
static const char *training_rule(job_t *job)
{
    const supervisor_t *s = job->supervisor;
    message_t m = {0};
    if (s->shards == 0)
        return start_text(job, "a batch of %lld samples works on up to %lld ranks",
                          (long long)s->global_batch,
                          (long long)(s->global_batch / (s->group > 0 ? s->group : 1)));
    for (int64_t n = 1; n <= s->shards; n++)
        if (training_allows(s, n)) message_append(&m, " %lld", (long long)n);
    return start_text(job, "--reproducible %lld works on%s ranks", (long long)s->shards, m.text);
}

/* Sets np to the largest number of ranks that the training allows, of those that the hosts have slots for. */
static bool choose_number(job_t *job, int64_t slots, const char **why)
{
    const int64_t wanted = job->options.np, least = job->options.min_ranks;
    const int64_t most = wanted > 0 && wanted < slots ? wanted : slots;
    int64_t n = most;
    while (n > 1 && !training_allows(job->supervisor, n)) n--;
    if (n < least || n < 1) {
        *why = n == most ? start_text(job, "they have slots for %lld ranks, and --min-ranks is %lld",
                                      (long long)slots, (long long)least)
                         : start_text(job, "they have slots for %lld ranks, but %s, and --min-ranks is %lld",
                                      (long long)slots, training_rule(job), (long long)least);
        return false;
    }
    job->np = (int)n;
    if (n != most)
        say(job, "%lld ranks are available, but %s: going on with %lld", (long long)most, training_rule(job),
            (long long)n);
    return true;
}

/* Removes the hosts in their cool-down. */
static void drop_cooling(job_t *job)
{
    int *kept, n = 0;
    launch_need(arena_new(&job->start, (size_t)(job->n_nodes + 1) * sizeof *kept, &kept));
    for (int i = 0; i < job->n_nodes; i++)
        if (known_host(job->supervisor, job->nodes[i].name)->left_out_until <= clock_sec()) kept[n++] = i;
    hosts_select(job, kept, n);
}

/* Asks the hosts once. *why: why they are too few; NULL: they are not. */
static err_t gather_once(job_t *job, bool waiting, const char **why)
{
    int64_t slots = 0;
    *why = "their list cannot be read";
    err_t err = hosts_find(job);
    if (err == ERR_OK) err = hosts_reach(job);
    if (err != ERR_OK) {
        say(job, "the list of hosts cannot be read: %s", err_message());
        return ERR_OK;
    }
    if (!waiting) drop_cooling(job);
    *why = "none of them can take part";
    if (job->n_nodes == 0) return ERR_OK;
    TRY(ask_fleet(job));
    if (signals_pending()) return ERR_OK;
    TRY(sift(job));
    TRY(probe_twins(job));
    if (job->n_nodes == 0 || !put_folder_first(job, why)) return ERR_OK;
    if (job->options.num_gpus == 0) hosts_fill_slots(job);
    for (int i = 0; i < job->n_nodes; i++)
        slots += job->options.num_gpus > 0 ? job->options.num_gpus : job->nodes[i].slots;
    if (choose_number(job, slots, why)) *why = NULL;
    return ERR_OK;
}

/* The same for a job on this machine alone: waits until the check succeeds. */
static err_t check_here(job_t *job, const char **why)
{
    const char *hash;
    node_t here = {
        .name = job->host, .alias = job->host, .is_local = true, .patience_sec = -1, .slots = job->np};
    job->nodes = &here;
    job->n_nodes = 1;
    err_t err = ask_fleet(job);
    if (err == ERR_OK) err = launch_hash(job, &hash);
    if (err == ERR_OK) *why = judge(job, &here, hash, false);
    answer_free(&here.answer);
    job->nodes = NULL;
    job->n_nodes = 0;
    job->probed = false;
    return err;
}

/* Gathers what the job needs for a start. Waits for --wait-hosts if that is too little; a signal ends the wait. */
static err_t gather(job_t *job, bool has_hosts)
{
    supervisor_t *s = job->supervisor;
    const double limit = (double)job->options.wait_hosts;
    bool waiting = false;
    double until = 0;
    if (s->per_rank > 0 && s->first_ranks > 0) s->global_batch = s->per_rank * s->first_ranks;
    for (const char *why;;) {
        /* A wait of hours is not to fill the memory. */
        hosts_clear(job);
        arena_reset(&job->start);
        TRY(has_hosts ? gather_once(job, waiting, &why) : check_here(job, &why));
        if (!why || signals_pending()) break;
        if (!waiting) {
            waiting = true;
            until = clock_sec() + limit;
            if (limit > 0) say(job, "waiting for hosts, for at most %lld s: %s", (long long)limit, why);
            json_t *j = life_begin(&s->life, RECORD_JOB_WAIT);
            json_string(j, "reason", why);
            json_int(j, "min_ranks", job->options.min_ranks);
            life_end(&s->life);
        }
        if (clock_sec() >= until) {
            s->final = has_hosts ? "too few hosts" : "this host is not fit";
            RAISE(ERR_PEER, "no start was possible within %lld s (--wait-hosts): %s", (long long)limit, why);
        }
        launch_nap(1);
    }
    words_free(&job->suspects);
    return ERR_OK;
}

/* ---- The program's words ---- */
/* What a later start changes in them. */
static void change_words(job_t *job)
{
    supervisor_t *s = job->supervisor;
    const char *drop[4] = {0};
    words_t add = {0};
    int n_drop = 0;
    words_free(&job->words);
    if (s->is_own_folder) words_add_list(&add, "--out", s->folder, NULL);
    /* --resume FILE counts until the run has a checkpoint of its own. */
    if (job->is_again && (s->newest >= 0 || opt_is_among(s->resume[0] ? s->resume : "none", "none|auto"))) {
        drop[n_drop++] = "--resume";
        drop[n_drop++] = "--overwrite";
        words_add_list(&add, "--resume", "auto", NULL);
        if (s->overwrites) words_add(&add, "--no-overwrite");
    }
    if (s->per_rank > 0 && s->first_ranks > 0 && s->first_ranks != job->np) {
        drop[n_drop++] = "--batch-per-rank";
        words_add_list(&add, "--batch", start_text(job, "%lld", (long long)s->global_batch), NULL);
        /* The rate's reference, which a checkpoint would keep. */
        if (s->newest < 0 && s->lr_batch <= 0 && s->scales_lr)
            words_add_list(&add, "--lr-batch", start_text(job, "%lld", (long long)s->per_rank), NULL);
        say(job, "the batch of %lld samples is kept on %d ranks", (long long)s->global_batch, job->np);
    }
    /* More samples per rank, in parts that are not larger than before: as much memory. The shards of --reproducible stay as they are, one
     * after the other; cut in other parts, they would have other bits. */
    if (s->parts > 0 && s->shards == 0 && job->is_again && s->first_ranks > job->np) {
        drop[n_drop++] = "--accumulate";
        words_add_list(
            &add, "--accumulate",
            start_text(job, "%lld", (long long)(s->parts * ((s->first_ranks + job->np - 1) / job->np))),
            NULL);
    }
    for (int i = 0; i < s->words.n; i++) {
        const char *word = s->words.at[i];
        bool is_dropped = false;
        for (int k = 0; k < n_drop; k++) {
            const size_t n = strlen(drop[k]);
            is_dropped |= strncmp(word, drop[k], n) == 0 && (word[n] == '\0' || word[n] == '=');
        }
        if (!is_dropped) words_add(&job->words, word);
        if (is_dropped && !strchr(word, '=') && strcmp(word, "--overwrite") != 0) i++;
    }
    words_add_all(&job->words, &add);
    words_free(&add);
}

/* ---- The flow ---- */
/* mpirun forwards output through pipes, so tell rank 0 that it ends at a terminal, and at which: its width may change. */
static bool set_terminal(const job_t *job)
{
    char text[ANSWER_NAME + 64];
    const char *term = getenv("TERM"), *tty;
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || !term || !term[0] || strcmp(term, "dumb") == 0) return false;
    setenv("DPTRAIN_PROGRESS", "1", 0);
    snprintf(text, sizeof text, "%d",
             ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80);
    setenv("COLUMNS", text, 1);
    tty = ttyname(STDOUT_FILENO);
    snprintf(text, sizeof text, "%s:%s", job->host, tty ? tty : "");
    setenv("DPTRAIN_TERMINAL", tty ? text : "", 1);
    return true;
}

static err_t find_here(job_t *job)
{
    const launch_values_t *o = &job->options;
    if (!fs_is_folder(job->wdir) || access(job->wdir, X_OK) != 0)
        RAISE(ERR_SYSTEM, "no working folder %s: create it, mount it, or choose another by --wdir",
              job->wdir);
    if (o->num_gpus > 0 && o->np > o->num_gpus)
        RAISE(ERR_USAGE, "%lld ranks, %lld on each host: that needs %lld hosts; give them by -hostfile or -H",
              (long long)o->np, (long long)o->num_gpus, (long long)((o->np + o->num_gpus - 1) / o->num_gpus));
    if (job->np == 0) job->np = (int)o->num_gpus;
    if (job->np == 0) TRY(hosts_count_here(job));
    return job->is_again && o->checks ? gather(job, false) : ERR_OK;
}

static err_t find_hosts(job_t *job)
{
    const launch_values_t *o = &job->options;
    const bool has_hosts = hosts_given(job);
    bool is_open = false;
    if (job->supervisor && has_hosts && (job->is_again || job->supervisor->is_lenient))
        return gather(job, true);
    TRY(hosts_find(job));
    if (job->n_nodes == 0) return find_here(job);
    TRY(hosts_reach(job));
    for (int i = 0; i < job->n_nodes; i++) is_open |= job->nodes[i].slots == 0;
    if (o->num_gpus > 0 || !is_open) return ERR_OK;
    TRY(o->checks ? probe_hosts(job) : probe_slots(job));
    hosts_fill_slots(job);
    return ERR_OK;
}

err_t launch_prepare(job_t *job)
{
    const launch_values_t *o = &job->options;
    supervisor_t *s = job->supervisor;
    hosts_clear(job);
    arena_reset(&job->start);
    job->np = (int)o->np;
    job->subnet = NULL;
    TRY(find_hosts(job));
    if (signals_pending()) return ERR_OK;
    const int64_t n_hosts = job->n_nodes > 0 ? job->n_nodes : 1;
    if (o->nnodes > 0 && o->nnodes != n_hosts)
        RAISE(ERR_USAGE, "--nnodes %lld, but %lld host%s: write the hosts by -H or -hostfile",
              (long long)o->nnodes, (long long)n_hosts, n_hosts == 1 ? "" : "s");
    if (job->n_nodes > 0) TRY(hosts_share(job));
    mpi_flags(job, job->n_nodes > 0 ? 0 : job->np);
    if (s) {
        if (s->first_ranks == 0) s->first_ranks = job->np;
        change_words(job);
        setenv("DPTRAIN_RESUMES", "1", 1); /* ranks that are ended save nothing */
    }
    /* Where ranks find which signal the user sent. */
    if (!o->dry_run) {
        TRY(job_make_work(job));
        TRY(job_hold_session(job));
        setenv("DPTRAIN_ASKED", start_text(job, "%s/asked", job->work), 1);
    }
    /* The ranks see if mpirun puts them on fewer hosts, as it does where it takes two names for one. */
    unsetenv("DPTRAIN_HOSTS");
    if (job->n_nodes > 1 && !job->places_given)
        setenv("DPTRAIN_HOSTS", start_text(job, "%d", job->n_nodes), 1);
    const bool has_terminal = set_terminal(job);
    if (o->log_dir) setenv("DPTRAIN_LOG_DIR", o->log_dir, 1);
    TRY(env_collect(job));
    if (has_terminal) words_add(&job->env, "COLUMNS");
    if (job->n_nodes > 0 && o->checks) {
        if (!job->probed) TRY(probe_hosts(job));
        if (signals_pending()) return ERR_OK;
        note_hosts(job);
        if (strcmp(o->launcher, "mpirun") == 0 && !job->places_given && !hosts_use_no_gpus(job))
            ranks_bind_to_gpus(job);
    }
    if (job_is_spread(job)) {
        TRY(network_choose(job));
        if (job->prefix) words_add_list(&job->part_flags, "--prefix", job->prefix, NULL);
        if (getenv("CUDA_VISIBLE_DEVICES") && env_find(&job->x, "CUDA_VISIBLE_DEVICES") < 0)
            say(job,
                "CUDA_VISIBLE_DEVICES is passed to no other host; -x CUDA_VISIBLE_DEVICES passes it to all");
    }
    if (!job_is_spread(job) && !job->is_again && (o->interface || strcmp(o->transport, "auto") != 0))
        say(job, "%s has no effect: all ranks are on this machine",
            o->interface ? "--interface" : "--transport");
    if (job->low_port > 0) TRY(network_ports(job));
    if (o->wdir || job_is_spread(job)) words_add_list(&job->part_flags, "--wdir", job->wdir, NULL);
    return ranks_compose(job);
}
