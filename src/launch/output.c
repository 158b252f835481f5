/* SPDX-License-Identifier: MIT */
/* The ranks' output: two threads forward it, and see in it whether the job has started, what mpirun or srun says of lost ranks and hosts,
 * and what ranks say of each other. */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "launch/job.h"

enum {
    LINE_BYTES = 64 << 10,
    REST_SEC = 20, /* for output after mpirun's end: a stray process may hold the pipe open */
};

/* Patterns of the job's standard error. */
enum {
    SUMMARY,
    OF_END,
    OF_SILENT,
    OF_HOST,
    OF_SIGNAL,
    OF_LEFT,
    OF_CODE,
    OF_ABORT,
    OF_SRUN_CODE,
    OF_SRUN_SIGNAL,
    OF_RANK,
    OF_PHASE,
    N_PATTERNS,
    MAX_PARTS = 5
};
static const char *const patterns[N_PATTERNS] = {
    /* After OpenMPI's messages. */
    [SUMMARY] =
        ("^\\[[^]]*\\] ([0-9]+ more process|Set MCA parameter \"orte_base_help)|^mpirun: Forwarding signal |"
         "plm:[rs]sh: Warning: setpgid|^\\[[^]]*\\] Delaying for 1 seconds|"
         "ORTE_ERROR_LOG: Data unpack would read past end"),
    [OF_END] =
        "error: |noticed that process|exiting improperly|lost communication with|MPI_ABORT was invoked|non-zero status",
    [OF_SILENT] = "rank [0-9]+ on ([^ ]+) does not answer",
    [OF_HOST] = "lost communication with a remote daemon.*Remote daemon ?: [^ ]+ on node ([^ ]+)",
    [OF_SIGNAL] = "process rank ([0-9]+) with PID [0-9]+ on( node)? ([^ ]+) exited on signal ([0-9]+)",
    [OF_LEFT] = "process rank ([0-9]+) with PID [0-9]+ on( node)? ([^ ]+) exiting improperly",
    [OF_CODE] = "Process name: \\[[^ ]*,([0-9]+)\\] Exit code: ([0-9]+)",
    [OF_ABORT] = "MPI_ABORT was invoked on rank ([0-9]+) .*rrorcode:? ([0-9]+)",
    [OF_SRUN_CODE] = "srun: error: ([^ ]+): tasks? ([0-9]+)[^:]*: Exited with exit code ([0-9]+)",
    [OF_SRUN_SIGNAL] = "srun: error: ([^ ]+): tasks? ([0-9]+)[^:]*: [A-Z]",
    [OF_RANK] = "rank ([0-9]+) on ([^][:space:],;:)]+)",
    [OF_PHASE] = "(was|is) (last )?in \"([^\"]*)\"",
};
static regex_t compiled[N_PATTERNS];

static void compile_patterns(void)
{
    static bool done;
    for (int i = 0; i < N_PATTERNS && !done; i++)
        ASSERT(regcomp(&compiled[i], patterns[i], REG_EXTENDED) == 0);
    done = true;
}

typedef struct parts {
    char at[MAX_PARTS][ANSWER_NAME];
} parts_t;

static bool matches(int pattern, const char *text, parts_t *parts)
{
    regmatch_t found[MAX_PARTS];
    if (regexec(&compiled[pattern], text, MAX_PARTS, found, 0) != 0) return false;
    for (int i = 0; parts && i < MAX_PARTS; i++)
        snprintf(parts->at[i], ANSWER_NAME, "%.*s",
                 found[i].rm_so < 0 ? 0 : (int)(found[i].rm_eo - found[i].rm_so),
                 text + (found[i].rm_so < 0 ? 0 : found[i].rm_so));
    return true;
}

/* Forwards rank 0's output; its first bytes show that the job has started. Reads on if nobody reads its output any more: a closed pipe
 * must not end the job. */
static void *forward_output(void *argument)
{
    output_t *out = argument;
    static const size_t n_piece = 65536;
    char *piece = NULL;
    ssize_t n;
    bool is_gone = false;
    launch_need(mem_new(n_piece, "the job's output", &piece));
    while ((n = read(out->fds[0], piece, n_piece)) != 0) {
        if (n < 0) {
            if (errno == EINTR) continue;
            break;
        }
        pthread_mutex_lock(&out->lock);
        const size_t kept = out->is_over ? 0 : (size_t)n < LAST_BYTES ? (size_t)n : LAST_BYTES;
        const size_t old = out->n_last + kept > LAST_BYTES ? LAST_BYTES - kept : out->n_last;
        memmove(out->last, out->last + out->n_last - old, old);
        memcpy(out->last + old, piece + n - kept, kept);
        out->n_last = old + kept;
        pthread_mutex_unlock(&out->lock);
        out->started = true;
        const int reason = is_gone ? 0 : fs_write_all(STDOUT_FILENO, FS_HERE, piece, (size_t)n);
        if (reason != 0) {
            is_gone = true;
            out->gone = reason;
        }
    }
    mem_free(&piece);
    return NULL;
}

static bool is_rule(const char *line)
{
    const size_t n = strspn(line, "-");
    return n >= 70 && n <= 80 && !line[n];
}

/* Looks at a line of the job's standard error. Returns whether the user is to see it: OpenMPI's own messages come between lines of
 * dashes, and are read at the end. */
static bool see_line(output_t *out, const char *line, bool *inside)
{
    parts_t parts;
    const char *error = strstr(line, "error: ");
    if (matches(OF_END, line, NULL) && out->ends_at == 0) out->ends_at = clock_sec();
    if (is_rule(line)) {
        *inside = !*inside;
        return false;
    }
    const bool is_own = *inside && strncmp(line, "dptrain:", 8) != 0;
    if (is_own || strncmp(line, "srun: error:", 12) == 0) {
        const int n = snprintf(out->said + out->n_said, SAID_BYTES - out->n_said, "%s\n", line);
        if (n > 0 && out->n_said + (size_t)n < SAID_BYTES) out->n_said += (size_t)n;
    }
    if (is_own) return false;
    if (error && !out->has_spoken) {
        out->has_spoken = true;
        snprintf(out->spoke, sizeof out->spoke, "%s", error + 7);
    }
    out->no_mpi |= strstr(line, "An error occurred in MPI_Init") != NULL;
    out->is_elsewhere |= strstr(line, "check the other hosts") != NULL;
    if (out->n_silent < MAX_SILENT && matches(OF_SILENT, line, &parts))
        snprintf(out->silent[out->n_silent++], ANSWER_NAME, "%s", parts.at[1]);
    return !matches(SUMMARY, line, NULL);
}

static void *forward_errors(void *argument)
{
    output_t *out = argument;
    char *line = NULL;
    size_t used = 0;
    ssize_t n;
    bool inside = false, is_gone = false;
    launch_need(mem_new(LINE_BYTES + 2, "the job's messages", &line));
    while ((n = read(out->fds[1], line + used, LINE_BYTES - used)) != 0 || used > 0) {
        if (n < 0 && errno == EINTR) continue;
        const bool ends = n <= 0;
        used += ends ? 0 : (size_t)n;
        char *at = line, *newline;
        for (size_t left = used; left > 0; left = used - (size_t)(at - line)) {
            newline = memchr(at, '\n', left);
            if (!newline && !ends && left < LINE_BYTES) break;
            char *end = newline ? newline : at + left;
            char *to = at, was = *end;
            *end = '\0';
            for (char *from = at; from < end; from++)
                if (*from != '\r') *to++ = *from ? *from : '?';
            *to = '\0';
            pthread_mutex_lock(&out->lock);
            const bool is_shown = out->is_over || see_line(out, at, &inside);
            pthread_mutex_unlock(&out->lock);
            print_mask(at);
            const size_t length = strlen(at);
            at[length] = '\n';
            const int reason =
                is_shown && !is_gone ? fs_write_all(STDERR_FILENO, FS_HERE, at, length + 1) : 0;
            if (reason) {
                is_gone = true;
                out->gone = reason;
            }
            if (!newline) *end = was;
            at = newline ? newline + 1 : end;
        }
        used -= (size_t)(at - line);
        memmove(line, at, used);
        if (ends) break;
    }
    mem_free(&line);
    return NULL;
}

err_t output_open(output_t **out, int child[2])
{
    output_t *o;
    int pipes[2][2];
    void *(*const forward[])(void *) = {forward_output, forward_errors};
    compile_patterns();
    for (int i = 0; i < 2; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0) RAISE(ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    launch_need(mem_new(sizeof *o, "the job's output", &o));
    pthread_mutex_init(&o->lock, NULL);
    for (int i = 0; i < 2; i++) {
        o->fds[i] = pipes[i][0];
        child[i] = pipes[i][1];
    }
    for (int i = 0; i < 2; i++) {
        const int reason = thread_start(&o->threads[i], forward[i], o);
        /* Without its reader the job could not go on. */
        if (reason)
            launch_need(
                err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot start a thread: %s", strerror(reason)));
    }
    *out = o;
    return ERR_OK;
}

void output_end(output_t *out)
{
    const struct timespec until = thread_time_after(REST_SEC);
    for (int i = 0; i < 2; i++)
        out->n_joined += pthread_clockjoin_np(out->threads[i], NULL, CLOCK_MONOTONIC, &until) == 0;
    pthread_mutex_lock(&out->lock);
    out->is_over = true;
    pthread_mutex_unlock(&out->lock);
}

void output_close(output_t *out)
{
    if (!out->is_over) output_end(out);
    if (out->n_joined < 2) return;
    for (int i = 0; i < 2; i++) close(out->fds[i]);
    mem_free(&out);
}

/* ---- What was said ---- */
bool output_has_finished(const output_t *out)
{
    return strncmp(out->last, "finished after ", 15) == 0 || strstr(out->last, "\nfinished after ");
}

static void set_number(int64_t *out, const char *text)
{
    if (!word_number(text, out)) *out = -1;
}

loss_t output_loss(const output_t *out, int code)
{
    parts_t p;
    loss_t loss = {.rank = -1};
    char *text = NULL;
    size_t n = 0;
    launch_need(mem_new(SAID_BYTES, "mpirun's messages", &text));
    for (size_t i = 0; i < out->n_said; i++) {
        const bool is_blank = strchr(" \t\r\n", out->said[i]) != NULL;
        if (!is_blank || (n > 0 && text[n - 1] != ' ')) text[n++] = is_blank ? ' ' : out->said[i];
    }
    if (matches(OF_HOST, text, &p)) {
        loss.how = LOST_HOST;
        snprintf(loss.host, ANSWER_NAME, "%s", p.at[1]);
    } else if (matches(OF_SIGNAL, text, &p) || matches(OF_LEFT, text, &p)) {
        loss.how = p.at[4][0] ? LOST_SIGNAL : LOST_LEFT;
        set_number(&loss.rank, p.at[1]);
        snprintf(loss.host, ANSWER_NAME, "%s", p.at[3]);
        set_number(&loss.code, p.at[4]);
    } else if (matches(OF_CODE, text, &p) || matches(OF_ABORT, text, &p)) {
        loss.how = LOST_CODE;
        set_number(&loss.rank, p.at[1]);
        set_number(&loss.code, p.at[2]);
    } else if (matches(OF_SRUN_CODE, text, &p) || matches(OF_SRUN_SIGNAL, text, &p)) {
        loss.how = p.at[3][0] ? LOST_CODE : LOST_SIGNAL;
        snprintf(loss.host, ANSWER_NAME, "%s", p.at[1]);
        set_number(&loss.rank, p.at[2]);
        /* srun's words for a signal vary, but its exit code is 128 plus the number. */
        if (p.at[3][0])
            set_number(&loss.code, p.at[3]);
        else
            loss.code = code > 128 ? code - 128 : 0;
    }
    mem_free(&text);
    return loss;
}

bool output_rank_in(const char *text, int64_t *rank, char host[ANSWER_NAME])
{
    parts_t p;
    if (!matches(OF_RANK, text, &p)) return false;
    set_number(rank, p.at[1]);
    snprintf(host, ANSWER_NAME, "%s", p.at[2]);
    return true;
}

bool output_phase_in(const char *text, char phase[ANSWER_NAME])
{
    parts_t p;
    if (!matches(OF_PHASE, text, &p)) return false;
    snprintf(phase, ANSWER_NAME, "%s", p.at[3]);
    return true;
}
