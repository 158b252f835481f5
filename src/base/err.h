/* SPDX-License-Identifier: MIT */
/* Errors: a code, which is also the exit code, and a message that a user can act on.
 *
 * The code that detects an error RAISEs it, once; the message says what went wrong, where (file, host,
 * option) and what to do. Callers forward it with TRY (return) or TRY_OUT (goto out). The message belongs to
 * the thread that raised it; err_take and err_put carry it to another thread. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stddef.h>
#include <stdint.h>

typedef enum err {
    ERR_OK = 0,
    ERR_GATE = 1,         /* a check, gate or target was not met */
    ERR_USAGE = 2,        /* invalid options or arguments */
    ERR_DATA = 3,         /* input data missing, truncated, corrupt or of another kind */
    ERR_SYSTEM = 4,       /* the system or a library failed */
    ERR_PEER = 5,         /* a peer was lost or a wait timed out; restarting from a checkpoint makes sense */
    ERR_INCONCLUSIVE = 6, /* a comparison decided nothing: nothing is worse, but most cannot be told */
} err_t;

enum { ERR_MESSAGE_MAX = 1024 };

typedef struct err_info {
    err_t code;
    char message[ERR_MESSAGE_MAX];
} err_info_t;

/* Sets this thread's message and returns code. The message includes file and line if DPTRAIN_DEBUG is set in
 * the environment. */
err_t err_raise(err_t code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The message of the last error raised in this thread; "" if none. */
const char *err_message(void);

/* Prefixes the current message ("reading shard 3: …"); returns code. */
err_t err_context(err_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies this thread's message to `out`, with `code` / makes a copied error this thread's. */
void err_take(err_t code, err_info_t *out);
err_t err_put(const err_info_t *info);

/* Aborts the process. For the program's own invariants only, never for input. */
void err_assert_failed(const char *expression, const char *file, int line) __attribute__((noreturn));

/* Narrows to int, for library calls with int counts. ASSERTs that the value fits. */
int narrow_int(int64_t value);

#define RAISE(code, ...) return err_raise((code), __FILE__, __LINE__, __VA_ARGS__)
#define RAISE_OUT(err, code, ...)                                                                            \
    do {                                                                                                     \
        (err) = err_raise((code), __FILE__, __LINE__, __VA_ARGS__);                                          \
        goto out;                                                                                            \
    } while (0)
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        err_t try_err_ = (call);                                                                             \
        if (try_err_ != ERR_OK) return try_err_;                                                             \
    } while (0)
#define TRY_OUT(err, call)                                                                                   \
    do {                                                                                                     \
        (err) = (call);                                                                                      \
        if ((err) != ERR_OK) goto out;                                                                       \
    } while (0)
#define ASSERT(expression) ((expression) ? (void)0 : err_assert_failed(#expression, __FILE__, __LINE__))

/* A message built piece by piece. Zeroed: empty. */
typedef struct message {
    char text[ERR_MESSAGE_MAX];
    size_t n;
} message_t;

/* Text beyond the end is cut off. */
void message_append(message_t *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
