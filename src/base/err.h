/* SPDX-License-Identifier: MIT */
/* Errors: one code that is also the exit code, one message that a user can act on.
 *
 * Who detects an error RAISEs it once, with the message: what went wrong, where (file, host, option), what to
 * do. Everybody above forwards it with TRY (return) or TRY_OUT (goto out). The message belongs to the thread
 * that raised it; err_take/err_put carry it to another thread. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stddef.h>
#include <stdint.h>

typedef enum err {
    ERR_OK = 0,
    ERR_GATE = 1,   /* a check, gate or target was not met */
    ERR_USAGE = 2,  /* options or arguments */
    ERR_DATA = 3,   /* input data: missing, truncated, corrupt, foreign */
    ERR_SYSTEM = 4, /* the system or a library failed */
    ERR_PEER = 5,   /* a peer was lost or a wait timed out; restarting from a checkpoint makes sense */
} err_t;

enum { ERR_MESSAGE_MAX = 1024 };

typedef struct err_info {
    err_t code;
    char message[ERR_MESSAGE_MAX];
} err_info_t;

/* Notes code and message for this thread and returns code. An earlier message of the thread is replaced.
 * `file` and `line` are shown when DPTRAIN_DEBUG is set in the environment. */
err_t err_raise(err_t code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The message of the last error raised in this thread; "" when there was none. */
const char *err_message(void);

/* Puts words in front of the current message ("reading shard 3: …"); returns code. */
err_t err_context(err_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies this thread's error out (`code` as given) / makes a copied error this thread's own. */
void err_take(err_t code, err_info_t *out);
err_t err_put(const err_info_t *info);

/* Ends the process: for our own invariants only, never for input. */
_Noreturn void err_assert_failed(const char *expression, const char *file, int line);

/* Narrows to int (library calls that take int counts); ASSERTs that it fits. */
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

#endif
