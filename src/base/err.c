/* SPDX-License-Identifier: MIT */
/* Keeps one message per thread. Printing it is left to base/log.c, ending the job to main.c. */
#include "base/err.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char message[ERR_MESSAGE_MAX];

err_t err_raise(err_t code, const char *file, int line, const char *format, ...)
{
    /* Into a separate buffer: an argument may be the current message. */
    char text[ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (getenv("DPTRAIN_DEBUG") && n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, " [%s:%d]", file, line);
    memcpy(message, text, sizeof message);
    return code;
}

const char *err_message(void)
{
    return message;
}

err_t err_context(err_t code, const char *format, ...)
{
    char text[ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ": %.*s", (int)(sizeof text) - n - 3, message);
    memcpy(message, text, sizeof message);
    return code;
}

void err_take(err_t code, err_info_t *out)
{
    out->code = code;
    memcpy(out->message, message, sizeof message);
}

err_t err_put(const err_info_t *info)
{
    memcpy(message, info->message, sizeof message);
    return info->code;
}

_Noreturn void err_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "dptrain: internal error: assertion %s failed at %s:%d; please report this\n", expression,
            file, line);
    abort();
}

int narrow_int(int64_t value)
{
    ASSERT(value >= INT_MIN && value <= INT_MAX);
    return (int)value;
}

void message_append(message_t *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m->text + m->n, sizeof m->text - m->n, format, args);
    va_end(args);
    if (n > 0) m->n += (size_t)n;
    if (m->n >= sizeof m->text) m->n = sizeof m->text - 1;
}
