/* SPDX-License-Identifier: MIT */
/* TAP for C++: the few lines of tests/tap.h that the emulator's own tests need. */
#ifndef TESTS_EMU_CHECK_H
#define TESTS_EMU_CHECK_H

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

static int check_run, check_failed;

static inline bool check_ok(bool pass, const char *file, int line, const std::string &name)
{
    check_run++;
    if (!pass) check_failed++;
    std::printf("%s %d - %s\n", pass ? "ok" : "not ok", check_run, name.c_str());
    if (!pass) std::printf("# failed at %s:%d\n", file, line);
    std::fflush(stdout);
    return pass;
}
#define OK(pass, name) check_ok((pass), __FILE__, __LINE__, name)

/* The last line: the plan, and main's return value. */
static inline int check_done(int planned)
{
    if (check_run != planned) std::printf("# planned %d checks but ran %d\n", planned, check_run);
    return check_failed || check_run != planned;
}

/* Runs `work` in a child process; returns its stderr and wait's status. */
static inline std::string check_fork(const std::function<void()> &work, int *status)
{
    int ends[2];
    std::string text;
    std::fflush(stdout);
    if (pipe(ends)) std::abort();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        work();
        _exit(0);
    }
    close(ends[1]);
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
    close(ends[0]);
    waitpid(pid, status, 0);
    return text;
}

#endif
