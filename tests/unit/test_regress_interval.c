/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Intervals of ratios as text: an end beyond tenfold is not a number. */
#include "tests/tap.h"

#include <math.h>

#include "base/mem.h"
#include "report/regress/compare.h"

static arena_t arena;

static void check(double low, double high, const char *expected)
{
    const char *text = "";
    err_t err = interval_text(&arena, low, high, &text);
    OK(err == ERR_OK && strcmp(text, expected) == 0, "%g to %g: %s", low, high, text);
}

int main(void)
{
    tap_plan(9);
    check(0.995, 1.006, "-0.5 … +0.6 %");
    check(1, 10, "0.0 … +900.0 %");
    check(1.02, 10.1, "+2.0 % … beyond ×10");
    check(1.02, INFINITY, "+2.0 % … beyond ×10");
    check(0.0999, 0.5, "beyond ÷10 … -50.0 %");
    check(0, INFINITY, "unknown");
    check(20, 30, "beyond ×10");
    check(NAN, NAN, "-");
    arena_free(&arena);
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
