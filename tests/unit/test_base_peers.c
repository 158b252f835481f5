/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Other processes of a job: whether they may read and write each other's memory, where the kernel forbids it in
 * different ways, and what becomes of a process when another has gone. */
#include "tests/tap.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

enum { NOT_REFUSED, BY_FILTER, OTHERWISE, FAILED };

/* Forbids a call to this process, for good. */
static bool forbid(unsigned call, unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* As a program has it whose file its user cannot read; root would be let through. */
static bool hide(void)
{
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return false;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

/* What a process says of itself after `prepare`. */
static int said_after(unsigned call, unsigned action, bool hidden)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if ((call && !forbid(call, action)) || (hidden && !hide())) _exit(FAILED);
        const peer_memory_t *memory = peer_memory();
        if (memory != peer_memory()) _exit(FAILED);
        if (!memory->refused) _exit(NOT_REFUSED);
        if (strstr(memory->cause, "seccomp"))
            _exit(strstr(memory->advice, "--cap-add=SYS_PTRACE") ? BY_FILTER : FAILED);
        _exit(memory->cause[0] && memory->advice[0] ? OTHERWISE : FAILED);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return FAILED;
    return WEXITSTATUS(status);
}

/* How a process ends that writes where nobody reads: to a socket, or, `out`, to its stdout. As waitpid has it. */
static int end_of_writer(bool out)
{
    int pair[2], status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if ((out ? pipe(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) != 0) _exit(FAILED);
        if (out && dup2(pair[1], STDOUT_FILENO) < 0) _exit(FAILED);
        close(pair[0]);
        process_survive_lost_peers();
        const ssize_t n = write(out ? STDOUT_FILENO : pair[1], "x", 1);
        _exit(n < 0 && errno == EPIPE ? 0 : FAILED);
    }
    waitpid(pid, &status, 0);
    return status;
}

int main(void)
{
    static const struct {
        const char *name;
        unsigned action;
    } actions[] = {{"EPERM", SECCOMP_RET_ERRNO | EPERM},
                   {"ENOSYS", SECCOMP_RET_ERRNO | ENOSYS},
                   {"death of the caller", SECCOMP_RET_KILL}};
    tap_plan(8);
    int now = said_after(0, 0, false);
    if (now != NOT_REFUSED)
        tap_skip("peer memory is refused here");
    else
        OK(now == NOT_REFUSED, "not refused here");
    for (int i = 0; i < 3; i++)
        OK(said_after(SYS_process_vm_readv, actions[i].action, false) == BY_FILTER, "a filter: %s",
           actions[i].name);
    OK(said_after(SYS_process_vm_writev, SECCOMP_RET_ERRNO | EPERM, false) == BY_FILTER,
       "a filter of writing alone");
    if (now != NOT_REFUSED)
        tap_skip("peer memory is refused here");
    else
        OK(said_after(0, 0, true) == OTHERWISE, "refused without a filter");
    OK(end_of_writer(false) == 0, "a process survives a lost peer");
    const int status = end_of_writer(true);
    OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "but not the reader of its output");
    return tap_done();
}
