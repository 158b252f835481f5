/* SPDX-License-Identifier: MIT */
/* hang_thread PID: stops the main thread of a process while it computes, and keeps it stopped; the other
 * threads go on. It computes if it runs the program's own code, outside libraries. Ends with the process. */
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

/* Whether the address is in the program's code. */
static bool is_own_code(int pid, unsigned long address)
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
        unsigned long low, high;
        char access[8];
        if (sscanf(line, "%lx-%lx %7s", &low, &high, access) != 3 || !strchr(access, 'x')) continue;
        line[strcspn(line, "\n")] = '\0';
        const char *name = strchr(line, '/');
        found = address >= low && address < high && name && strcmp(name, program) == 0;
    }
    fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    int pid = argc == 2 ? atoi(argv[1]) : 0, status;
    if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) return 1;
    for (int i = 0; i < 20000; i++) {
        struct user_regs_struct registers = {0};
        struct iovec area = {&registers, sizeof registers};
        if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || waitpid(pid, &status, __WALL) != pid) return 1;
        if (!WIFSTOPPED(status)) return 1;
        if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &area) != 0) return 1;
#if defined(__x86_64__)
        unsigned long at = registers.rip;
#else
        unsigned long at = registers.pc;
#endif
        if (is_own_code(pid, at)) {
            puts("stopped");
            fflush(stdout);
            while (waitpid(pid, &status, __WALL) == pid && !WIFEXITED(status) && !WIFSIGNALED(status))
                continue;
            return 0;
        }
        ptrace(PTRACE_CONT, pid, NULL, NULL);
        usleep(500);
    }
    return 2;
}
