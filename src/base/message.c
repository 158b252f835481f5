/* SPDX-License-Identifier: MIT */
/* Formats at the end of what is there. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

void message_append(message_t *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m->text + m->n, sizeof m->text - m->n, format, args);
    va_end(args);
    if (n > 0) m->n += (size_t)n;
    if (m->n >= sizeof m->text) m->n = sizeof m->text - 1;
}
