/* SPDX-License-Identifier: MIT */
/* Runs another program, or probes a path, with a deadline. Abandons a process that is stuck in the kernel, so
 * that a dead mount cannot hang the check. */
#include "tools/check/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

static int process_spawn(const char *const *argv, int output, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int status = posix_spawn_file_actions_init(&actions);
    if (status != 0) return status;
    status = posix_spawnattr_init(&attributes);
    if (status != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return status;
    }
    sigemptyset(&none); /* this thread blocks signals */
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    /* posix_spawnp does not modify its arguments, although their type is not const. */
    char *const *words;
    memcpy(&words, &argv, sizeof words);
    status = posix_spawnp(pid, argv[0], &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

/* Reads until end of file and drops what does not fit. False: the deadline passed. */
static bool read_output(int input, double deadline, char *out, size_t n_bytes)
{
    size_t used = 0;
    for (;;) {
        char buffer[4096];
        double left = deadline - clock_sec();
        struct pollfd wait = {input, POLLIN, 0};
        int n_ready = left > 0 ? poll(&wait, 1, (int)(1000 * left) + 1) : 0;
        if (n_ready == 0) return false;
        if (n_ready < 0 && errno == EINTR) continue;
        ssize_t n = read(input, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return true;
        size_t fits = n_bytes - 1 - used < (size_t)n ? n_bytes - 1 - used : (size_t)n;
        memcpy(out + used, buffer, fits);
        used += fits;
        out[used] = '\0';
    }
}

/* False if the process does not end by the deadline. One that hangs in a driver cannot be killed. */
static bool reap_child(pid_t pid, double deadline, int *exit_code)
{
    for (;;) {
        int status;
        pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid) {
            *exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            return true;
        }
        if (done < 0 && errno != EINTR) return false;
        if (clock_sec() > deadline) return false;
        clock_sleep(0.005);
    }
}

err_t process_run(const char *const *argv, double timeout_sec, char *out, size_t n_bytes, int *exit_code)
{
    int pipes[2];
    pid_t pid;
    double deadline = clock_sec() + timeout_sec;
    out[0] = '\0';
    *exit_code = 0;
    if (pipe2(pipes, O_CLOEXEC) != 0) RAISE(ERR_SYSTEM, "cannot run %s: %s", argv[0], strerror(errno));
    int status = process_spawn(argv, pipes[1], &pid);
    close(pipes[1]);
    if (status != 0) {
        close(pipes[0]);
        RAISE(status == ENOENT ? ERR_DATA : ERR_SYSTEM, "cannot run %s: %s", argv[0], strerror(status));
    }
    bool done = read_output(pipes[0], deadline, out, n_bytes);
    close(pipes[0]);
    done = done && reap_child(pid, deadline, exit_code);
    if (done) return ERR_OK;
    kill(pid, SIGKILL);
    reap_child(pid, clock_sec() + 1, exit_code);
    RAISE(ERR_PEER, "%s did not respond within %g s", argv[0], timeout_sec);
}

err_t process_probe(const char *path, double timeout_sec)
{
    const char *const argv[] = {"stat", "-f", "--", path, NULL};
    char text[64];
    int exit_code;
    if (process_run(argv, timeout_sec, text, sizeof text, &exit_code) == ERR_PEER)
        RAISE(ERR_PEER, "%s did not respond within %g s", path, timeout_sec);
    return ERR_OK;
}
