/* SPDX-License-Identifier: MIT */
/* Runs a job: once, or with --restarts again after faults, as long as it makes progress. Its state is in memory and in the run's folder:
 * if the launcher is killed, the kernel ends the ranks, and the same command goes on with the job. */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/job.h"
#include "records/record.h"

enum { CONFIG_SEC = 120, LONGEST_PAUSE_SEC = 60 };

/* ---- The training's options ---- */
static int64_t config_number(job_t *job, const char *config, const char *name)
{
    int64_t number = 0;
    const char *value = config_value(job, config, name);
    if (value && !word_number(job_text(job, "%.*s", (int)strcspn(value, "."), value), &number)) number = 0;
    return number;
}

/* Reads what must be known of the training's options, and refuses what cannot be restarted. *code: the program's, if it is the end;
 * else -1. */
static err_t read_options(job_t *job, supervisor_t *s, int *code)
{
    char *text = NULL, stamp[32];
    int ended;
    *code = -1;
    if (!job_is_training(job))
        RAISE(ERR_USAGE, "--restarts is for dptrain train, which resumes from checkpoints; not for '%s'",
              job->words.at[0]);
    TRY(config_ask(job, CONFIG_SEC, true, &text, &ended));
    if (ended == NO_ANSWER) {
        mem_free(&text);
        RAISE(ERR_SYSTEM,
              "%s --print-config has not ended within %d s: see what it waits for, such as a file server",
              job->program, CONFIG_SEC);
    }
    if (ended != 0) *code = ended; /* its own message says what is wrong */
    /* --help and the like have been answered. */
    if (ended == 0 && text[0] && !strstr(text, "\nresume = ")) {
        print_out("%s", text);
        *code = 0;
    }
    const char *resume = config_value(job, text, "resume"), *overwrite = config_value(job, text, "overwrite");
    const char *scale = config_value(job, text, "lr-scale"), *model = config_value(job, text, "model");
    s->resume = resume ? resume : "";
    s->overwrites = overwrite && strcmp(overwrite, "true") == 0;
    s->scales_lr = scale && strcmp(scale, "none") != 0;
    s->lr_batch = config_number(job, text, "lr-batch");
    s->global_batch = config_number(job, text, "batch");
    s->per_rank = config_number(job, text, "batch-per-rank");
    s->parts = config_number(job, text, "accumulate");
    s->shards = config_number(job, text, "reproducible");
    s->group = config_number(job, text, "bn-group");
    job->timeout_sec = config_number(job, text, "timeout");
    job->device = config_value(job, text, "device");
    s->data = config_value(job, text, "data");
    if (s->data && (strcmp(s->data, "digits") == 0 || strcmp(s->data, "synthetic") == 0))
        s->data = NULL; /* no paths */
    s->folder = config_value(job, text, "out");
    /* As it was typed: a line of the configuration would lose blanks around it. */
    const char *typed = words_value(&job->words, "--out");
    if (s->folder && typed) s->folder = typed;
    mem_free(&text);
    s->is_own_folder = !s->folder || !s->folder[0];
    if (!s->is_own_folder) return ERR_OK;
    clock_stamp(stamp, sizeof stamp);
    s->folder = job_text(job, "runs/%s-%s", model ? model : "", stamp);
    return ERR_OK;
}

/* ---- The record ---- */
/* null: below 0. */
static void int_or_null(json_t *j, const char *key, int64_t n)
{
    if (n >= 0)
        json_int(j, key, n);
    else
        json_real(j, key, NAN);
}

static void add_supervisor(supervisor_t *s, json_t *j)
{
    char place[ANSWER_NAME];
    process_t own;
    life_place(place);
    json_string(j, "job", s->job->id);
    json_string(j, "place", place);
    json_int(j, "pid", getpid());
    int_or_null(j, "start_time", process_read("/proc", getpid(), &own) ? own.started : -1);
}

static void note_last_step(supervisor_t *s)
{
    life_seen_t seen;
    life_look(&s->life, -1, &seen);
    s->n_steps = seen.last_step < 0 ? -1 : seen.last_step + 1;
}

/* Takes over the job of a supervisor that was killed. Only the wall clock has gone on since. */
static void adopt(supervisor_t *s)
{
    const life_job_t *old = &s->life.begun;
    struct tm parts = {0};
    char place[ANSWER_NAME];
    const char *end = strptime(old->time, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (end && !*end) {
        const double before = clock_unix_sec() - (double)timegm(&parts);
        if (before > 0) s->life.origin_sec -= before;
    }
    life_place(place);
    /* Its ranks, which may be about to end, are recognized by this id; the new ones own the folder under it. */
    if (strcmp(place, old->place) == 0 && word_is_name(old->id))
        snprintf(s->job->id, sizeof s->job->id, "%s", old->id);
    else if (word_is_name(old->id))
        snprintf(s->earlier_id, sizeof s->earlier_id, " %s", old->id);
    s->job->is_again = true;
    s->fault_at = clock_sec();
    s->metrics_bytes = old->metrics_bytes;
    s->n_starts = old->n_starts;
    s->n_restarts = old->n_starts;
    s->down_sec = old->down_sec;
    s->first_ranks = old->first_ranks;
    note_last_step(s);
    s->newest = own_newest(s->life.folder);
    json_t *j = life_begin(&s->life, RECORD_JOB_CONTINUE);
    add_supervisor(s, j);
    life_end(&s->life);
}

/* Opens the record of the job's life. A job without an end goes on: its supervisor was killed. */
static err_t open_life(supervisor_t *s)
{
    job_t *job = s->job;
    const char *path = s->folder[0] == '/' ? s->folder : job_text(job, "%s/%s", job->wdir, s->folder);
    TRY(life_open(job, path, &s->life));
    s->since = clock_sec(); /* --max-time counts from here, also if the job began earlier */
    s->newest = -1;
    s->n_steps = -1;
    if (s->life.begun.is_open) {
        adopt(s);
        TRY(life_confirm(&s->life));
        say(job, "going on with job %s, whose supervisor was killed", s->life.begun.id);
        return ERR_OK;
    }
    words_t command = {0};
    words_add(&command, job->called_as);
    options_shown(job, &job->given, &command);
    if (!s->overwrites) {
        s->metrics_bytes = life_size(&s->life);
        s->newest = own_newest(s->life.folder);
    }
    json_t *j = life_begin(&s->life, RECORD_JOB_START);
    json_int(j, "schema", RECORD_SCHEMA);
    add_supervisor(s, j);
    json_array_begin(j, "command");
    for (int i = 0; i < command.n; i++) json_string(j, NULL, command.at[i]);
    json_array_end(j);
    json_int(j, "restarts", job->options.restarts);
    json_int(j, "min_ranks", job->options.min_ranks);
    json_int(j, "wait_hosts", job->options.wait_hosts);
    json_int(j, "cool_down", job->options.cool_down);
    json_int(j, "metrics_bytes", s->metrics_bytes);
    life_end(&s->life);
    words_free(&command);
    if (s->is_own_folder)
        say(job, "output %s; if this launcher is killed, start it again with --out", s->folder);
    return life_confirm(&s->life);
}

/* Records that the job trains: the first record of a step since its start. */
static void look_for_step(job_t *job)
{
    supervisor_t *s = job->supervisor;
    life_seen_t seen;
    life_look(&s->life, s->metrics_at, &seen);
    if (!seen.has_run || seen.last_step < 0) {
        /* Soon, and later less often. */
        job->look_sec = ++s->n_looks < 150 ? .2 : 2;
        return;
    }
    job->look = NULL;
    s->trains = true;
    json_t *j = life_begin(&s->life, RECORD_JOB_TRAINING);
    const double down = s->fault_at > 0 ? clock_sec() - s->fault_at : NAN;
    json_int(j, "start", s->n_starts);
    json_int(j, "first_step", seen.first_step);
    json_string(j, "resumed_from", seen.resumed_from[0] ? seen.resumed_from : NULL);
    const int64_t lost = s->n_steps > seen.first_step ? s->n_steps - seen.first_step : 0;
    int_or_null(j, "steps_lost", s->n_steps < 0 ? -1 : lost);
    life_number(&s->life, "fault_to_step_sec", down);
    life_end(&s->life);
    if (s->fault_at > 0) {
        s->down_sec += down;
        say(job, "training again, %.2f s after the fault, from step %lld", down, (long long)seen.first_step);
    }
    s->fault_at = 0;
}

/* Records what is known of the fault of a start. */
static void record_fault(supervisor_t *s, int code, fault_t *f)
{
    if (!f->what[0]) snprintf(f->what, sizeof f->what, "the job ended with code %d", code);
    if (f->at_sec <= 0) f->at_sec = clock_sec();
    /* Of several faults in a row, the first is the one that stopped the training. */
    if (s->fault_at <= 0) s->fault_at = f->at_sec;
    if (s->trains) note_last_step(s);
    /* Records are written in blocks, so the phase may know a later step. */
    const char *step = strstr(f->phase, "step ");
    int64_t number;
    if (step && word_number(step + 5, &number) && number > s->n_steps) s->n_steps = number;
    json_t *j = life_begin(&s->life, RECORD_JOB_FAULT);
    json_int(j, "start", s->n_starts);
    json_int(j, "code", code);
    json_string(j, "what", f->what);
    json_string(j, "host", f->host[0] ? f->host : NULL);
    int_or_null(j, "rank", f->rank);
    json_string(j, "phase", f->phase[0] ? f->phase : NULL);
    int_or_null(j, "steps", s->n_steps);
    life_number(&s->life, "noticed_sec", f->at_sec - s->life.origin_sec);
    life_end(&s->life);
}

/* ---- Starts ---- */
/* What must be there before the ranks start; checked last, so that --dry-run works without. */
static err_t check_start(job_t *job)
{
    char path[FS_PATH_MAX];
    if (!fs_find_program(job->options.launcher, path))
        RAISE(ERR_SYSTEM, "%s was not found; run scripts/install_deps.sh", job->options.launcher);
    return job_check_space(job);
}

/* Starts the job once. *ran: its ranks were started. Returns the exit code. */
static int start_once(job_t *job, fault_t *fault, bool *ran)
{
    supervisor_t *s = job->supervisor;
    err_t err = launch_prepare(job);
    *ran = false;
    *fault = (fault_t){.rank = -1};
    if (err == ERR_OK && !signals_pending() && job->options.dry_run) {
        print_out("%s\n", options_line(job, &job->command));
        return ERR_OK;
    }
    if (err == ERR_OK && !signals_pending()) err = check_start(job);
    if (err != ERR_OK && !signals_pending()) {
        snprintf(fault->what, sizeof fault->what, "%s", err_message());
        say(job, "error: %s", err_message());
        return (int)err;
    }
    if (signals_pending()) return ERR_OK;
    if (s) {
        s->metrics_at = life_size(&s->life); /* ranks of an earlier start have ended */
        s->chief = job->n_nodes > 0 ? job_text(job, "%s", job->nodes[0].name) : "";
        json_t *j = life_begin(&s->life, RECORD_JOB_RANKS);
        json_int(j, "start", s->n_starts);
        json_int(j, "ranks", job->np);
        json_array_begin(j, "hosts");
        for (int i = 0; i < job->n_nodes; i++) json_string(j, NULL, job->nodes[i].name);
        if (job->n_nodes == 0) json_string(j, NULL, job->host);
        json_array_end(j);
        json_int(j, "newest_checkpoint", s->newest);
        life_end(&s->life);
    }
    *ran = true;
    return job_run(job, fault);
}

/* Takes the signals that came while no rank was running. */
static void take_signals(job_t *job)
{
    for (int number; (number = signals_take());) job_note_signal(job, number);
}

/* The end of a job that a signal stopped while no rank was running. Returns its exit code. */
static int stopped_between(job_t *job)
{
    const int code = job->stopped_by == SIGUSR1 ? 0 : 128 + job->stopped_by;
    say(job, "stopped by SIG%s (exit code %d)", signals_name(job->stopped_by), code);
    job_say_continue(job, NULL);
    return code;
}

/* Whether another start makes sense after this code; if not, sets *reason. Waits before a later one without progress. */
static bool goes_again(supervisor_t *s, int code, fault_t *fault, const char **reason)
{
    job_t *job = s->job;
    const int64_t limit = job->options.restarts;
    life_seen_t seen;
    int pause = 0;
    if (job->stopped_by && (code != 0 || job->stopped_by == SIGUSR1)) {
        *reason = job_text(job, "stopped by SIG%s", signals_name(job->stopped_by));
        return false;
    }
    if (code != ERR_PEER) {
        life_look(&s->life, -1, &seen);
        const bool is_plain =
            seen.reason[0] &&
            !seen.reason[strspn(seen.reason,
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ")];
        *reason = code       ? job_text(job, "ended with code %d", code)
                  : is_plain ? job_text(job, "%s", seen.reason)
                             : "finished";
        return false;
    }
    record_fault(s, code, fault);
    if (s->final) {
        *reason = s->final;
        return false;
    }
    const int64_t newest = own_newest(s->life.folder);
    if (newest > s->newest) {
        s->newest = newest;
        s->n_used = 0;
    }
    s->n_used++;
    if (s->n_used > limit) {
        *reason = job_text(job, "%lld restart%s without a new checkpoint in between", (long long)limit,
                           limit == 1 ? "" : "s");
        say(job, "error: %s (--restarts); the last fault: %s", *reason, fault->what);
        return false;
    }
    s->n_restarts++;
    /* The first restart comes at once, later ones without progress after a growing pause. */
    if (s->n_used > 1) pause = s->n_used > 6 ? LONGEST_PAUSE_SEC : 1 << s->n_used;
    char in[32] = "";
    if (pause) snprintf(in, sizeof in, " in %d s", pause);
    const char *from = newest >= 0 ? job_text(job, "the checkpoint of step %lld", (long long)newest)
                                   : job_text(job, "the newest checkpoint in %s, if there is one", s->folder);
    say(job, "starting again%s, from %s; restart %lld of %lld without a new checkpoint", in, from,
        (long long)s->n_used, (long long)limit);
    launch_nap(pause);
    take_signals(job);
    if (!job->stopped_by) return true;
    *reason = job_text(job, "stopped by SIG%s", signals_name(job->stopped_by));
    return false;
}

/* Hours, minutes and seconds. */
static const char *time_text(job_t *job, double sec)
{
    const long long s = (long long)(sec + .5);
    return job_text(job, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

/* Prints the summary, and writes the last record. */
static void end_life(supervisor_t *s, int code, const char *reason)
{
    job_t *job = s->job;
    life_steps_t steps;
    int64_t kept = -1;
    const double wall = clock_sec() - s->life.origin_sec;
    if (code != 0) {
        kept = own_newest(s->life.folder);
        if (kept < 0) kept = 0;
    }
    const bool has_steps = life_count(&s->life, s->metrics_bytes, kept, &steps);
    const double share = !has_steps || wall <= 0 ? NAN : steps.good_sec < wall ? steps.good_sec / wall : 1;
    json_t *j = life_begin(&s->life, RECORD_JOB_END);
    json_int(j, "code", code);
    json_string(j, "reason", reason);
    json_int(j, "restarts", s->n_restarts);
    json_int(j, "useful_steps", steps.n_good);
    life_number(&s->life, "useful_sec", has_steps ? steps.good_sec : NAN);
    json_int(j, "lost_steps", steps.n_lost);
    life_number(&s->life, "lost_sec", steps.lost_sec);
    life_number(&s->life, "down_sec", s->down_sec);
    life_number(&s->life, "wall_sec", wall);
    json_real(j, "goodput", isnan(share) ? share : round(1e4 * share) / 1e4);
    life_end(&s->life);
    /* A job that never trained leaves nothing behind. */
    life_close(&s->life, code >= 1 && code <= 4 && s->life.is_new && !fs_exists(s->life.metrics));
    if (isnan(share)) return;
    say(job, "%lld restart%s, %lld steps computed again; goodput %.1f %% (%s of steps that were kept, in %s)",
        (long long)s->n_restarts, s->n_restarts == 1 ? "" : "s", (long long)steps.n_lost, 100 * share,
        time_text(job, steps.good_sec), time_text(job, wall));
}

/* Supervises the job to its end. Returns its exit code. */
static int supervise(job_t *job)
{
    supervisor_t s = {.job = job, .life = {.fd = -1}};
    fault_t fault;
    const char *reason = "finished";
    int code = -1;
    bool ran = false;
    err_t err = read_options(job, &s, &code);
    take_signals(job);
    if (job->stopped_by) return stopped_between(job);
    if (err == ERR_OK && code < 0) err = open_life(&s);
    if (err != ERR_OK) say(job, "error: %s", err_message());
    if (err != ERR_OK || code >= 0) {
        life_close(&s.life, false);
        return err != ERR_OK ? (int)err : code;
    }
    words_add_all(&s.words, &job->words);
    if (s.words.n == 0) words_add(&s.words, "train");
    s.is_lenient = job->options.min_ranks > 0;
    job->supervisor = &s;
    do {
        char age[32];
        s.n_starts++;
        job->is_again |= s.n_starts > 1;
        s.trains = false;
        s.n_looks = 0;
        job->look = look_for_step;
        job->look_sec = .2;
        snprintf(age, sizeof age, "%lld", (long long)(clock_sec() - s.since));
        setenv("DPTRAIN_JOB_AGE", age, 1);
        code = start_once(job, &fault, &ran);
        job->look = NULL;
        take_signals(job);
        if (!ran && job->stopped_by) {
            reason = job_text(job, "stopped by SIG%s", signals_name(job->stopped_by));
            break;
        }
        if (ran && !s.trains) look_for_step(job);
        if (code == ERR_PEER) ran = false;
    } while (goes_again(&s, code, &fault, &reason));
    if (!ran && job->stopped_by) code = stopped_between(job);
    end_life(&s, code, reason);
    words_free(&s.words);
    mem_free(&s.hosts);
    return code;
}

/* ---- The launcher ---- */
/* The program for the ranks, and the bundle that this one is in: it has mpirun, and its daemon for other hosts. */
static err_t find_program(job_t *job)
{
    char own[FS_PATH_MAX], path[FS_PATH_MAX];
    const char *given = getenv("DPTRAIN_BIN"), *now = getenv("PATH");
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash && strcmp(slash - (slash - own >= 8 ? 8 : 0), "/libexec/dptrain") == 0) {
        const char *prefix = job_text(job, "%.*s", (int)(slash - 8 - own), own);
        if (access(job_text(job, "%s/bin/orted", prefix), X_OK) == 0 ||
            access(job_text(job, "%s/bin/prted", prefix), X_OK) == 0) {
            job->prefix = prefix;
            setenv("PATH", job_text(job, "%s/bin:%s", prefix, now ? now : ""), 1);
            snprintf(own, sizeof own, "%s/dptrain", prefix);
        }
    }
    if (given && given[0]) {
        if (fs_is_folder(given) || access(given, X_OK) != 0 || !realpath(given, path))
            RAISE(ERR_SYSTEM, "DPTRAIN_BIN: %s is not a program", given);
    } else if (own[0]) {
        snprintf(path, sizeof path, "%s", own);
    } else {
        RAISE(ERR_SYSTEM, "cannot tell where this program is: /proc/self/exe: %s; set DPTRAIN_BIN",
              strerror(errno));
    }
    job->program = job_text(job, "%s", path);
    job->program_name = strrchr(job->program, '/') + 1;
    return ERR_OK;
}

/* The current folder, of a link as the shell shows it, and the working folder of the ranks. */
static err_t find_folders(job_t *job)
{
    char here[FS_PATH_MAX], path[FS_PATH_MAX];
    const char *shown = getenv("PWD"), *wanted = job->options.wdir;
    if (!getcwd(here, sizeof here)) RAISE(ERR_SYSTEM, "the current folder is gone: %s", strerror(errno));
    const bool is_shown = shown && shown[0] == '/' && realpath(shown, path) && strcmp(path, here) == 0;
    job->here = job_text(job, "%s", is_shown ? shown : here);
    job->wdir = !wanted ? job->here : wanted[0] == '/' ? wanted : job_text(job, "%s/%s", job->here, wanted);
    return ERR_OK;
}

static err_t open_log(job_t *job)
{
    const char *folder = job->options.log_dir;
    int fd;
    int64_t n_bytes;
    bool is_new;
    if (!folder || job->options.dry_run) return ERR_OK;
    folder = folder[0] == '/' ? folder : job_text(job, "%s/%s", job->wdir, folder);
    const char *path = job_text(job, "%s/run.sh.log", folder);
    TRY(own_open(path, O_WRONLY, "--log-dir", &fd, &n_bytes));
    if (fd >= 0) close(fd);
    if (own_folder(folder, &is_new) != ERR_OK ||
        own_open(path, O_WRONLY | O_CREAT | O_APPEND, "--log-dir", &job->log_fd, &n_bytes) != ERR_OK)
        say(job, "no log of the launcher: cannot write to %s", job->options.log_dir);
    return ERR_OK;
}

/* mpirun refuses to run as root because a mistake could harm the system. In a container root is often the only user. */
static void allow_root(job_t *job)
{
    const char *a = getenv("OMPI_ALLOW_RUN_AS_ROOT"), *b = getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    if (geteuid() != 0) return;
    if (!a || !b || strcmp(a, "1") != 0 || strcmp(b, "1") != 0)
        say(job,
            "running as root: setting OMPI_ALLOW_RUN_AS_ROOT and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, which mpirun requires");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

/* Names this job, over hosts and containers and however often it starts its ranks. Of the launcher's children the ranks alone have it. */
static void name_job(job_t *job)
{
    char stamp[32] = "", uuid[64] = "";
    const time_t now = time(NULL);
    struct tm parts;
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%S", localtime_r(&now, &parts));
    if (!fs_read_line("/proc/sys/kernel/random/uuid", uuid, sizeof uuid))
        snprintf(uuid, sizeof uuid, "%ld", (long)clock());
    snprintf(job->id, sizeof job->id, "%s-%d-%.*s", stamp, (int)getpid(), (int)strcspn(uuid, "-"), uuid);
    unsetenv("DPTRAIN_JOB");
    unsetenv("DPTRAIN_RESUMES");
    unsetenv("DPTRAIN_JOB_AGE");
}

/* With DPTRAIN_CHECK_OPTIONS set, for tests of examples, the program checks the words that it would get. */
static err_t check_only(const job_t *job)
{
    words_t words = {0};
    if (job->words.n == 0) return ERR_OK;
    words_add(&words, job->program);
    words_add_all(&words, &job->words);
    execv(words.at[0], (char *const *)(uintptr_t)words.at);
    RAISE(ERR_SYSTEM, "cannot start %s: %s", words.at[0], strerror(errno));
}

static int run_once(job_t *job)
{
    fault_t fault;
    bool ran;
    const int code = start_once(job, &fault, &ran);
    take_signals(job);
    if (ran || !job->stopped_by) return code;
    return stopped_between(job);
}

static void free_job(job_t *job)
{
    words_t *const all[] = {
        &job->given,   &job->x,          &job->env_files, &job->flags_given, &job->mca_given, &job->words,
        &job->ssh,     &job->slots_said, &job->mpi_flags, &job->part_flags,  &job->env,       &job->hidden,
        &job->command, &job->trial,      &job->phases,    &job->suspects,    &job->families,  &job->pipes};
    hosts_clear(job);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) words_free(all[i]);
    mem_free(&job->config_text);
    mem_free(&job->hosts_text);
    arena_free(&job->arena);
    arena_free(&job->start);
    arena_free(&job->answers);
    mem_free(&job);
}

int launch_run(int argc, char **argv, const char *called_as)
{
    job_t *job = NULL;
    char host[ANSWER_NAME];
    int code;
    launch_need(mem_new(sizeof *job, "a job", &job));
    job->called_as = called_as;
    job->until_fd = -1;
    launch_host_name(host, sizeof host);
    job->host = job_text(job, "%s", host);
    job->speaker = job_text(job, "%s:", word_base(called_as));
    /* Not the ranks' name, for those who look for them. */
    prctl(PR_SET_NAME, "dptrain-run");
    /* Ignored, as some daemons leave it, it would take the children's exit codes. */
    signal(SIGCHLD, SIG_DFL);
    err_t err = options_read(job, argc, argv);
    if (err == ERR_OK) err = find_program(job);
    const char *only = getenv("DPTRAIN_CHECK_OPTIONS");
    if (err == ERR_OK && only && only[0]) {
        err = check_only(job);
        if (err == ERR_OK) return ERR_OK;
    }
    if (err == ERR_OK) err = env_check();
    if (err == ERR_OK) err = find_folders(job);
    if (err == ERR_OK) allow_root(job);
    if (err == ERR_OK) err = open_log(job);
    if (err == ERR_OK) {
        signals_open();
        name_job(job);
        code = job->options.restarts >= 0 && !job->options.dry_run ? supervise(job) : run_once(job);
    } else {
        say(job, "error: %s", err_message());
        code = (int)err;
    }
    guard_close();
    job_leave_work(job);
    free_job(job);
    return code;
}
