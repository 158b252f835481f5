/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Parts of a time: they add up to it, and outliers do not count. */
#include "tests/tap.h"

#include <math.h>

#include "report/records/report.h"

static bool near(double a, double b)
{
    bool is_near = fabs(a - b) <= 1e-12;
    if (!is_near) printf("# %.17g, but %.17g was wanted\n", a, b);
    return is_near;
}

int main(void)
{
    /* Medians: 10, 4, 5 and 2, which is more than the whole. */
    static const double total[] = {10, 10, 10, 90, 1}, first[] = {4, 6, 2, 80, 0}, second[] = {5, 2, 6, 5, 1},
                        third[] = {1, 2, 2, 5, NAN}, none[] = {NAN, NAN, NAN, NAN, NAN};
    const double *parts[] = {first, second, third, none};
    double shares[4];
    tap_plan(6);
    OK_CALL(split_shares(total, parts, 4, 5, shares), "shares of a step");
    OK(near(shares[0], 12 / 30.0) && near(shares[1], 13 / 30.0) && near(shares[2], 5 / 30.0),
       "are those of the middle half");
    OK(near(shares[0] + shares[1] + shares[2], 1), "they add up");
    OK(isnan(shares[3]), "a part without values has none");
    OK_CALL(split_shares(total, parts, 1, 1, shares), "one sample");
    OK(near(shares[0], 0.4), "is split as it is");
    return tap_done();
}
