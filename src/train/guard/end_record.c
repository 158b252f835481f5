/* SPDX-License-Identifier: MIT */
/* Guest: gathers and writes the record of the end of a run, and prints it. When a run ends is left to loop.c and
 * interruption.c. */
#include <sys/resource.h>

#include "base/log.h"
#include "cluster/comm/device.h"
#include "cluster/watch/watchdog.h"
#include "text/figure.h"
#include "train/guard/guard.h"
#include "train/guard/telemetry.h"

/* What the measures against faults have cost this rank, and the time of all its steps to compare with. */
static void put_safety(const guests_t *guests, double steps_sec, json_t *j)
{
    const watchdog_cost_t watchdog = watchdog_cost();
    json_object_begin(j, "safety_sec");
    for (const guest_t *const *guest = guests->registry; *guest; guest++) {
        const void *state = guests_state(guests, *guest);
        if ((*guest)->spent_sec) json_real(j, (*guest)->name, state ? (*guest)->spent_sec(state) : 0);
    }
    json_real(j, "watchdog_calls", watchdog.calls_sec);
    json_real(j, "watchdog_thread", watchdog.thread_sec);
    json_real(j, "steps", steps_sec);
    json_object_end(j);
}

err_t end_record_write(trainer_t *t, metrics_t *metrics, const char *why, const int64_t *peaks, int n)
{
    const telemetry_t *telemetry = guests_state(&t->guests, &telemetry_guest);
    json_t *j = metrics_begin(metrics, RECORD_END);
    if (!j) return ERR_OK;
    json_string(j, "reason", why);
    if (comm_on_device(t->comm)) {
        /* NCCL chooses its algorithm at the first allreduce. */
        char by[256];
        comm_describe_gradients(t->comm, by, sizeof by);
        json_string(j, "gradients", by);
    }
    json_int(j, "step", t->at.step);
    json_real(j, "images_per_sec", telemetry_rate(telemetry));
    json_real(j, "median_images_per_sec", telemetry_median_rate(telemetry));
    json_int(j, "steady_steps", telemetry->n_rates);
    json_int(j, "steady_allocations", telemetry->n_allocations);
    json_int(j, "steady_page_faults", telemetry->n_page_faults);
    json_real(j, "steady_cpu_sec", telemetry->cpu_sec);
    json_int(j, "corrupt_samples", bad_count(&t->input.bad));
    put_safety(&t->guests, t->steps.total_sec, j);
    json_array_begin(j, "peak_memory_bytes");
    for (int r = 0; r < n; r++) json_int(j, NULL, peaks[r]);
    json_array_end(j);
    return metrics_end(metrics, true);
}

static err_t end_record_at_end(void *state, const run_end_t *end)
{
    trainer_t *t = state;
    const char *why = end->why;
    const telemetry_t *telemetry = guests_state(&t->guests, &telemetry_guest);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const int64_t mine = (int64_t)usage.ru_maxrss * 1024;
    int64_t peaks[2] = {mine, mine}; /* of this rank, and the greatest */
    TRY(comm_allreduce(t->comm, &peaks[1], 1, DTYPE_I64, COMM_MAX, "peak memory"));
    err_t err = end_record_write(t, &t->output.records, why, peaks, t->comm->size > 1 ? 2 : 1);
    const char *plural = t->at.step == 1 ? "" : "s";
    if (telemetry->n_samples > 0)
        log_info(
            "%s after %lld step%s: %s, %s peak memory on rank 0", why, (long long)t->at.step, plural,
            figure_throughput(telemetry_rate(telemetry), telemetry_median_rate(telemetry), "images/s").text,
            figure_bytes((double)peaks[0]).text);
    else
        log_info("%s after %lld step%s", why, (long long)t->at.step, plural);
    if (bad_count(&t->input.bad) > 0)
        log_warn("%lld of %lld images could not be read and were replaced by others",
                 (long long)bad_count(&t->input.bad),
                 (long long)(t->input.dataset->info.n_samples[SPLIT_TRAIN] +
                             t->input.dataset->info.n_samples[SPLIT_VAL]));
    return comm_agree(t->comm, err, "writing metrics");
}

const guest_t end_record_guest = {.name = "end record", .at_end = end_record_at_end};
