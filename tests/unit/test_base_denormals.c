/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Denormal numbers: they exist at first, then they are 0, also in threads that are started later. */
#include "base/isa.h"
#include "tests/tap.h"

#include <float.h>
#include <pthread.h>

static volatile float smallest = FLT_MIN, denormal = FLT_MIN / 4;

static bool has_denormals(void)
{
    return smallest / 2 > 0 || denormal * 4 > 0;
}

static void *ask(void *answer)
{
    *(bool *)answer = has_denormals();
    return NULL;
}

static bool thread_has_denormals(void)
{
    bool answer = true;
    pthread_t thread;
    if (pthread_create(&thread, NULL, ask, &answer) == 0) pthread_join(thread, NULL);
    return answer;
}

static int threads_with_denormals(void)
{
    int n = 0;
#pragma omp parallel num_threads(3) reduction(+ : n)
    n += has_denormals();
    return n;
}

int main(void)
{
    tap_plan(5);
    OK(has_denormals(), "a number below FLT_MIN is above 0");
    denormals_flush();
#if defined(__x86_64__) || defined(__aarch64__)
    OK(!has_denormals(), "now it is 0, computed or read");
    OK(!thread_has_denormals(), "in a thread too");
    OK(threads_with_denormals() == 0, "and in OpenMP's");
#else
    for (int i = 0; i < 3; i++) tap_skip("no switch for this processor");
#endif
    OK(smallest > 0, "FLT_MIN itself stays");
    return tap_done();
}
