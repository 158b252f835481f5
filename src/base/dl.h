/* SPDX-License-Identifier: MIT */
/* Loads shared libraries on first use, so that the program also starts on machines without them. */
#ifndef BASE_DL_H
#define BASE_DL_H

#include "base/err.h"

/* The value of a macro as a literal, for names with versions: "libfoo.so." DL_TEXT(FOO_MAJOR). */
#define DL_TEXT(macro)  DL_TEXT_(macro)
#define DL_TEXT_(value) #value

typedef struct dl_function {
    const char *name;
    void *pointer; /* address of the function pointer to set */
} dl_function_t;

/* Resolves n functions. If the process already has them (linked in, or a test's stand-in), uses those.
 *
 *   names  libraries to try, NULL-terminated; the first that opens is used
 *   hint   ends the error message: what the user can do
 *
 * ERR_SYSTEM naming library and reason. */
err_t dl_load(const char *const *names, const dl_function_t *functions, int n, const char *hint);

#endif
