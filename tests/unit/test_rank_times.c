/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Stragglers from made-up times: who is named, when, for what, and who is not; times from slots of the allreduce. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/guard/stragglers.h"
#include "train/output/rank_times.h"

enum { MAX_RANKS = 8 };

/* Ranks on hosts of `per_host`. */
static rank_times_t begin(int n, int per_host, double window_sec, double factor)
{
    rank_times_t t;
    rank_place_t places[MAX_RANKS] = {0};
    for (int r = 0; r < n; r++) {
        places[r].host_index = r / per_host;
        snprintf(places[r].host, sizeof places[r].host, "node%d", r / per_host);
    }
    if (rank_times_open(n, places, window_sec, factor, &t) != ERR_OK) exit(1);
    return t;
}

/* Runs windows of ten steps of 1 s compute, 0.1 s data and 0.1 s communication; in `phase` the ranks of `slow`, a bit
 * each, take by `sec` longer. Returns how many were named. */
static int run(rank_times_t *t, int n_windows, unsigned slow, rank_phase_t phase, double sec)
{
    static int64_t step;
    int n = 0;
    for (int i = 0; i < n_windows * RANK_TIMES_STEPS; i++, step++) {
        rank_step_t steps[MAX_RANKS];
        for (int r = 0; r < t->n_ranks; r++) {
            steps[r] = (rank_step_t){{1, 0.1, 0.1}};
            if (slow >> r & 1) steps[r].sec[phase] += sec;
        }
        n += rank_times_add(t, step, steps, (double)step);
    }
    return n;
}

static void test_two(void)
{
    rank_times_t t = begin(2, 2, 0, 1);
    OK(run(&t, 20, 2, RANK_COMPUTE, 0.29) == 0, "two ranks: 1.29 times the other is not slow");
    OK(run(&t, RANK_TIMES_WINDOWS - 1, 2, RANK_COMPUTE, 0.4) == 0, "nor is a rank after 40 steps");
    OK(run(&t, 1, 2, RANK_COMPUTE, 0.4) == 1, "1.4 times in 50 steps: it is named");
    const straggler_t *s = &t.named[0];
    OK(s->rank == 1 && s->n_ranks == 1 && s->phase == RANK_COMPUTE && fabs(s->sec - 1.4) < 1e-6 &&
           fabs(s->usual_sec - 1) < 1e-6 && s->last_step - s->first_step == 49,
       "the slower one, with its phase and times (rank %d, %g, %g)", s->rank, s->sec, s->usual_sec);
    OK(run(&t, 20, 2, RANK_COMPUTE, 0.4) == 0 && run(&t, 20, 2, RANK_DATA, 5) == 0 &&
           s->last_step - s->first_step == 249,
       "once, and for nothing else; the record goes on");
    char text[RANK_TIMES_TEXT_MAX];
    rank_times_describe(&t, s, text);
    OK(strstr(text, "rank 1 on node0 is slow: compute took 1.400 s per step in steps ") &&
           strstr(text, ", on the other rank 1 s; "),
       "%s", text);
    OK(run(&t, 5, 1, RANK_DATA, 0.3) == 1 && t.named[1].rank == 0 && t.named[1].phase == RANK_DATA,
       "the other rank, for data");
    rank_times_close(&t);
}

static void test_noise(void)
{
    rank_times_t t = begin(3, 3, 0, 1);
    int n = 0;
    for (int i = 0; i < 20; i++) n += run(&t, 4, 1, RANK_COMPUTE, 3) + run(&t, 1, 2, RANK_COMPUTE, 3);
    OK(n == 0, "ranks that are slow in turn are not named");
    OK(run(&t, 4, 1, RANK_COMPUTE, 3) + run(&t, 3, 1, RANK_COMPUTE, 0.2) == 0,
       "between the limits: not counted");
    OK(run(&t, 1, 1, RANK_COMPUTE, 3) == 1, "nor forgotten");
    OK(run(&t, 30, 7, RANK_COMPUTE, 3) == 0, "all ranks are slow: none is named");
    OK(run(&t, 30, 4, RANK_DATA, 0.15) == 0, "2.5 times, but too little of a step");
    rank_times_close(&t);
    t = begin(2, 2, 0, 2);
    OK(run(&t, 10, 1, RANK_COMPUTE, 1.5) == 0, "a rank with twice the samples may take 2.5 times as long");
    OK(run(&t, 5, 1, RANK_COMPUTE, 1.7) == 1, "but not 2.7 times");
    rank_times_close(&t);
    t = begin(2, 2, 30, 1); /* steps take 1 s */
    OK(run(&t, 15, 1, RANK_COMPUTE, 1) == 0 && run(&t, 1, 1, RANK_COMPUTE, 1) == 1,
       "windows of at least 30 s: named after five of them");
    rank_times_close(&t);
}

static void test_long_window(void)
{
    rank_times_t t = begin(2, 2, 999, 1);
    OK(run(&t, 505, 1, RANK_COMPUTE, 1) == 1 && t.n_samples <= RANK_TIMES_SAMPLES &&
           fabs(t.named[0].sec - 2) < 1e-6,
       "of 1000 steps in a window, a sample is kept");
    rank_times_close(&t);
}

static void test_hosts(void)
{
    rank_times_t t = begin(8, 4, 0, 1);
    OK(run(&t, 5, 0xf0, RANK_COMPUTE, 1) == 1 && t.named[0].rank == 4 && t.named[0].n_ranks == 4,
       "all ranks of a host: named as one");
    char text[RANK_TIMES_TEXT_MAX];
    rank_times_describe(&t, &t.named[0], text);
    OK(strstr(text, "the 4 ranks on node1 are slow: "), "%s", text);
    OK(run(&t, 5, 0xf0, RANK_COMPUTE, 1) == 0, "once");
    rank_times_close(&t);
    t = begin(8, 4, 0, 1);
    OK(run(&t, 5, 0x70, RANK_COMPUTE, 1) == 3, "three of four: each");
    rank_times_close(&t);
    t = begin(4, 2, 0, 1);
    OK(run(&t, 5, 2, RANK_COMM, 1) == 1 && t.named[0].rank == 1 && t.named[0].phase == RANK_COMM,
       "a rank of several, for communication");
    rank_times_close(&t);
}

static void set_slot(float *slots, int rank, double compute, double comm, double enter)
{
    float *slot = slots + (ptrdiff_t)rank * RANK_SLOT_FLOATS;
    slot[RANK_SLOT_COMPUTE] = (float)compute;
    slot[RANK_SLOT_DATA] = 0.5F;
    slot[RANK_SLOT_COMM] = (float)comm;
    slot[RANK_SLOT_ENTER] = (float)enter;
    slot[RANK_SLOT_ENTER_LOW] = (float)(enter - (double)slot[RANK_SLOT_ENTER]);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-5;
}

static void test_slots(void)
{
    rank_place_t places[4] = {{"a", 0}, {"a", 0}, {"b", 1}, {"b", 1}};
    float slots[4 * RANK_SLOT_FLOATS] = {0};
    rank_step_t out[4];
    OK(!stragglers_read(slots, 2, places, out), "without times there is nothing to compare");
    /* After 40 days. Rank 1 arrives 2 s after rank 0; the sum takes 0.25 s. */
    set_slot(slots, 0, 1, 2.25, 3456789.125);
    set_slot(slots, 1, 3, 0.25, 3456791.125);
    OK(stragglers_read(slots, 2, places, out) && near(out[0].sec[RANK_COMM], 0.25) &&
           near(out[1].sec[RANK_COMM], 0.25) && near(out[1].sec[RANK_COMPUTE], 3),
       "waiting for a slow rank is not communication (%g, %g)", out[0].sec[RANK_COMM], out[1].sec[RANK_COMM]);
    set_slot(slots, 1, 3, 1.25, 3456791.125);
    OK(stragglers_read(slots, 2, places, out) && near(out[0].sec[RANK_COMM], 0.25) &&
           near(out[1].sec[RANK_COMM], 1.25),
       "a rank that leaves late counts it (%g, %g)", out[0].sec[RANK_COMM], out[1].sec[RANK_COMM]);
    /* Host b has another clock; its ranks arrive 5 s before those of a, and rank 3 leaves 1 s late. */
    set_slot(slots, 1, 3, 0.25, 3456791.125);
    set_slot(slots, 2, 1, 5.25, 77);
    set_slot(slots, 3, 1, 6.25, 77);
    OK(stragglers_read(slots, 4, places, out) && near(out[0].sec[RANK_COMM], 0.25) &&
           near(out[2].sec[RANK_COMM], 0.25) && near(out[3].sec[RANK_COMM], 1.25),
       "nor is waiting for another host, whatever its clock (%g, %g)", out[2].sec[RANK_COMM],
       out[3].sec[RANK_COMM]);
}

int main(void)
{
    tap_plan(26);
    test_two();
    test_noise();
    test_long_window();
    test_hosts();
    test_slots();
    OK(mem_live() == 0, "all memory is released");
    return tap_done();
}
