/* SPDX-License-Identifier: MIT */
/* Two guests: telemetry sums the costs of steady steps and times layers; at the end, profile reports them and writes the
 * trace. Measuring a step is left to step.c. */
#include "train/guard/telemetry.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "train/guard/stragglers.h"

enum { RATE_RING = 1 << 16, LAYER_STEPS = 5 };

/* Allocates and touches the ring. */
static err_t telemetry_open(trainer_t *t, void *state)
{
    telemetry_t *telemetry = state;
    telemetry->t = t;
    TRY(mem_new_array(RATE_RING, sizeof *telemetry->step_rates, "step times", &telemetry->step_rates));
    mem_touch(telemetry->step_rates, RATE_RING * sizeof *telemetry->step_rates);
    return ERR_OK;
}

static void telemetry_close(void *state)
{
    telemetry_t *telemetry = state;
    mem_free(&telemetry->step_rates);
}

/* In steady steps on the CPU. On a GPU, where timing synchronizes after every layer, in the last steps of the
 * warm-up. */
static void time_layers(exec_t *exec, bool waits, int64_t nth)
{
    bool begins = nth == RATE_WARMUP_STEPS - LAYER_STEPS;
    if (begins || !waits) exec_clear_costs(exec);
    if (begins) exec_time_layers(exec, true);
    if (nth == RATE_WARMUP_STEPS) exec_time_layers(exec, false);
}

static err_t after_step(void *state, const step_result_t *r)
{
    telemetry_t *telemetry = state;
    trainer_t *t = telemetry->t;
    const step_cost_t *cost = &r->cost;
    profile_split_t *sums = &telemetry->steady;
    if (r->nth <= RATE_WARMUP_STEPS) {
        cpu_watch_restart(&t->model.cpu_watch);
        time_layers(t->model.exec, t->runtime.backend->memory != NULL, r->nth);
        return ERR_OK;
    }
    sums->data += cost->data;
    sums->forward += cost->forward;
    sums->backward += cost->backward;
    sums->comm += cost->comm;
    sums->gather += cost->gather;
    sums->optimizer += cost->optimizer;
    sums->total += cost->total;
    telemetry->n_samples += r->n;
    telemetry->n_allocations += cost->n_allocations;
    telemetry->n_page_faults += cost->n_page_faults;
    telemetry->cpu_sec += cost->cpu;
    telemetry->boxes_sec += cost->boxes;
    telemetry->masks_sec += cost->masks;
    if (r->whole) telemetry->step_rates[telemetry->n_rates++ % RATE_RING] = (double)r->n / cost->total;
    return ERR_OK;
}

double telemetry_rate(const telemetry_t *telemetry)
{
    const double total = telemetry->steady.total;
    return total > 0 ? (double)telemetry->n_samples / total : NAN;
}

double telemetry_median_rate(const telemetry_t *telemetry)
{
    int64_t n = telemetry->n_rates < RATE_RING ? telemetry->n_rates : RATE_RING;
    return stats_median(telemetry->step_rates, n);
}

/* Collective. */
static err_t report_profile(const telemetry_t *telemetry)
{
    trainer_t *t = telemetry->t;
    int64_t n_steps = t->steps.n_done - RATE_WARMUP_STEPS;
    if (n_steps <= 0) {
        if (t->options->profile)
            log_info("no profile: the first %d steps of a process are not measured", RATE_WARMUP_STEPS);
        return ERR_OK;
    }
    profile_t profile;
    cpu_use_t cpu;
    TRY(cpu_use_gather(t->comm, &t->model.cpu_watch, t->runtime.n_threads, t->runtime.n_host_cpus, &cpu));
    profile_run_t run = {.exec = t->model.exec,
                         .backend = t->runtime.backend,
                         .sums = &telemetry->steady,
                         .n_steps = n_steps,
                         .sum_sec = comm_buffer_sec(&t->learning.buffer),
                         .cpu = &cpu,
                         .may_measure =
                             strcmp(t->options->algorithms, "fixed") == 0 && !t->options->reproducible,
                         .boxes_sec = telemetry->boxes_sec,
                         .masks_sec = telemetry->masks_sec,
                         .times = stragglers_times(&t->guests),
                         .n_layer_steps = t->runtime.backend->memory ? LAYER_STEPS : n_steps};
    err_t err = profile_gather(t->comm, &run, &profile);
    if (err == ERR_OK) {
        log_level_t level = log_get_level();
        if (level > LOG_QUIET) profile_print(&profile, t->options->profile || level == LOG_VERBOSE);
        json_t *j = metrics_begin(&t->output.records, RECORD_PROFILE);
        if (j) profile_json(&profile, j);
        err = comm_agree(t->comm, metrics_end(&t->output.records, true), "writing metrics");
    }
    profile_free(&profile);
    return err;
}

const guest_t telemetry_guest = {.name = "telemetry",
                                 .state_bytes = sizeof(telemetry_t),
                                 .open = telemetry_open,
                                 .close = telemetry_close,
                                 .after_step = after_step};

/* Comes late: measuring the peak needs memory and time. */
static err_t profile_at_end(void *state, const run_end_t *end)
{
    trainer_t *t = state;
    (void)end;
    TRY(report_profile(guests_state(&t->guests, &telemetry_guest)));
    return trace_file_write(&t->output.trace);
}

const guest_t profile_guest = {.name = "profile", .at_end = profile_at_end};
