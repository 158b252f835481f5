/* SPDX-License-Identifier: MIT */
/* Test Anything Protocol for the C tests: the plan first, one line a check, judged by tests/driver.sh.
 *
 * A test's head says how scripts/test.sh runs it:  RUN np=1,2,4 device=ref,cpu  (inside a comment; np without
 * MPI is 0, the default; device is passed as argv[1]). Under several ranks only rank 0 prints; a check that
 * concerns every rank is agreed before it is printed (see tests/mpi). */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* A sanitizer makes a test ten times slower: what it repeats, it then repeats less often. */
#ifdef __SANITIZE_ADDRESS__
enum { UNDER_SANITIZER = 1 };
#else
enum { UNDER_SANITIZER = 0 };
#endif

static int tap_planned, tap_run, tap_failed;
static bool tap_quiet; /* set on ranks that do not print */

static inline void tap_plan(int n)
{
    tap_planned = n;
    if (!tap_quiet) printf("1..%d\n", n);
}

static inline bool tap_ok(bool pass, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#include <stdarg.h>
static inline bool tap_ok(bool pass, const char *file, int line, const char *format, ...)
{
    tap_run++;
    if (!pass) tap_failed++;
    if (tap_quiet) return pass;
    printf("%s %d - ", pass ? "ok" : "not ok", tap_run);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (!pass) printf("# failed at %s:%d\n", file, line);
    fflush(stdout);
    return pass;
}

/* Skips the whole program and ends it; with MPI after MPI_Finalize. Call instead of tap_plan. */
static inline _Noreturn void tap_skip_all(const char *reason)
{
    if (!tap_quiet) printf("1..0 # SKIP %s\n", reason);
    exit(0);
}

/* One check is skipped. */
static inline void tap_skip(const char *reason)
{
    tap_run++;
    if (!tap_quiet) printf("ok %d # SKIP %s\n", tap_run, reason);
}

/* Whether the last error has all of these words, ended by NULL; says which not. */
static inline bool tap_says(const char *const *words)
{
    bool all = true;
    for (; *words; words++) {
        if (strstr(err_message(), *words)) continue;
        printf("# wanted: %s\n# said: %s\n", *words, err_message());
        all = false;
    }
    return all;
}
#define SAYS(...) tap_says((const char *const[]){__VA_ARGS__, NULL})

/* main's return value: checks failed or did not run → 1. */
static inline int tap_done(void)
{
    if (tap_run != tap_planned && !tap_quiet)
        printf("# planned %d checks but ran %d\n", tap_planned, tap_run);
    return tap_failed || tap_run != tap_planned;
}

#define OK(pass, ...) tap_ok((pass), __FILE__, __LINE__, __VA_ARGS__)
/* The call succeeds; its message is shown where it does not. */
#define OK_CALL(call, ...)                                                                                   \
    do {                                                                                                     \
        err_t ok_err_ = (call);                                                                              \
        OK(ok_err_ == ERR_OK, __VA_ARGS__);                                                                  \
        if (ok_err_ != ERR_OK && !tap_quiet) printf("# error %d: %s\n", ok_err_, err_message());             \
    } while (0)

#endif
