/* SPDX-License-Identifier: MIT */
/* Guest: SIGUSR1 stops a run after its step, with a checkpoint. */
#include "base/log.h"
#include "cluster/session/signals.h"
#include "train/guard/guard.h"

typedef struct stop {
    const comm_t *comm;
    const train_output_t *output;
    const train_position_t *at;
} stop_t;

static err_t stop_open(trainer_t *t, void *state)
{
    stop_t *stop = state;
    *stop = (stop_t){.comm = t->comm, .output = &t->output, .at = &t->at};
    return ERR_OK;
}

static unsigned stop_requests(void *state, bool begins)
{
    (void)state;
    (void)begins;
    return stop_requested() ? REQUEST_STOP : 0;
}

static const char *stop_why(const void *state)
{
    (void)state;
    return stop_words();
}

static err_t stop_at_end(void *state, const run_end_t *end)
{
    const stop_t *stop = state;
    char text[INTERRUPTION_TEXT_MAX];
    if (!end->stopped || stop->comm->rank != 0) return ERR_OK;
    interruption_how_to_resume(stop->output->folder, stop->at->step, text);
    log_info("%s", text);
    return ERR_OK;
}

const guest_t stop_guest = {.name = "stop",
                            .state_bytes = sizeof(stop_t),
                            .open = stop_open,
                            .requests = stop_requests,
                            .why = stop_why,
                            .at_end = stop_at_end};
