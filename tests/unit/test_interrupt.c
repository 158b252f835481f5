/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Signals end a process after its last acts: cluster/session/signals.h. Each case is a child process. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/session/signals.h"
#include "tests/tap.h"

enum { SAID_MAX = 256 };
static const double long_sec = 600;
static char file[] = "/tmp/test-interrupt.XXXXXX";

static void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(99);
}

static void act_at_once(int number, double end_sec)
{
    say(end_sec > clock_sec() ? interrupt_name(number) : "late");
}

static void act_forever(int number, double end_sec)
{
    (void)number;
    (void)end_sec;
    say("acting ");
    for (;;) pause();
}

static void act_silently(int number, double end_sec)
{
    (void)number;
    (void)end_sec;
    for (;;) pause();
}

static void wait_forever(void)
{
    for (;;) pause();
}

static void acts(void)
{
    if (interrupt_catch(act_at_once, long_sec) != ERR_OK) _exit(99);
    raise(SIGTERM);
    interrupt_wait();
}

static void acts_too_long(void)
{
    if (interrupt_catch(act_forever, 0.2) != ERR_OK) _exit(99);
    interrupt_on_limit("no time", file);
    raise(SIGINT);
    interrupt_release(); /* does not return either */
}

static void waits_for_limit(void)
{
    if (interrupt_catch(NULL, 0.1) != ERR_OK) _exit(99);
    raise(SIGHUP);
    wait_forever();
}

static void is_signalled_twice(void)
{
    if (interrupt_catch(act_silently, long_sec) != ERR_OK) _exit(99);
    raise(SIGTERM);
    raise(SIGTERM); /* from the same launcher */
    clock_sleep(0.5);
    say("still here");
    raise(SIGINT);
    wait_forever();
}

static void ignores(void)
{
    signal(SIGHUP, SIG_IGN);
    if (interrupt_catch(act_at_once, long_sec) != ERR_OK) _exit(99);
    raise(SIGHUP);
    if (interrupt_arrived()) _exit(98);
    interrupt_release();
    interrupt_release();
    say("ignored");
    _exit(0);
}

static void releases(void)
{
    for (int i = 0; i < 2; i++) {
        if (interrupt_catch(act_at_once, long_sec) != ERR_OK) _exit(99);
        interrupt_release();
    }
    interrupt_wait();
    raise(SIGTERM);
}

/* Runs a case and checks the signal that ended it (0: exit code 0), and what it said. */
static void check(void (*run)(void), int ended_by, const char *expected, const char *name)
{
    int ends[2], status;
    char said[SAID_MAX] = "";
    if (pipe(ends) != 0) exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        run();
        _exit(97);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n + 1 < sizeof said && (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    close(ends[0]);
    waitpid(child, &status, 0);
    bool right = ended_by ? WIFSIGNALED(status) && WTERMSIG(status) == ended_by
                          : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    OK(right, "%s: ends by signal %d (status 0x%x)", name, ended_by, (unsigned)status);
    OK(strcmp(said, expected) == 0, "%s: says '%s' ('%s')", name, expected, said);
}

int main(void)
{
    int fd = mkstemp(file);
    if (fd < 0) return 1;
    close(fd);
    tap_plan(13);
    check(acts, SIGTERM, "SIGTERM", "last acts");
    check(acts_too_long, SIGINT, "acting no time", "acts beyond the limit");
    OK(access(file, F_OK) != 0, "acts beyond the limit: the unfinished file is removed");
    check(waits_for_limit, SIGHUP, "", "no acts: the limit");
    check(is_signalled_twice, SIGTERM, "still here", "a second signal");
    check(ignores, 0, "ignored", "an ignored signal");
    check(releases, SIGTERM, "", "released");
    return tap_done();
}
