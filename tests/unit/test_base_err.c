/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Errors: messages, words put in front of them, their way between threads, and what is too long. */
#include "tests/tap.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static err_t fail(int value)
{
    RAISE(ERR_DATA, "shard %d is truncated", value);
}

static err_t forward(int value)
{
    TRY(fail(value));
    return ERR_OK;
}

static err_t clean_up(int *cleaned)
{
    err_t err = ERR_OK;
    TRY_OUT(err, fail(5));
    *cleaned = -1;
out:
    *cleaned += 1;
    return err;
}

static void check_messages(void)
{
    OK(strcmp(err_message(), "") == 0, "there is no message at first");
    OK(forward(3) == ERR_DATA, "TRY forwards the code");
    OK(strcmp(err_message(), "shard 3 is truncated") == 0, "and the message: %s", err_message());
    int cleaned = 0;
    OK(clean_up(&cleaned) == ERR_DATA && cleaned == 1, "TRY_OUT goes to the clean-up");
    err_raise(ERR_SYSTEM, "x.c", 1, "outer (%s)", err_message());
    OK(strcmp(err_message(), "outer (shard 5 is truncated)") == 0, "a message may quote the one before it");
    setenv("DPTRAIN_DEBUG", "1", 1);
    err_raise(ERR_SYSTEM, "x.c", 12, "here");
    unsetenv("DPTRAIN_DEBUG");
    OK(strcmp(err_message(), "here [x.c:12]") == 0, "DPTRAIN_DEBUG shows where: %s", err_message());
}

static void check_context(void)
{
    fail(1);
    OK(err_context(ERR_DATA, "reading %s", "a.h5") == ERR_DATA, "err_context returns the code");
    err_context(ERR_DATA, "host %s", "n01");
    OK(strcmp(err_message(), "host n01: reading a.h5: shard 1 is truncated") == 0, "contexts nest: %s",
       err_message());
    err_context(ERR_DATA, "again (%s)", err_message());
    OK(strncmp(err_message(), "again (host n01: ", 17) == 0, "a context may quote the message");
}

static void check_long(void)
{
    char text[2 * ERR_MESSAGE_MAX];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    err_raise(ERR_DATA, "x.c", 1, "%s", text);
    OK(strlen(err_message()) == ERR_MESSAGE_MAX - 1, "a long message is cut");
    err_context(ERR_DATA, "file");
    OK(strncmp(err_message(), "file: aaa", 9) == 0 && strlen(err_message()) < ERR_MESSAGE_MAX,
       "a context before a full message fits");
    bool fits = true;
    for (int n = ERR_MESSAGE_MAX - 6; n < ERR_MESSAGE_MAX + 3; n++) {
        fail(1);
        err_context(ERR_DATA, "%.*s", n, text);
        size_t length = strlen(err_message());
        fits = fits && length < ERR_MESSAGE_MAX && length >= (size_t)(n < ERR_MESSAGE_MAX ? n : 0);
    }
    OK(fits, "contexts of every length around the limit fit");
}

static void *raise_in_thread(void *argument)
{
    err_info_t *info = argument;
    bool empty = err_message()[0] == '\0';
    err_take(fail(9), info);
    if (!empty) info->code = ERR_OK;
    return NULL;
}

static void check_threads(void)
{
    err_info_t info = {0};
    pthread_t thread;
    fail(2);
    bool started = pthread_create(&thread, NULL, raise_in_thread, &info) == 0;
    if (started) pthread_join(thread, NULL);
    OK(started && info.code == ERR_DATA, "a thread starts without a message and takes its own out");
    OK(strcmp(err_message(), "shard 2 is truncated") == 0, "which leaves ours alone");
    OK(err_put(&info) == ERR_DATA && strcmp(err_message(), "shard 9 is truncated") == 0,
       "err_put makes it ours");
}

/* How a child that runs `narrow_int(value)` ends: 0, or the signal. */
static int narrow_in_child(int64_t value)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        _exit(narrow_int(value) != value);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void check_narrow(void)
{
    OK(narrow_int(INT_MAX) == INT_MAX && narrow_int(INT_MIN) == INT_MIN, "narrow_int keeps what fits");
    OK(narrow_in_child((int64_t)INT_MAX + 1) == SIGABRT, "and ends the process on one more");
    OK(narrow_in_child((int64_t)INT_MIN - 1) == SIGABRT, "or one less");
}

int main(void)
{
    unsetenv("DPTRAIN_DEBUG");
    tap_plan(18);
    check_messages();
    check_context();
    check_long();
    check_threads();
    check_narrow();
    return tap_done();
}
