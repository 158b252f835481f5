/* SPDX-License-Identifier: MIT */
/* One start of the ranks under mpirun or srun: output, deadlines, signals, what is left on the hosts, and the exit code with its
 * reason. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "launch/job.h"

enum {
    TOLD_SEC = 10,
    KILLED_SEC = 600,
    SWEEP_SEC = 15,
    SILENT_SEC = 4,
    FAR_SEC = 30, /* between questions to the hosts where the ranks are */
    OUTLIVED_SEC = 15,
    DEFAULT_TIMEOUT_SEC = 300,
};

/* ---- How to go on ---- */
/* Advice after a lost rank. */
static const char *restart_words(const job_t *job)
{
    return job->words.n > 0 && strcmp(job->words.at[0], "bench") == 0 ? "start it again"
                                                                      : "restart with --resume auto";
}

void job_say_continue(job_t *job, const char *with)
{
    words_t shown = {0}, kept = {0};
    message_t names = {0};
    for (int i = 0; i < job->x.n; i++)
        if (strchr(job->x.at[i], '='))
            message_append(&names, " %.*s", (int)strcspn(job->x.at[i], "="), job->x.at[i]);
    if (names.n) say(job, "export%s before: values of -x are not shown", names.text);
    words_add(&kept, job->called_as);
    options_shown(job, &job->given, &shown);
    for (int i = 0; i < shown.n; i++) {
        const char *word = shown.at[i];
        if (with && (strcmp(word, "--resume") == 0 || strcmp(word, "--out") == 0)) {
            i++;
            continue;
        }
        if (!with || (strncmp(word, "--resume=", 9) != 0 && strncmp(word, "--out=", 6) != 0 &&
                      strncmp(word, "--overwrite", 11) != 0))
            words_add(&kept, word);
    }
    if (with && job->given.n == job->n_own) words_add(&kept, "train");
    say(job, "continue with: %s%s%s", options_line(job, &kept), with ? " " : "", with ? with : "");
    words_free(&shown);
    words_free(&kept);
}

/* ---- The run ---- */
typedef enum stage {
    RUNNING,
    ASKED,
    TOLD,
    KILLED
} stage_t; /* asked for a checkpoint (SIGUSR1), SIGTERM, SIGKILL */

typedef struct run {
    job_t *job;
    output_t *out;
    pid_t pid;
    int watch;
    stage_t stage;
    double started_at, deadline, looked_at;
    char why[ERR_MESSAGE_MAX]; /* the launcher ended the job */
    int stopped_by;            /* signal; 0: none */
    int n_signals;
    double signalled_at;
    bool gone_is_said;
    int uri_fd; /* mpirun's --report-uri; -1: none */
    pid_t ranks[1024];
    int n_ranks, n_stopped, most_ranks, stopped_for;
    bool had_ranks;
    double ranks_gone_at; /* 0: they have not */
    double far_asked;
    int n_far_silent;
    bool far_ranks,
        far_runs; /* on other hosts; far_runs: some of them are not stopped, or a host does not say */
    bool is_swept, is_full;
    words_t unreached; /* hosts */
    words_t left;      /* hosts on which processes of the job were left */
    loss_t loss;
    fault_t *fault;
} run_t;

static void sign_of_end(run_t *r)
{
    pthread_mutex_lock(&r->out->lock);
    if (r->out->ends_at == 0) r->out->ends_at = clock_sec();
    pthread_mutex_unlock(&r->out->lock);
}

/* mpirun's children on this host that run the program; none without /proc. */
static void look_for_ranks(run_t *r)
{
    char path[128], name[16], line[16384]; /* name: as the kernel cuts it */
    DIR *threads;
    snprintf(name, sizeof name, "%s", r->job->program_name);
    r->n_ranks = r->n_stopped = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)r->pid);
    if (!(threads = opendir(path))) return;
    for (const struct dirent *entry; (entry = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.32s/children", (int)r->pid, entry->d_name);
        if (entry->d_name[0] == '.' || !fs_read_line(path, line, sizeof line)) continue;
        char *rest = NULL;
        for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            const pid_t pid = (pid_t)strtol(word, NULL, 10);
            process_t p;
            if (!process_read("/proc", pid, &p) || strcmp(p.name, name) != 0 || strchr("ZX", p.state) ||
                r->n_ranks == (int)(sizeof r->ranks / sizeof *r->ranks))
                continue;
            r->ranks[r->n_ranks++] = pid;
            r->n_stopped += p.state == 'T';
        }
    }
    closedir(threads);
}

/* Kills mpirun, its ranks here, and the processes that it started, such as ssh, which would otherwise keep the output open. */
static void kill_all(run_t *r)
{
    DIR *processes = opendir("/proc");
    look_for_ranks(r);
    for (const struct dirent *entry; processes && (entry = readdir(processes));) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && getsid(pid) == r->pid) kill(pid, SIGKILL);
    }
    if (processes) closedir(processes);
    for (int i = 0; i < r->n_ranks; i++) kill(r->ranks[i], SIGKILL);
    kill(r->pid, SIGKILL);
}

/* Enters the next, harsher stage of ending the job; its deadline leads to the one after. */
static void press(run_t *r, stage_t stage, double sec)
{
    r->stage = stage;
    r->deadline = clock_sec() + sec;
    if (stage == ASKED) kill(r->pid, SIGUSR1);
    if (stage == TOLD) kill(r->pid, SIGTERM);
    if (stage == KILLED) kill_all(r);
}

bool job_is_training(const job_t *job)
{
    return job->words.n == 0 || strcmp(job->words.at[0], "train") == 0 || job->words.at[0][0] == '-';
}

static int open_work_file(const job_t *job, const char *name)
{
    char path[FS_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", job->work, name);
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void answer_signal(run_t *r, int number)
{
    const double now = clock_sec();
    job_t *job = r->job;
    job_note_signal(job, number);
    if (r->stage != RUNNING && r->stage != ASKED) return;
    /* Schedulers send SIGUSR1 to request a stop; it never ends the job at once. */
    if (number == SIGUSR1 && r->stage != RUNNING) return;
    /* One signal may come twice, to all processes of a service. */
    if (r->n_signals > 0 && now - r->signalled_at <= .2) return;
    r->signalled_at = now;
    r->n_signals += number != SIGUSR1;
    snprintf(r->why, sizeof r->why, "the job was stopped by SIG%s", signals_name(number));
    if (number != SIGUSR1) r->stopped_by = number;
    const bool started = r->out->started;
    if (number == SIGUSR1 && !started) {
        press(r, TOLD, TOLD_SEC);
        say(job, "SIGUSR1: the job has not started yet; ending it");
    } else if (r->stage == RUNNING && r->n_signals <= 1 && started) {
        char name[32];
        const int n = snprintf(name, sizeof name, "SIG%s\n", signals_name(number));
        /* For the ranks' words and records: they get SIGUSR1. */
        const int fd = job_make_work(job) == ERR_OK ? open_work_file(job, "asked") : -1;
        if (fd >= 0) {
            (void)fs_write_all(fd, 0, name, (size_t)n);
            close(fd);
        }
        press(r, ASKED, (double)job->options.grace);
        say(job, "SIG%s: asking the job %s; it has %lld s (a second signal ends it at once)",
            signals_name(number), job_is_training(job) ? "for a checkpoint" : "to stop",
            (long long)job->options.grace);
    } else {
        press(r, TOLD, TOLD_SEC);
    }
}

static void check_output(run_t *r)
{
    const int reason = r->out->gone;
    if (!reason || r->gone_is_said) return;
    r->gone_is_said = true;
    say(r->job, "the job's output cannot be written any more (%s); the job goes on", strerror(reason));
}

/* If no rank runs on this host, asks the others from time to time whether they have one. No longer if hosts answered and none has a
 * rank, or if no host has answered several times. */
static void look_far(run_t *r, double interval_sec)
{
    job_t *job = r->job;
    bool has_answer = false, is_alive = false, runs = false;
    if (clock_sec() - r->far_asked < interval_sec) return;
    if (hosts_write_config(job) != ERR_OK) return;
    job->until_fd = r->watch;
    const err_t err = ask_hosts(job, "alive", WORDS(job->id), SWEEP_SEC);
    job->until_fd = -1;
    struct pollfd ended = {.fd = r->watch, .events = POLLIN};
    if (err != ERR_OK || signals_pending() || poll(&ended, 1, 0) > 0) return;
    r->far_asked = clock_sec();
    for (int i = 0; i < job->n_nodes; i++) {
        const node_t *node = &job->nodes[i];
        if (node->is_local) continue; /* look_for_ranks has seen it */
        has_answer |= node->answer.complete;
        is_alive |= node->answer.is_alive;
        runs |= !node->answer.complete || (node->answer.is_alive && !node->answer.is_stopped);
    }
    r->n_far_silent = has_answer ? 0 : r->n_far_silent + 1;
    r->far_ranks = is_alive || (!has_answer && r->n_far_silent <= 3);
    r->far_runs = runs;
    r->had_ranks |= is_alive;
}

static bool has_ranks(run_t *r)
{
    const job_t *job = r->job;
    look_for_ranks(r);
    if (r->n_ranks > 0) return true;
    if (job->n_nodes == 0 || strcmp(job->options.launcher, "mpirun") != 0 || job_has_local_node(job))
        return false;
    look_far(r, FAR_SEC);
    return r->far_ranks;
}

/* The ranks' --timeout. That of train may be in a file; benchmarks do not print theirs. */
static int64_t find_timeout(job_t *job)
{
    char *text = NULL;
    int code;
    if (job->timeout_sec > 0) return job->timeout_sec;
    (void)config_ask(job, 10, false, &text, &code);
    const char *value = config_value(job, text, "timeout");
    if (!value) value = words_value(&job->words, "--timeout");
    const double sec = value ? strtod(value, NULL) : 0;
    mem_free(&text);
    return job->timeout_sec = sec >= 1 && sec < 1e9 ? (int64_t)sec : DEFAULT_TIMEOUT_SEC;
}

/* If all ranks are stopped, none is left to notice. Counts looks of about a second each, since the launcher may itself be stopped with
 * them, as by scontrol suspend, and go on before them. */
static void check_stopped(run_t *r)
{
    const bool is_spread = job_is_spread(r->job);
    const int64_t most = r->n_stopped == r->n_ranks ? find_timeout(r->job) : 0;
    if (most > 0 && is_spread) look_far(r, most < FAR_SEC ? (double)most : FAR_SEC);
    if (most == 0 || (is_spread && r->far_runs)) {
        r->stopped_for = 0;
        return;
    }
    if (++r->stopped_for <= most) return;
    snprintf(r->why, sizeof r->why, "no rank has run for %lld s (--timeout): all are stopped (SIGSTOP)",
             (long long)most);
    press(r, KILLED, KILLED_SEC);
}

/* If a host's link is cut, mpirun can outlive its ranks by minutes. */
static void check_outlived(run_t *r, double now)
{
    process_t mpirun;
    if (r->ranks_gone_at == 0) r->ranks_gone_at = now;
    pthread_mutex_lock(&r->out->lock);
    /* Ranks have named a host that does not answer: mpirun will not end by itself. */
    const double patience = r->out->n_silent ? 3 : OUTLIVED_SEC;
    pthread_mutex_unlock(&r->out->lock);
    if (now - r->ranks_gone_at < patience) return;
    const bool is_stopped = process_read("/proc", r->pid, &mpirun) && mpirun.state == 'T';
    snprintf(r->why, sizeof r->why, "%s",
             is_stopped ? "mpirun is stopped (SIGSTOP), and its ranks have ended"
                        : "mpirun outlived its ranks");
    /* On several hosts it would wait for unreachable daemons, and then crash. */
    if (is_stopped || job_is_spread(r->job))
        press(r, KILLED, KILLED_SEC);
    else
        press(r, TOLD, TOLD_SEC);
}

static void check_deadlines(run_t *r)
{
    const double now = clock_sec();
    const int64_t limit = r->job->options.timeout_start;
    if (r->stage != RUNNING) {
        if (now < r->deadline) return;
        if (r->stage == ASKED)
            press(r, TOLD, TOLD_SEC);
        else
            press(r, KILLED, KILLED_SEC);
    } else if (limit > 0 && now - r->started_at >= (double)limit && !r->out->started) {
        snprintf(r->why, sizeof r->why, "the job printed nothing within %lld s (--timeout-start)",
                 (long long)limit);
        press(r, TOLD, TOLD_SEC);
    } else if (has_ranks(r)) {
        /* Before hosts have been asked, ranks are only supposed there. */
        r->had_ranks |= r->n_ranks > 0 || r->out->started;
        r->ranks_gone_at = 0;
        /* mpirun speaks of a dead rank only after it has ended the others. */
        if (r->n_ranks < r->most_ranks) sign_of_end(r);
        r->most_ranks = r->n_ranks;
        check_stopped(r);
    } else if (r->had_ranks) {
        check_outlived(r, now);
    }
}

/* ---- What is left on the hosts ---- */
/* The daemons' number or, in OpenMPI 5, name, from the first line of --report-uri; "": unknown. */
static void read_family(const run_t *r, char out[ANSWER_NAME])
{
    char text[ANSWER_NAME];
    size_t n = 0;
    out[0] = '\0';
    if (r->uri_fd < 0 || fs_read_all(r->uri_fd, 0, text, sizeof text - 1, &n) != 0) return;
    text[n] = '\0';
    const size_t digits = strspn(text, "0123456789");
    const size_t name = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (digits > 0 && digits <= 15 && strncmp(text + digits, ".0;", 3) == 0)
        snprintf(out, ANSWER_NAME, "%.*s", (int)digits, text);
    else if (name > 0 && strncmp(text + name, "@0.0;", 5) == 0)
        snprintf(out, ANSWER_NAME, "%.*s@0", (int)name, text);
}

/* Gives hosts less time to answer that have not answered the ranks or mpirun. A supervisor asks them again. */
static void note_silent(run_t *r, words_t *silent)
{
    job_t *job = r->job;
    pthread_mutex_lock(&r->out->lock);
    for (int i = 0; i < r->out->n_silent; i++) words_add(silent, start_text(job, "%s", r->out->silent[i]));
    pthread_mutex_unlock(&r->out->lock);
    if (r->loss.how == LOST_HOST) words_add(silent, start_text(job, "%s", r->loss.host));
    for (int i = 0; i < job->n_nodes; i++)
        job->nodes[i].patience_sec = !hosts_listed(&job->nodes[i], silent) ? -1
                                     : job->supervisor                     ? 0
                                                                           : SILENT_SEC;
}

/* Ends and removes what the job has left, on all its hosts and here; learns the last phases of killed ranks. */
static void sweep(run_t *r)
{
    job_t *job = r->job;
    char family[ANSWER_NAME];
    words_t silent = {0};
    node_t *nodes = job->nodes, *asked;
    const int n_nodes = job->n_nodes;
    const bool is_here = job_has_local_node(job);
    if (r->is_swept) return;
    r->is_swept = true;
    read_family(r, family);
    note_silent(r, &silent);
    launch_need(arena_new(&job->start, (size_t)(n_nodes + 1) * sizeof *asked, &asked));
    for (int i = 0; i < n_nodes; i++) asked[i] = nodes[i];
    if (!is_here)
        asked[n_nodes] =
            (node_t){.name = n_nodes ? "this host" : job->host, .is_local = true, .patience_sec = -1};
    r->is_full = job_is_full(job);
    if (!r->is_full) (void)hosts_write_config(job);
    job->nodes = asked;
    job->n_nodes = n_nodes + !is_here;
    job->is_deaf = true;
    (void)ask_hosts(job, "sweep", WORDS(job->id, family, start_text(job, "%d", (int)r->pid)), SWEEP_SEC);
    job->is_deaf = false;
    for (int i = 0; i < job->n_nodes; i++) {
        const node_t *node = &job->nodes[i];
        if (node->answer.swept[0])
            say(job, "%s: cleaned up after the job: %s", node->name, node->answer.swept);
        if (node->answer.swept[0] >= '1' && node->answer.swept[0] <= '9' && !node->is_local)
            words_add(&r->left, node->name);
        for (int k = 0; k < node->answer.phases.n; k++)
            words_add(&job->phases, start_text(job, "%s", node->answer.phases.at[k]));
        if (node->code != NO_ANSWER && node->code != 255) continue;
        words_add(&r->unreached, node->name);
        if (job->supervisor) {
            words_add(&job->suspects, job_text(job, "%s", node->name));
            if (family[0])
                words_add_list(&job->families, job_text(job, "%s:%d", family, (int)r->pid),
                               job_text(job, "%s", node->name), NULL);
        } else {
            say(job, "%s could not be reached; files of the job may remain in its /dev/shm and /tmp",
                node->name);
        }
    }
    for (int i = 0; i < silent.n && job->supervisor; i++)
        words_add(&job->suspects, job_text(job, "%s", silent.at[i]));
    /* The answers' lists belong to `asked` now. */
    for (int i = 0; i < job->n_nodes; i++) answer_free(&asked[i].answer);
    for (int i = 0; i < n_nodes; i++) nodes[i].answer = (answer_t){0};
    job->nodes = nodes;
    job->n_nodes = n_nodes;
    words_free(&silent);
}

/* The last phase of a rank that was killed; "": unknown. */
static const char *phase_of(const job_t *job, int64_t rank)
{
    for (int i = 0; i < job->phases.n; i++) {
        char *end;
        if (strtoll(job->phases.at[i], &end, 10) == rank && *end == ' ') return end + 1;
    }
    return "";
}

static const char *host_of(const job_t *job, int64_t rank)
{
    const node_t *node = hosts_of_rank(job, rank);
    return node ? node->alias : job->host;
}

/* Names the ranks that did not end by themselves, if a rank of another host could not. */
static void name_ranks(run_t *r)
{
    if (!r->out->is_elsewhere) return;
    for (int i = 0; i < r->job->phases.n; i++) {
        char *end;
        const int64_t rank = strtoll(r->job->phases.at[i], &end, 10);
        say(r->job, "rank %lld on %s had not ended; it was in \"%s\"", (long long)rank, host_of(r->job, rank),
            end + 1);
    }
}

/* ---- The end ---- */
/* How the rank or host was lost, with the rank's last phase. */
static void describe(const run_t *r, message_t *m)
{
    const char *phase = phase_of(r->job, r->loss.rank);
    char last[ANSWER_NAME + 8] = "";
    if (phase[0]) snprintf(last, sizeof last, " in \"%.200s\"", phase);
    if (r->loss.how == LOST_HOST) {
        message_append(
            m, "lost the connection to mpirun's daemon on %s: the host, its network or the daemon failed",
            r->loss.host);
        return;
    }
    message_append(m, "rank %lld on %s ", (long long)r->loss.rank, r->loss.host);
    if (r->loss.how == LOST_SIGNAL) {
        message_append(m, "was killed by signal %lld (SIG%s)%s", (long long)r->loss.code,
                       signals_name((int)r->loss.code), last);
        if (r->loss.code == SIGKILL)
            message_append(m, "; the kernel does that when memory runs out (dmesg on %s)", r->loss.host);
    } else if (r->loss.how == LOST_LEFT) {
        message_append(m, "ended without a word, with exit code 0%s", last);
    } else {
        message_append(m, "ended with exit code %lld%s", (long long)r->loss.code, last);
    }
}

/* What is known of the fault, for a supervisor. Without WHAT, the ranks have said it. */
static void tell(run_t *r, const char *what)
{
    fault_t *f = r->fault;
    output_t *out = r->out;
    *f = (fault_t){.at_sec = out->ends_at > 0 ? out->ends_at : clock_sec(), .rank = r->loss.rank};
    if (out->has_spoken && (!what[0] || strncmp(what, "mpirun outlived", 15) == 0)) what = out->spoke;
    snprintf(f->what, sizeof f->what, "%s", what);
    snprintf(f->host, sizeof f->host, "%s", r->loss.host);
    /* A rank that ends the job with a code speaks for another one. */
    if ((f->rank < 0 && !f->host[0]) || r->loss.how == LOST_CODE) output_rank_in(what, &f->rank, f->host);
    if (f->rank >= 0) snprintf(f->phase, sizeof f->phase, "%s", phase_of(r->job, f->rank));
    if (!f->phase[0]) output_phase_in(what, f->phase);
}

/* Cleans up, which also collects the last phases, and says why the job failed; "": what was said of the lost rank or host. */
static int fail(run_t *r, int code, const char *why)
{
    job_t *job = r->job;
    message_t m = {0};
    sweep(r);
    if (why[0])
        message_append(&m, "%s", why);
    else
        describe(r, &m);
    /* Where mpirun did not name the host itself. */
    if (r->loss.how == LOST_NOTHING && r->unreached.n > 0 &&
        r->unreached.n < (job->n_nodes ? job->n_nodes : 1))
        message_append(&m, "; no answer from %s", words_join(&job->start, &r->unreached, " "));
    /* mpirun had no word for it: the daemons of the other hosts have ended all that was there. */
    if (r->loss.how == LOST_NOTHING && r->unreached.n == 0 && r->left.n == 1 &&
        strncmp(why, "mpirun ended with code ", 23) == 0) {
        message_append(&m, "; its ssh session to %s may have ended, where the daemon was left",
                       r->left.at[0]);
        snprintf(r->loss.host, sizeof r->loss.host, "%s", r->left.at[0]);
    }
    if (r->is_full) {
        code = ERR_SYSTEM;
        message_append(&m, "; %s is full, which can end MPI: free some space, or set TMPDIR",
                       job_temp_folder());
    }
    tell(r, m.text);
    if (code == ERR_PEER && !job->supervisor) message_append(&m, "; %s", restart_words(job));
    say(job, "error: %s", m.text);
    return code;
}

/* Whether the signal, and not a failure of the job, is why it ended with this code. A benchmark that is interrupted returns 1. */
static bool signal_ended_it(const run_t *r, int code)
{
    return r->stage != ASKED || code == 0 || code > ERR_PEER ||
           (code == ERR_GATE && r->job->words.n > 0 && strcmp(r->job->words.at[0], "bench") == 0);
}

/* 128 + the signal's number, or 0 if the run had finished by then; and how to go on. */
static int end_by_signal(run_t *r, int code)
{
    job_t *job = r->job;
    const char *name = signals_name(r->stopped_by), *found = NULL, *with = NULL;
    if (output_has_finished(r->out) && r->stage == ASKED && code == 0) {
        say(job, "SIG%s: the run had finished", name);
        return 0;
    }
    if (r->stage != ASKED) sweep(r);
    code = 128 + r->stopped_by;
    say(job, "stopped by SIG%s (exit code %d)", name, code);
    const char *rest = r->out->last, *at, *line, *next = NULL;
    for (int n; (at = print_next_line(&rest, &n));) {
        line = start_text(job, "%.*s", n, at);
        next = strncmp(line, "checkpoint ", 11) == 0 ? strstr(line, "; continue with --resume ") : NULL;
        if (next || strncmp(line, "no checkpoint yet; start again with ", 36) == 0) found = line;
        if (next) with = next + 16;
    }
    if (!found) {
        say(job, "%s", restart_words(job));
    } else if (found[0] == 'n') {
        say(job, "%s", found);
    } else {
        say(job, "%.*s", (int)(with - 16 - found), found);
        job_say_continue(job, with);
    }
    return code;
}

/* Whether MPI itself did not start on a rank. Not every rank's words arrive. */
static bool mpi_failed(run_t *r, int code)
{
    return r->out->no_mpi || strstr(r->out->said, "MPI_INIT failed") ||
           strstr(r->out->said, "requested component was not found") ||
           (code == ERR_GATE && r->loss.how == LOST_NOTHING && !r->why[0] && !r->out->started);
}

/* mpirun starts again, only to look for the program. */
static int try_start(run_t *r, int code)
{
    job_t *job = r->job;
    words_t words = {0};
    int tried;
    char *text = NULL;
    words_add(&words, "mpirun");
    words_add_all(&words, &job->mpi_flags);
    words_add_all(&words, &job->trial);
    words_add_list(&words, "test", "-x", job->program, NULL);
    const err_t err = launch_output(job, &words, 60, 1 << 20, true, &text, &tried);
    if (text && text[0]) print_to(stderr, "%s", text);
    mem_free(&text);
    words_free(&words);
    if (err == ERR_OK && tried == 0) return 0;
    return fail(
        r, ERR_SYSTEM,
        start_text(job, "mpirun could not start %s on every host (exit code %d)", job->program, code));
}

/* The job's exit code for mpirun's, with a message if dptrain cannot have printed one. */
static int finish(run_t *r, int code)
{
    job_t *job = r->job;
    const output_t *out = r->out;
    const bool is_mpirun = strcmp(job->options.launcher, "mpirun") == 0, started = r->out->started;
    const char *launcher = job->options.launcher;
    r->loss = output_loss(out, code);
    if (r->loss.how != LOST_HOST && r->loss.how != LOST_NOTHING && !r->loss.host[0])
        snprintf(r->loss.host, ANSWER_NAME, "%s", host_of(job, r->loss.rank));
    /* mpirun 5.0.7 may end with a segmentation fault after it has said this. */
    if (r->loss.how == LOST_CODE && code > ERR_INCONCLUSIVE && r->loss.code >= 1 &&
        r->loss.code <= ERR_INCONCLUSIVE)
        code = (int)r->loss.code;
    if (r->stopped_by && signal_ended_it(r, code)) return end_by_signal(r, code);
    if (r->stage == TOLD || r->stage == KILLED || (r->stage == ASKED && code > ERR_INCONCLUSIVE))
        return fail(r, ERR_PEER, r->why);
    /* A daemon's code differs from the one that mpirun noticed. */
    if (r->loss.how == LOST_SIGNAL || r->loss.how == LOST_LEFT) return fail(r, ERR_PEER, "");
    /* mpirun 5.0.7 may end with 0 after it has lost a host in mid-job. */
    if (r->loss.how == LOST_HOST && (code == 0 || !out->has_spoken) && !output_has_finished(out))
        return fail(r, ERR_PEER, "");
    if (!started && is_mpirun && r->loss.how == LOST_NOTHING && (code == ERR_GATE || code > 128)) {
        if (job_is_full(job)) return fail(r, ERR_SYSTEM, "the job did not start");
        /* A supervisor leaves out a host that was lost while the job started. */
        if (job->supervisor) sweep(r);
        if (r->unreached.n > 0) return fail(r, ERR_PEER, "the job did not start");
        const int tried = try_start(r, code);
        if (tried != 0) return tried;
    }
    if (code == ERR_PEER) {
        sweep(r);
        name_ranks(r);
    }
    /* In a job that goes on, a host may have been lost at that moment. */
    if (code > 0 && is_mpirun && r->loss.how != LOST_HOST && !out->has_spoken && !job->is_again &&
        mpi_failed(r, code)) {
        const char *rest = out->said, *line;
        int n, n_lines = 0;
        while (n_lines++ < 40 && (line = print_next_line(&rest, &n))) print_to(stderr, "%.*s\n", n, line);
        return fail(r, ERR_SYSTEM,
                    "MPI could not start; check --mca, --mpi-args and variables named OMPI_MCA_");
    }
    /* Of a rank's code mpirun would have spoken: this one is its own. */
    if (code == ERR_GATE && is_mpirun && r->loss.how == LOST_NOTHING && !out->has_spoken &&
        !strstr(out->said, "non-zero") && !output_has_finished(out))
        return fail(r, ERR_PEER,
                    "mpirun ended with exit code 1, and no rank did; a signal may have stopped it");
    if (code <= ERR_INCONCLUSIVE) {
        if (r->loss.how == LOST_CODE && !out->has_spoken && code >= 1 && code == r->loss.code) {
            message_t m = {0};
            sweep(r);
            /* A rank that ends through main leaves no last phase. */
            if (phase_of(job, r->loss.rank)[0]) return fail(r, ERR_PEER, "");
            /* Its last words may be lost, or there were none. */
            describe(r, &m);
            say(job, "%s", m.text);
        } else if (code == ERR_GATE && !out->has_spoken && output_has_finished(out)) {
            say(job, "%s ended with exit code 1 after the run had finished; a signal may have stopped it",
                launcher);
        }
        tell(r, "");
        return code;
    }
    if (r->loss.how != LOST_NOTHING) return fail(r, ERR_PEER, "");
    if (code > 128 && code < 193) /* On a full disk nothing is known of what mpirun said of a rank. */
        return fail(r, ERR_PEER,
                    start_text(job, "%s was killed by signal %d (SIG%s)",
                               job_is_full(job) ? "the job" : launcher, code - 128,
                               signals_name(code - 128)));
    return fail(
        r, ERR_PEER,
        start_text(job, "%s ended with code %d, which usually means that a host is lost", launcher, code));
}

/* ---- A start ---- */
/* Waits for the end of mpirun, and then for the rest of its output. Returns its exit code. */
static int watch(run_t *r)
{
    struct pollfd polls[2] = {{.fd = signals_fd(), .events = POLLIN}, {.fd = r->watch, .events = POLLIN}};
    job_t *job = r->job;
    double last_look = clock_sec();
    int status = 0;
    for (siginfo_t ended = {0};
         waitid(P_PID, (id_t)r->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;) {
        const double sec = r->watch < 0 ? .1 : job->look && job->look_sec < 1 ? job->look_sec : 1;
        poll(polls, 2, (int)(1000 * sec));
        for (int number; (number = signals_take());) answer_signal(r, number);
        check_output(r);
        const double now = clock_sec();
        if (job->look && now - last_look >= job->look_sec) {
            last_look = now;
            job->look(job);
        }
        if (now - r->looked_at < .9) continue;
        r->looked_at = now;
        check_deadlines(r);
    }
    guard_watch(0);
    waitpid(r->pid, &status, 0);
    output_end(r->out);
    check_output(r);
    return launch_exit_code(status);
}

int job_run(job_t *job, fault_t *fault)
{
    run_t *r = NULL;
    int child[3] = {-1, -1, -1}, code;
    *fault = (fault_t){.rank = -1};
    launch_need(mem_new(sizeof *r, "a start of the job", &r));
    *r = (run_t){.job = job,
                 .watch = -1,
                 .uri_fd = open_work_file(job, "uri"),
                 .far_ranks = true,
                 .far_runs = true,
                 .loss = {.rank = -1},
                 .fault = fault};
    words_free(&job->phases);
    err_t err = output_open(&r->out, child + 1);
    /* mpirun has the job's id too, so that a later launcher finds it, and no other child of this one. */
    setenv("DPTRAIN_JOB", job->id, 1);
    if (err == ERR_OK) err = launch_start_child(&job->command, child, NULL, true, &r->pid);
    unsetenv("DPTRAIN_JOB");
    for (int i = 1; i < 3; i++)
        if (child[i] >= 0) close(child[i]);
    if (err != ERR_OK) {
        snprintf(fault->what, sizeof fault->what, "%s", err_message());
        say(job, "error: %s", err_message());
        code = (int)err;
        goto out;
    }
    guard_watch(r->pid);
    r->watch = launch_pidfd(r->pid);
    r->started_at = r->far_asked = r->looked_at = clock_sec();
    code = finish(r, watch(r));
out:
    if (r->out) output_close(r->out);
    if (r->watch >= 0) close(r->watch);
    if (r->uri_fd >= 0) close(r->uri_fd);
    words_free(&r->unreached);
    words_free(&r->left);
    mem_free(&r);
    return code;
}
