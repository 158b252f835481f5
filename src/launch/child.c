/* SPDX-License-Identifier: MIT */
/* The launcher's children, what they print, and the signals that it gets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/job.h"

enum { TICK_MS = 20, KILL_SEC = 1, PIPE_SEC = 60, TEXT_BYTES = 16 << 10, CONFIG_BYTES = 1 << 20 };

/* ---- Signals ---- */
static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
enum { N_WANTED = sizeof wanted / sizeof *wanted };
static int ends[2] = {-1, -1};
static atomic_int n_waiting;

/* Runs in any thread. */
static void queue_signal(int number)
{
    const int before = errno;
    const unsigned char byte = (unsigned char)number;
    if (write(ends[1], &byte, 1) == 1) atomic_fetch_add(&n_waiting, 1);
    errno = before;
}

void signals_open(void)
{
    struct sigaction action = {.sa_handler = queue_signal, .sa_flags = SA_RESTART}, before;
    sigset_t all;
    sigemptyset(&all);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    for (int i = 0; i < N_WANTED; i++) {
        /* Of nohup, and of shells that start this in the background. */
        if (sigaction(wanted[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        sigaction(wanted[i], &action, NULL);
        sigaddset(&all, wanted[i]);
    }
    /* They may have been blocked by who started this. */
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    /* A closed pipe is an error of the write. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

int signals_take(void)
{
    unsigned char byte;
    if (read(ends[0], &byte, 1) != 1) return 0;
    atomic_fetch_sub(&n_waiting, 1);
    return byte;
}

void job_note_signal(job_t *job, int number)
{
    if (!job->stopped_by || (number != SIGUSR1 && job->stopped_by == SIGUSR1)) job->stopped_by = number;
}

bool signals_pending(void)
{
    return atomic_load(&n_waiting) > 0;
}

int signals_fd(void)
{
    return ends[0];
}

void launch_nap(double sec)
{
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    poll(&fd, 1, (int)(1000 * sec));
}

const char *signals_name(int number)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
        [SIGABRT] = "ABRT", [SIGBUS] = "BUS",   [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
        [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2", [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
        [SIGSTOP] = "STOP", [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGSYS] = "SYS"};
    return number > 0 && number < (int)(sizeof names / sizeof *names) && names[number] ? names[number]
                                                                                       : "unknown";
}

/* ---- Children ---- */
err_t launch_start_child(const words_t *words, const int fds[3], char *const *environment, bool is_guarded,
                         pid_t *out)
{
    const pid_t parent = getpid();
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    volatile int failed = 0; /* the child writes it */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* The address space is the launcher's until exec: only system calls. */
    const pid_t pid = vfork();
    if (pid == 0) {
        setsid();
        if (!is_guarded) prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(127);
        for (int i = 0; i < 3; i++) {
            const int from = fds[i] >= 0 ? fds[i] : i == 0 ? null : i;
            if (from != i && dup2(from, i) < 0) _exit(127);
        }
        const struct sigaction action = {.sa_handler = SIG_DFL};
        for (int number = 1; number < 32; number++) sigaction(number, &action, NULL);
        sigemptyset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        execvpe(words->at[0], (char *const *)(uintptr_t)words->at, environment ? environment : environ);
        failed = errno;
        _exit(127);
    }
    const int reason = pid < 0 ? errno : failed;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (null >= 0) close(null);
    if (pid > 0 && failed) waitpid(pid, NULL, 0);
    *out = pid;
    if (pid < 0 || failed) RAISE(ERR_SYSTEM, "cannot start %s: %s", words->at[0], strerror(reason));
    return ERR_OK;
}

int launch_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int launch_exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* ---- The guard ---- */
/* A process that outlives the launcher only to end mpirun by SIGTERM, once. PR_SET_PDEATHSIG would send it for each thread of the
 * launcher, and at the second one mpirun leaves without ending its ranks. */
static int guard_fd = -1;
static pid_t guard_pid;

static void guard_run(int fd, size_t n_shown)
{
    int32_t pid = 0;
    setsid();
    /* Who kills the launcher by its name or its words is not to hit the guard. */
    prctl(PR_SET_NAME, "dptrain-guard");
    memset(program_invocation_name, 0, n_shown);
    strncpy(program_invocation_name, "dptrain-guard", n_shown);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 1024; i++)
        if (i != fd) close(i);
    while (read(fd, &pid, sizeof pid) == (ssize_t)sizeof pid) {}
    if (pid > 0) kill(pid, SIGTERM);
    _exit(0);
}

static bool guard_open(void)
{
    int pipes[2];
    char shown[FS_PATH_MAX];
    if (guard_fd >= 0) return true;
    if (pipe2(pipes, O_CLOEXEC) != 0) return false;
    const int words = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t n_shown = words >= 0 ? read(words, shown, sizeof shown) : 0;
    if (words >= 0) close(words);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the guard gets none */
    guard_pid = fork();
    if (guard_pid == 0) guard_run(pipes[0], n_shown > 0 ? (size_t)n_shown : 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(pipes[0]);
    guard_fd = pipes[1];
    return guard_pid > 0;
}

void guard_close(void)
{
    close_fd(&guard_fd);
    if (guard_pid > 0) {
        kill(guard_pid, SIGKILL); /* it may be stopped, and nothing is guarded any more */
        waitpid(guard_pid, NULL, 0);
    }
    guard_pid = 0;
}

void guard_watch(pid_t pid)
{
    const int32_t message = (int32_t)pid;
    /* Who has killed it gets another one. */
    for (int i = 0; i < 2 && guard_open(); i++) {
        if (write(guard_fd, &message, sizeof message) == (ssize_t)sizeof message) return;
        guard_close();
    }
}

err_t talk_start(talk_t *t, const words_t *words, bool has_input, bool keeps_errors, char *const *environment,
                 double sec)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, child[3];
    err_t err = ERR_OK;
    *t = (talk_t){.watch = -1, .fds = {-1, -1, -1}, .until = clock_sec() + sec};
    for (int i = 0; i < 3; i++) {
        if ((i == 0 && !has_input) || (i == 2 && keeps_errors)) continue;
        if (pipe2(pipes[i], O_CLOEXEC) != 0)
            RAISE_OUT(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
        t->fds[i] = pipes[i][i == 0];
        fcntl(t->fds[i], F_SETFL, O_NONBLOCK);
    }
    for (int i = 0; i < 3; i++) child[i] = pipes[i][i != 0];
    TRY_OUT(err, launch_start_child(words, child, environment, false, &t->pid));
    t->watch = launch_pidfd(t->pid);
out:
    for (int i = 0; i < 3; i++) close_fd(&pipes[i][i != 0]);
    for (int i = 0; err != ERR_OK && i < 3; i++) close_fd(&t->fds[i]);
    if (err != ERR_OK) t->pid = 0;
    return err;
}

/* Reads what is there. Beyond `most` bytes it is dropped, so that the child is not kept waiting. */
static void read_some(talk_t *t, int i, size_t most)
{
    char piece[16384];
    ssize_t n = 1;
    while (t->fds[i] >= 0 && (n = read(t->fds[i], piece, sizeof piece)) > 0) {
        const size_t room = most - t->n[i], take = (size_t)n < room ? (size_t)n : room;
        launch_need(mem_grow((int64_t)(t->n[i] + take + 1), 1, "an answer", &t->text[i]));
        memcpy(t->text[i] + t->n[i], piece, take);
        t->n[i] += take;
        t->text[i][t->n[i]] = '\0';
        if (take < (size_t)n) break; /* endless output: to the deadlines in between */
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) close_fd(&t->fds[i]);
}

static void write_some(talk_t *t, const char *input, size_t n_bytes)
{
    while (t->fds[0] >= 0 && t->n_sent < n_bytes) {
        const ssize_t n = write(t->fds[0], input + t->n_sent, n_bytes - t->n_sent);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) break;
        t->n_sent += (size_t)n;
    }
    close_fd(&t->fds[0]);
}

static void check_time(talk_t *t)
{
    const double now = clock_sec();
    if (now < t->until) return;
    kill(-t->pid, t->is_late ? SIGKILL : SIGTERM);
    t->is_late = true;
    t->until = now + KILL_SEC;
}

void talk_poll(talk_t *const *talks, int n, const char *input, size_t n_input, size_t most, int also)
{
    struct pollfd polls[4 * TALKS_AT_ONCE + 2];
    int n_polls = 0, timeout = 1000;
    const double now = clock_sec();
    polls[n_polls++] = (struct pollfd){.fd = signals_fd(), .events = POLLIN};
    polls[n_polls++] = (struct pollfd){.fd = also, .events = POLLIN};
    for (int i = 0; i < n; i++) {
        const talk_t *t = talks[i];
        const double left = 1000 * (t->until - now) + 1;
        if (left < timeout) timeout = left < 0 ? 0 : (int)left;
        if (t->watch < 0 && timeout > TICK_MS) timeout = TICK_MS;
        for (int k = 0; k < 3; k++)
            polls[n_polls++] = (struct pollfd){.fd = t->fds[k], .events = k == 0 ? POLLOUT : POLLIN};
        polls[n_polls++] = (struct pollfd){.fd = t->watch, .events = POLLIN};
    }
    poll(polls, (nfds_t)n_polls, timeout);
    for (int i = 0; i < n; i++) {
        write_some(talks[i], input, n_input);
        read_some(talks[i], 1, most);
        read_some(talks[i], 2, TEXT_BYTES);
        check_time(talks[i]);
    }
}

bool talk_ended(talk_t *t, size_t most)
{
    int status;
    if (waitpid(t->pid, &status, WNOHANG) != t->pid) return false;
    read_some(t, 1, most);
    read_some(t, 2, TEXT_BYTES);
    for (int i = 0; i < 3; i++) close_fd(&t->fds[i]);
    close_fd(&t->watch);
    t->code = t->is_late ? NO_ANSWER : launch_exit_code(status);
    t->pid = 0;
    return true;
}

void talk_free(talk_t *t)
{
    if (t->pid > 0) {
        kill(-t->pid, SIGKILL);
        waitpid(t->pid, NULL, 0);
    }
    for (int i = 0; i < 3; i++) {
        close_fd(&t->fds[i]);
        mem_free(&t->text[i]);
    }
    close_fd(&t->watch);
    t->pid = 0;
}

err_t launch_output(job_t *job, const words_t *words, double sec, size_t max_bytes, bool keeps_errors,
                    char **out, int *code)
{
    talk_t talk, *one = &talk;
    *out = NULL;
    *code = NO_ANSWER;
    const double since = clock_sec();
    bool is_said = false;
    TRY(talk_start(&talk, words, false, keeps_errors, NULL, sec));
    do {
        if (!is_said && clock_sec() - since > QUIET_SEC) {
            say(job, "waiting for %.200s, for at most %g s", words_join(&job->start, words, " "), sec);
            is_said = true;
        }
        if (signals_pending() && !talk.is_late) talk.until = clock_sec();
        talk_poll(&one, 1, "", 0, max_bytes, -1);
    } while (!talk_ended(&talk, max_bytes));
    *code = talk.code;
    if (!talk.text[1]) launch_need(mem_new(1, "a program's output", &talk.text[1]));
    *out = talk.text[1];
    talk.text[1] = NULL;
    talk_free(&talk);
    return ERR_OK;
}

err_t config_ask(job_t *job, double sec, bool keeps_errors, char **out, int *code)
{
    words_t words = {0};
    words_add(&words, job->program);
    words_add_all(&words, &job->words);
    words_add(&words, "--print-config");
    const err_t err = launch_output(job, &words, sec, CONFIG_BYTES, keeps_errors, out, code);
    words_free(&words);
    return err;
}

const char *config_value(job_t *job, const char *config, const char *name)
{
    const size_t n = strlen(name);
    const char *value = NULL;
    for (const char *at = config; at && *at; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, name, n) == 0 && strncmp(at + n, " = ", 3) == 0) value = at + n + 3;
    return value ? job_text(job, "%.*s", (int)strcspn(value, "\n"), value) : NULL;
}

err_t user_text(job_t *job, const char *path, size_t max_bytes, const char **out)
{
    struct stat info;
    char *text = NULL;
    int code = 0;
    err_t err = ERR_OK;
    for (int i = 0; i < job->pipes.n; i += 2)
        if (strcmp(job->pipes.at[i], path) == 0) {
            *out = job->pipes.at[i + 1];
            return ERR_OK;
        }
    const bool exists = stat(path, &info) == 0, is_pipe = exists && S_ISFIFO(info.st_mode);
    if (exists && !is_pipe && !S_ISREG(info.st_mode))
        RAISE(ERR_USAGE, "cannot read %s: it is not a regular file", path);
    /* A fifo that nobody writes to would hold this process, and no signal would end it. */
    if (is_pipe)
        TRY(launch_output(job, WORDS("cat", "--", path), PIPE_SEC, max_bytes + 1, false, &text, &code));
    else
        TRY(fs_read_text(path, (int64_t)max_bytes, &text));
    if (signals_pending())
        *out = "";
    else if (code != 0)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__,
                        "cannot read %s: it is a pipe whose end did not come within %d s", path, PIPE_SEC);
    else if (strlen(text) > max_bytes)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "cannot read %s: it is larger than %zu bytes", path,
                        max_bytes);
    else if (is_pipe) {
        *out = job_text(job, "%s", text);
        words_add_list(&job->pipes, path, *out, NULL);
    } else
        *out = start_text(job, "%s", text);
    mem_free(&text);
    return err;
}
