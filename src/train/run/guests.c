/* SPDX-License-Identifier: MIT */
/* Calls the guests of a run, in the order of the registry. */
#include "train/run/guest.h"

#include <string.h>

#include "base/mem.h"

/* The guests that have a member. */
#define EACH(i, guests, member)                                                                              \
    for (int i = 0; i < (guests)->n; i++)                                                                    \
        if ((guests)->at[i].guest->member)

void guests_choose(const guest_t *const *registry, const struct trainer *t, guests_t *out)
{
    *out = (guests_t){.registry = registry};
    for (; *registry; registry++) {
        const guest_t *guest = *registry;
        if (guest->wanted && !guest->wanted(t)) continue;
        const int64_t n_floats = guest->floats ? guest->floats(t) : 0;
        ASSERT(out->n < GUESTS_MAX);
        out->at[out->n].guest = guest;
        out->at[out->n++].n_floats = n_floats;
        out->n_floats += n_floats;
    }
}

err_t guests_open(guests_t *guests, struct trainer *t)
{
    for (int i = 0; i < guests->n; i++) {
        const guest_t *guest = guests->at[i].guest;
        void **state = &guests->at[i].state;
        if (guest->state_bytes)
            TRY(mem_new(guest->state_bytes, guest->name, state));
        else
            *state = t;
        if (guest->open) TRY(guest->open(t, *state));
    }
    return ERR_OK;
}

void guests_close(guests_t *guests)
{
    for (int i = 0; i < guests->n; i++) {
        const guest_t *guest = guests->at[i].guest;
        void **state = &guests->at[i].state;
        if (*state && guest->close) guest->close(*state);
        if (guest->state_bytes) mem_free(state);
    }
    guests->n = 0;
}

void *guests_state(const guests_t *guests, const guest_t *guest)
{
    for (int i = 0; i < guests->n; i++)
        if (guests->at[i].guest == guest) return guests->at[i].state;
    return NULL;
}

err_t guests_begin(guests_t *guests)
{
    EACH(i, guests, begin) TRY(guests->at[i].guest->begin(guests->at[i].state));
    return ERR_OK;
}

unsigned guests_requests(guests_t *guests, bool begins)
{
    unsigned requests = 0;
    EACH(i, guests, requests) requests |= guests->at[i].guest->requests(guests->at[i].state, begins);
    return requests;
}

void guests_put(guests_t *guests, float *floats)
{
    memset(floats, 0, (size_t)guests->n_floats * sizeof *floats);
    for (int i = 0; i < guests->n; floats += guests->at[i++].n_floats)
        if (guests->at[i].guest->put) guests->at[i].guest->put(guests->at[i].state, floats);
}

err_t guests_take(guests_t *guests, const float *floats)
{
    for (int i = 0; i < guests->n; floats += guests->at[i++].n_floats)
        if (guests->at[i].guest->take) TRY(guests->at[i].guest->take(guests->at[i].state, floats));
    return ERR_OK;
}

bool guests_pauses(const guests_t *guests, int64_t done)
{
    EACH(i, guests, pauses) if (guests->at[i].guest->pauses(guests->at[i].state, done)) return true;
    return false;
}

err_t guests_begin_change(guests_t *guests, change_t change)
{
    EACH(i, guests, begin_change) TRY(guests->at[i].guest->begin_change(guests->at[i].state, change));
    return ERR_OK;
}

err_t guests_end_change(guests_t *guests, change_t change)
{
    EACH(i, guests, end_change) TRY(guests->at[i].guest->end_change(guests->at[i].state, change));
    return ERR_OK;
}

err_t guests_after_step(guests_t *guests, const step_result_t *result)
{
    EACH(i, guests, after_step) TRY(guests->at[i].guest->after_step(guests->at[i].state, result));
    return ERR_OK;
}

err_t guests_verify(guests_t *guests, bool with_states)
{
    EACH(i, guests, verify) TRY(guests->at[i].guest->verify(guests->at[i].state, with_states));
    return ERR_OK;
}

err_t guests_after_epoch(guests_t *guests, const epoch_result_t *result)
{
    EACH(i, guests, after_epoch) TRY(guests->at[i].guest->after_epoch(guests->at[i].state, result));
    return ERR_OK;
}

const char *guests_over(const guests_t *guests)
{
    const char *why = NULL;
    EACH(i, guests, over) if (!why) why = guests->at[i].guest->over(guests->at[i].state);
    return why;
}

const char *guests_why(const guests_t *guests)
{
    const char *why = NULL;
    EACH(i, guests, why) if (!why) why = guests->at[i].guest->why(guests->at[i].state);
    return why;
}

bool guests_saves(const guests_t *guests, bool epoch_end)
{
    EACH(i, guests, saves) if (guests->at[i].guest->saves(guests->at[i].state, epoch_end)) return true;
    return false;
}

err_t guests_before_save(guests_t *guests, bool lasting)
{
    EACH(i, guests, before_save) TRY(guests->at[i].guest->before_save(guests->at[i].state, lasting));
    return ERR_OK;
}

void guests_saving(guests_t *guests)
{
    EACH(i, guests, saving) guests->at[i].guest->saving(guests->at[i].state);
}

void guests_saved(guests_t *guests, double cost_sec, json_t *j)
{
    EACH(i, guests, saved) guests->at[i].guest->saved(guests->at[i].state, cost_sec, j);
}

err_t guests_at_end(guests_t *guests, const run_end_t *end)
{
    EACH(i, guests, at_end) TRY(guests->at[i].guest->at_end(guests->at[i].state, end));
    return ERR_OK;
}
