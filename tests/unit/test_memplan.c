/* SPDX-License-Identifier: MIT */
/* RUN np=0 : the memory plan never lets two live buffers overlap, and is close to the lower bound. */
#include "base/mem.h"
#include "base/rng.h"
#include "compute/graph/plan.h"
#include "tests/tap.h"

enum { CASES = 200, MOST = 40 };

static bool sound(const memplan_buffer_t *b, int n, size_t n_bytes)
{
    for (int i = 0; i < n; i++) {
        if (b[i].offset % MEM_ALIGN || b[i].offset + b[i].n_bytes > n_bytes) return false;
        for (int j = 0; j < i; j++) {
            bool together = b[i].first <= b[j].last && b[j].first <= b[i].last;
            bool overlap =
                b[i].offset < b[j].offset + b[j].n_bytes && b[j].offset < b[i].offset + b[i].n_bytes;
            if (together && overlap) return false;
        }
    }
    return true;
}

int main(void)
{
    tap_plan(5);
    rng_t rng = rng_new(1, RNG_TEST, 0);
    int n_sound = 0, n_above_floor = 0, n_close = 0;
    for (int c = 0; c < CASES; c++) {
        memplan_buffer_t b[MOST];
        int n = 1 + (int)rng_below(&rng, MOST);
        for (int i = 0; i < n; i++) {
            int first = (int)rng_below(&rng, 20);
            b[i] = (memplan_buffer_t){rng_below(&rng, 5000), first, first + (int)rng_below(&rng, 8), 0};
        }
        size_t n_bytes, floor = memplan_floor(b, n);
        if (memplan_solve(b, n, &n_bytes) != ERR_OK) continue;
        n_sound += sound(b, n, n_bytes);
        n_above_floor += n_bytes >= floor;
        n_close += (double)n_bytes <= 1.5 * (double)floor;
    }
    OK(n_sound == CASES, "%d of %d random plans are valid", n_sound, CASES);
    OK(n_above_floor == CASES, "no plan is below the floor");
    OK(n_close == CASES, "%d of %d plans are within 1.5 of the floor", n_close, CASES);

    memplan_buffer_t chain[] = {{100, 0, 1, 0}, {100, 1, 2, 0}, {100, 2, 3, 0}, {100, 3, 4, 0}};
    size_t n_bytes = 0;
    OK_CALL(memplan_solve(chain, 4, &n_bytes), "a chain is planned");
    OK(n_bytes == 2 * mem_round(100), "a chain of four takes two buffers (%zu bytes)", n_bytes);
    return tap_done();
}
