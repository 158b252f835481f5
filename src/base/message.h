/* SPDX-License-Identifier: MIT */
/* A message built piece by piece. */
#ifndef BASE_MESSAGE_H
#define BASE_MESSAGE_H

#include <stddef.h>

#include "base/err.h"

/* Zeroed: empty. */
typedef struct message {
    char text[ERR_MESSAGE_MAX];
    size_t n;
} message_t;

/* Text beyond the end is cut off. */
void message_append(message_t *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
