/* SPDX-License-Identifier: MIT */
/* Guest: Ctrl-C and SIGTERM. Rank 0 saves the last finished step if it holds the whole state and time suffices, says how
 * to resume, and ends the metrics with a whole line. The process then ends by the signal; when signals arrive and how
 * is left to cluster/session/signals.c. Without collectives: the other ranks may be anywhere.
 *
 * A thread of its own writes the checkpoint, because the main thread may be inside a collective. While the state is open,
 * host memory holds a finished step: the main thread changes it only after closing it. On host backends it is open from
 * the end of a step to the next update of the weights. On a GPU it is open during validation, and after a step if a signal
 * has arrived. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/session/disk_wait.h"
#include "cluster/session/signals.h"
#include "store/checkpoint/store.h"
#include "text/progress.h"
#include "train/guard/guard.h"
#include "train/run/checkpoint_content.h"

/* mpirun kills its ranks 1 s after it has passed a signal on. */
static const double launched_sec = 0.8, alone_sec = 8, other_ranks_sec = 0.9;

static struct {
    trainer_t *t; /* NULL: not rank 0, or nothing to save */
    pthread_mutex_t lock;
    bool closed;       /* the main thread holds the lock; used by it alone */
    atomic_bool ready; /* set up: the state can be saved */
    int64_t first;     /* the step at which this process started */
    /* Under the lock. */
    bool swapped;  /* weights and their moving average are */
    bool averaged; /* the running statistics are averages over the ranks */
    float *states; /* running statistics of the last finished step, of each of this rank's shards */
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool on_device(void)
{
    return run.t->runtime.backend->memory != NULL;
}

/* Running statistics, one set for each shard. */
static const hd_buffer_t *own_states(void)
{
    const trainer_t *t = run.t;
    return t->learning.shards ? &t->learning.shards->states : &t->model.states;
}

/* In training, each rank has its own running statistics; a checkpoint holds the average. */
static bool has_whole_state(void)
{
    return run.t->comm->size == 1 || run.t->model.graph->n_flat_states == 0 || run.averaged;
}

static void note_states(void)
{
    const hd_buffer_t *states = own_states();
    if (run.states && states->n_bytes > 0) memcpy(run.states, states->host, states->n_bytes);
}

static void close_state(void)
{
    if (!run.t || run.closed) return;
    pthread_mutex_lock(&run.lock);
    run.closed = true;
}

static void open_state(void)
{
    if (!run.closed) return;
    run.closed = false;
    pthread_mutex_unlock(&run.lock);
}

static err_t copy_from_device(void)
{
    trainer_t *t = run.t;
    if (!t || !on_device()) return ERR_OK;
    TRY(hd_buffer_pull_all(&t->model.params));
    TRY(optim_pull(t->learning.optim));
    TRY(hd_buffer_pull_all(own_states()));
    note_states();
    return ERR_OK;
}

/* Between steps. On a GPU only after a signal: it then copies the state to the host and does not return. */
static err_t open_after_step(void)
{
    if (!run.t) return ERR_OK;
    close_state();
    run.swapped = run.averaged = false;
    if (on_device()) {
        if (!interrupt_arrived() || run.t->steps.ahead) return ERR_OK;
        TRY(copy_from_device());
    } else {
        note_states();
    }
    open_state();
    interrupt_wait();
    return ERR_OK;
}

/* With averaged running statistics. On a GPU the host side is up to date; on the CPU the weights and their moving
 * average, if any, are swapped. */
static void open_for_evaluation(void)
{
    if (!run.t) return;
    run.swapped = run.t->learning.optim->average && !run.t->learning.slices.size && !on_device();
    run.averaged = true;
    if (!on_device()) note_states();
    open_state();
}

/* The newest checkpoint in a run's folder; -1: none. Files appear there when they are complete; one with a later step than
 * the run's was renamed. */
static int64_t newest_checkpoint(const char *folder, int64_t step)
{
    int64_t *steps = NULL, newest = -1;
    int n = 0;
    if (fs_is_folder(folder) && checkpoint_store_list(folder, &steps, &n) == ERR_OK)
        for (int i = n - 1; i >= 0; i--)
            if (steps[i] <= step || step == 0) newest = steps[i];
    mem_free(&steps);
    return newest;
}

void interruption_how_to_resume(const char *folder, int64_t step, char out[INTERRUPTION_TEXT_MAX])
{
    char path[FS_PATH_MAX], quoted[FS_PATH_MAX + 64];
    disk_wait_begin("listing", folder);
    int64_t newest = newest_checkpoint(folder, step);
    bool has_records = fs_join(path, folder, "metrics.jsonl") == ERR_OK && fs_exists(path);
    disk_wait_end();
    fs_quote(folder, quoted, sizeof quoted);
    if (newest >= 0 && checkpoint_store_path(folder, newest, path) == ERR_OK)
        snprintf(out, INTERRUPTION_TEXT_MAX, "checkpoint %s; continue with --resume auto --out %s", path,
                 quoted);
    else if (has_records)
        snprintf(out, INTERRUPTION_TEXT_MAX, "no checkpoint yet; start again with --resume auto --out %s",
                 quoted);
    else
        snprintf(out, INTERRUPTION_TEXT_MAX, "no checkpoint yet; start again with the same command");
}

/* What mpirun's exit code means; run.sh has its own codes and words. */
static const char *code_words(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") && !getenv("DPTRAIN_JOB")
               ? "after Ctrl-C or SIGTERM, mpirun returns 1 although training did not fail; scripts/run.sh returns "
                 "130 or 143"
               : "";
}

/* An interruption in progress. */
typedef struct last {
    int number;
    double end_sec;
    bool locked;                            /* the state is open, and stays so */
    char stands[128], why[ERR_MESSAGE_MAX]; /* where the run stands; why its step is not saved, or "" */
} last_t;

static bool lock_state(double until_sec)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    double left = until_sec - clock_sec();
    if (left > 0) {
        long ns = until.tv_nsec + (long)(1e9 * (left - (double)(long)left));
        until.tv_sec += (time_t)left + ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
    }
    return pthread_mutex_timedlock(&run.lock, &until) == 0;
}

/* Prepares what the process says if the acts take too long. */
static void arm_limit(const last_t *last, const char *path)
{
    enum { MAX = INTERRUPTION_TEXT_MAX + 1024 };
    char resume[INTERRUPTION_TEXT_MAX], folder[FS_PATH_MAX], temp[FS_PATH_MAX] = "", *text;
    if (mem_new(MAX, "a message", &text) != ERR_OK) return;
    interruption_how_to_resume(run.t->output.folder, run.t->at.step, resume);
    if (path && fs_temp_path(path, folder, temp) != ERR_OK) temp[0] = '\0';
    snprintf(text, MAX, "%s\nnot saved: there was not enough time\n%s\n%s\n", last->stands, resume,
             code_words());
    interrupt_on_limit(text, temp);
    mem_free(&text);
}

/* Running statistics of the last finished step: of the only shard, or averaged as by shards_average_states. */
static void average_states(float *out)
{
    const trainer_t *t = run.t;
    int64_t n = t->model.graph->n_flat_states,
            n_shards = t->learning.shards ? t->learning.shards->n_local : 1;
    for (int64_t k = 0; k < n; k++) {
        double sum = 0;
        for (int64_t i = 0; i < n_shards; i++) sum += run.states[i * n + k];
        out[k] = (float)(sum / (double)n_shards);
    }
}

/* The main thread may be reading the weights: its results are lost, as the process is ending. */
static void swap_average_back(void)
{
    trainer_t *t = run.t;
    float *weights = t->model.params.host, *average = t->learning.optim->average->flat.host;
    for (int64_t i = 0; i < t->model.graph->n_flat_trained; i++) {
        float weight = average[i];
        average[i] = weights[i];
        weights[i] = weight;
    }
}

static err_t write_state(const last_t *last)
{
    trainer_t *t = run.t;
    trainer_content_t content;
    float *states;
    char path[FS_PATH_MAX];
    TRY(comm_check_sums(t->comm));
    TRY(checkpoint_store_path(t->output.folder, t->at.step, path));
    arm_limit(last, path);
    if (run.swapped) swap_average_back();
    TRY(mem_new_array(t->model.graph->n_flat_states, sizeof *states, "running statistics", &states));
    average_states(states);
    err_t err = trainer_make_content(t, states, &content);
    if (err == ERR_OK) {
        err = checkpoint_check_finite(&content.model.content, t->at.step, t->output.folder);
        if (err == ERR_OK) err = checkpoint_write_owned(path, &content.model.content, NULL, t->output.owner);
        trainer_release_content(&content);
    }
    mem_free(&states);
    return err;
}

/* Waits for the checkpoint that the background writer has of this step. */
static bool written_in_background(const last_t *last)
{
    const char *folder = run.t->output.folder;
    const int64_t step = run.t->at.step;
    while (newest_checkpoint(folder, step) != step && clock_sec() < last->end_sec - 0.1) clock_sleep(0.01);
    return newest_checkpoint(folder, step) == step;
}

/* Under run.sh --restarts a user's signal is SIGUSR1, and SIGTERM means that a rank was lost: its start resumes by itself,
 * from a step at which all replicas were equal. */
static bool only_compared(void)
{
    return run.t->comm->size > 1 && !run.t->options->replicas_off && getenv("DPTRAIN_RESUMES");
}

static void save_step(last_t *last)
{
    trainer_t *t = run.t;
    if (t->at.step == run.first || newest_checkpoint(t->output.folder, t->at.step) == t->at.step) return;
    if (!last->locked)
        snprintf(last->why, sizeof last->why, "the step in progress did not end in time");
    else if (t->saving.last_step == t->at.step) {
        if (!written_in_background(last)) snprintf(last->why, sizeof last->why, "the disk is too slow");
    } else if (only_compared())
        snprintf(last->why, sizeof last->why,
                 "replicas were not compared at this step; run.sh --restarts resumes only where they were");
    else if (t->learning.slices.size)
        snprintf(
            last->why, sizeof last->why,
            "with --shard-optimizer each rank holds a part of the state, and gathering it takes all ranks; SIGUSR1 and "
            "scripts/run.sh save before they stop a run");
    else if (!has_whole_state())
        snprintf(last->why, sizeof last->why,
                 "the ranks hold different running statistics of batch norm, and averaging them takes all "
                 "ranks; SIGUSR1 and scripts/run.sh save before they stop a run");
    else if (write_state(last) != ERR_OK)
        snprintf(last->why, sizeof last->why, "%s", err_message());
}

/* Appends the last record, and keeps the main thread from appending more. */
static void end_metrics(const last_t *last)
{
    trainer_t *t = run.t;
    if (!t->output.records.file) return;
    flockfile(t->output.records.file);
    bool over = t->at.step == t->steps.n && !t->at.evaluation_due; /* has its own last records */
    if (last->locked && !over) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        int64_t peak = (int64_t)usage.ru_maxrss * 1024;
        char reason[48];
        metrics_t metrics = t->output.records;
        metrics.json = (json_t){0}; /* the main thread may be using the other one */
        snprintf(reason, sizeof reason, "interrupted by %s", interrupt_name(last->number));
        end_record_write(t, &metrics, reason, &peak, 1);
        json_free(&metrics.json);
    }
    if (owner_check(t->output.owner) == ERR_OK) fflush(t->output.records.file);
    if (last->locked && t->output.tensorboard.file) fflush(t->output.tensorboard.file);
}

static void describe_position(last_t *last)
{
    const trainer_t *t = run.t;
    const char *signal = interrupt_name(last->number);
    if (!atomic_load(&run.ready))
        snprintf(last->stands, sizeof last->stands, "interrupted by %s during start-up", signal);
    else if (t->at.step == 0)
        snprintf(last->stands, sizeof last->stands, "interrupted by %s before the first step", signal);
    else
        snprintf(last->stands, sizeof last->stands, "interrupted by %s after step %lld of %lld%s", signal,
                 (long long)t->at.step, (long long)t->steps.n,
                 t->at.evaluation_due ? ", during validation" : "");
}

static void say(const last_t *last)
{
    char resume[INTERRUPTION_TEXT_MAX];
    interruption_how_to_resume(run.t->output.folder, run.t->at.step, resume);
    progress_clear_line();
    log_info("%s", last->stands);
    if (last->why[0]) log_info("not saved: %s", last->why);
    log_info("%s", resume);
    if (code_words()[0]) log_info("%s", code_words());
    interrupt_on_limit("", NULL);
}

/* On a thread of its own, which blocks signals. */
static void act(int number, double end_sec)
{
    trainer_t *t = run.t;
    last_t last = {.number = number, .end_sec = end_sec};
    double now = clock_sec();
    log_last_words();
    describe_position(&last);
    arm_limit(&last, NULL);
    if (atomic_load(&run.ready)) {
        last.locked = lock_state(now + 0.6 * (end_sec - now));
        describe_position(&last);
        save_step(&last);
    }
    end_metrics(&last);
    say(&last);
    if (last.locked) checkpoint_store_prune(t->output.folder, train_keep(t->options, &t->at), -1, NULL);
    owner_leave(t->output.owner);
}

err_t interruption_catch(trainer_t *t)
{
    if (!log_speaks()) return interrupt_catch(NULL, other_ranks_sec);
    run.t = t;
    atomic_store(&run.ready, false);
    close_state();
    return interrupt_catch(act, launch_present() ? launched_sec : alone_sec);
}

void interruption_release(void)
{
    interrupt_release();
    mem_free(&run.states);
    open_state();
    run.t = NULL;
}

/* The run is in `run`, for the thread that acts. */
static err_t interruption_begin(void *state)
{
    (void)state;
    if (!run.t) return ERR_OK;
    run.first = run.t->at.step;
    TRY(mem_new(own_states()->n_bytes, "running statistics", &run.states));
    mem_touch(run.states, own_states()->n_bytes);
    atomic_store(&run.ready, true);
    return ERR_OK;
}

static bool interruption_pauses(const void *state, int64_t done)
{
    (void)state;
    (void)done;
    return interrupt_arrived();
}

static err_t interruption_begin_change(void *state, change_t change)
{
    (void)state;
    close_state();
    return change == CHANGE_EVALUATION ? copy_from_device() : ERR_OK;
}

static err_t interruption_end_change(void *state, change_t change)
{
    (void)state;
    if (change == CHANGE_STEP) return open_after_step();
    open_for_evaluation();
    return ERR_OK;
}

static err_t interruption_after_step(void *state, const step_result_t *result)
{
    (void)state;
    (void)result;
    return open_after_step();
}

const guest_t interruption_guest = {.name = "interruption",
                                    .begin = interruption_begin,
                                    .pauses = interruption_pauses,
                                    .begin_change = interruption_begin_change,
                                    .end_change = interruption_end_change,
                                    .after_step = interruption_after_step};
