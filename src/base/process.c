/* SPDX-License-Identifier: MIT */
/* Parses proc(5)'s stat files, and tries whether processes may read each other's memory. */
#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"

bool process_parse(const char *text, process_t *out)
{
    long long user, system, started;
    /* The name may contain blanks and parentheses. */
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    *out = (process_t){.pid = atoi(text)};
    if (!open || !close || close < open) return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    return sscanf(close + 1,
                  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %*d %*d %*d %*d %*d %*d %lld %*u "
                  "%*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d",
                  &out->state, &out->parent, &user, &system, &started, &out->cpu) == 6 &&
           (out->ticks = user + system, out->started = started, out->pid > 0);
}

bool process_read(const char *proc, long pid, process_t *out)
{
    char path[FS_PATH_MAX], text[1024];
    int n = snprintf(path, sizeof path, "%s/%ld/stat", proc, pid);
    return n < (int)sizeof path && fs_read_line(path, text, sizeof text) && process_parse(text, out);
}

/* A child tries the calls on its parent, because no rule of the kernel lets it: it is as foreign as another rank. A
 * filter may kill the caller, and every process may read itself. */
enum { OPEN, FILTERED, CLOSED };

static peer_memory_t found;
static pthread_once_t found_once = PTHREAD_ONCE_INIT;
static char probed[8];

static bool reaches(pid_t pid)
{
    char here[sizeof probed];
    const struct iovec local = {here, sizeof here}, remote = {probed, sizeof probed};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof here &&
           process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof here;
}

/* Only calls that are safe after a fork of one thread of several. */
static int try_parent(pid_t parent)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core file */
    if (reaches(parent)) return OPEN;
    return reaches(getpid()) ? CLOSED : FILTERED;
}

static int try_in_child(void)
{
    int status = 0;
    const pid_t parent = getpid(), child = fork();
    if (child == 0) _exit(try_parent(parent));
    if (child < 0) return OPEN;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return OPEN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : FILTERED;
}

static void probe(void)
{
    char yama[16] = "";
    if (!launch_owns_process()) return;
    fs_read_line("/proc/sys/kernel/yama/ptrace_scope", yama, sizeof yama);
    /* As MPI does: at 1 that is enough. */
    bool ask = yama[0] && yama[0] != '0' && prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
    int result = try_in_child();
    if (ask) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
    if (result == FILTERED)
        found = (peer_memory_t){true, "a seccomp filter, such as a container's",
                                "start the container with --cap-add=SYS_PTRACE (Kubernetes: "
                                "securityContext.capabilities.add), or a seccomp profile that allows "
                                "process_vm_readv and process_vm_writev"};
    else if (result == CLOSED && yama[0] >= '2')
        found = (peer_memory_t){
            true, yama[0] == '2' ? "kernel.yama.ptrace_scope = 2" : "kernel.yama.ptrace_scope = 3",
            "sysctl kernel.yama.ptrace_scope=1 on the host"};
    else if (result == CLOSED)
        found = (peer_memory_t){true, "a security module, or a program file that its user cannot read",
                                "chmod a+r the program; look for denials of ptrace in dmesg"};
}

const peer_memory_t *peer_memory(void)
{
    pthread_once(&found_once, probe);
    return &found;
}

static void take_broken_pipe(int signal_number)
{
    const int saved = errno;
    struct pollfd outputs[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};
    if (poll(outputs, 2, 0) > 0 && ((outputs[0].revents | outputs[1].revents) & POLLERR)) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    errno = saved;
}

void process_survive_lost_peers(void)
{
    const struct sigaction action = {.sa_handler = take_broken_pipe, .sa_flags = SA_RESTART};
    struct sigaction before;
    if (sigaction(SIGPIPE, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGPIPE, &action, NULL);
}
