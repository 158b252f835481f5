/* SPDX-License-Identifier: MIT */
/* hang_thread PID: stops the main thread of a process while it computes, and keeps it stopped; the other
 * threads go on. It computes if it runs a thousand instructions of the program's own code, outside libraries: a
 * wait for other ranks calls MPI's after a few. Ends with the process. */
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where the program's code is mapped. */
typedef struct code {
    unsigned long low, high;
} code_t;

static bool find_own_code(int pid, code_t *out)
{
    char path[64], line[4096], program[4096];
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    ssize_t n = readlink(path, program, sizeof program - 1);
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    if (n <= 0 || !maps) return false;
    program[n] = '\0';
    bool found = false;
    while (!found && fgets(line, sizeof line, maps)) {
        char access[8];
        if (sscanf(line, "%lx-%lx %7s", &out->low, &out->high, access) != 3 || !strchr(access, 'x')) continue;
        line[strcspn(line, "\n")] = '\0';
        const char *name = strchr(line, '/');
        found = name && strcmp(name, program) == 0;
    }
    fclose(maps);
    return found;
}

/* Of a stopped thread. */
static bool is_in(int pid, const code_t *code)
{
    struct user_regs_struct registers = {0};
    struct iovec area = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &area) != 0) return false;
#if defined(__x86_64__)
    unsigned long at = registers.rip;
#else
    unsigned long at = registers.pc;
#endif
    return at >= code->low && at < code->high;
}

static bool stops(int pid)
{
    int status;
    return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);
}

/* Every instruction is looked at, so that no call is missed. */
static bool computes(int pid, const code_t *code)
{
    enum { N_INSTRUCTIONS = 1000 };
    bool own = is_in(pid, code);
    for (int i = 0; own && i < N_INSTRUCTIONS; i++)
        own = ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0 && stops(pid) && is_in(pid, code);
    return own;
}

int main(int argc, char **argv)
{
    int pid = argc == 2 ? atoi(argv[1]) : 0, status;
    code_t code;
    if (pid <= 0 || !find_own_code(pid, &code) || ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) return 1;
    for (int i = 0; i < 20000; i++) {
        if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || !stops(pid)) return 1;
        if (computes(pid, &code)) {
            puts("stopped");
            fflush(stdout);
            while (waitpid(pid, &status, __WALL) == pid && !WIFEXITED(status) && !WIFSIGNALED(status))
                continue;
            return 0;
        }
        if (ptrace(PTRACE_CONT, pid, NULL, NULL) != 0) return 1;
        usleep(500);
    }
    return 2;
}
