/* SPDX-License-Identifier: MIT */
/* Words and messages of the launcher; its temporary folder and the space that MPI needs there; files in folders that others can write, or that are on a
 * server, which may not answer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "launch/job.h"

enum { SPACE_BYTES = 4 << 20, ANSWER_SEC = 10, READ_SEC = 60 };

/* ---- Words and messages ---- */
/* Without memory nothing can be said of the job any more; its ranks end with this process (launch_start_child). */
void launch_need(err_t err)
{
    if (err == ERR_OK) return;
    log_error("%s", err_message());
    _exit((int)err);
}

void words_add(words_t *words, const char *word)
{
    launch_need(mem_grow(words->n + 2, sizeof *words->at, "words", &words->at));
    words->at[words->n++] = word;
    words->at[words->n] = NULL;
}

void words_add_all(words_t *words, const words_t *more)
{
    for (int i = 0; i < more->n; i++) words_add(words, more->at[i]);
}

void words_add_list(words_t *words, ...)
{
    va_list list;
    va_start(list, words);
    for (const char *word; (word = va_arg(list, const char *));) words_add(words, word);
    va_end(list);
}

void words_remove(words_t *words, int at, int n)
{
    memmove(words->at + at, words->at + at + n, (size_t)(words->n - at - n + 1) * sizeof *words->at);
    words->n -= n;
}

bool words_have(const words_t *words, const char *word)
{
    for (int i = 0; i < words->n; i++)
        if (strcmp(words->at[i], word) == 0) return true;
    return false;
}

void words_free(words_t *words)
{
    mem_free(&words->at);
    words->n = 0;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void words_sort(words_t *words)
{
    if (words->n > 1) qsort(words->at, (size_t)words->n, sizeof *words->at, compare_words);
}

const char *words_value(const words_t *words, const char *name)
{
    const size_t n = strlen(name);
    for (int i = words->n - 1; i >= 0; i--) {
        const char *word = words->at[i];
        if (strncmp(word, name, n) != 0) continue;
        if (word[n] == '=') return word + n + 1;
        if (!word[n] && i + 1 < words->n) return words->at[i + 1];
    }
    return NULL;
}

bool word_number(const char *text, int64_t *out)
{
    int64_t value = 0;
    const char *at = text;
    while (*at == '0' && at[1]) at++;
    const size_t n = strspn(at, "0123456789");
    if (n == 0 || n > 15 || at[n]) return false;
    for (size_t i = 0; i < n; i++) value = 10 * value + (at[i] - '0');
    *out = value;
    return true;
}

const char *word_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool word_is_name(const char *text)
{
    const size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return n > 0 && !text[n] && text[0] != '-';
}

const char *text_in(arena_t *arena, const char *format, ...)
{
    const char *out;
    va_list args;
    va_start(args, format);
    launch_need(arena_vformat(arena, &out, format, args));
    va_end(args);
    return out;
}

const char *text_quoted(arena_t *arena, const char *word)
{
    const size_t n_bytes = 4 * strlen(word) + 8;
    char *out;
    launch_need(arena_new(arena, n_bytes, &out));
    fs_quote(word, out, n_bytes);
    return out;
}

const char *words_join(arena_t *arena, const words_t *words, const char *separator)
{
    size_t n_bytes = 1;
    char *text, *to;
    for (int i = 0; i < words->n; i++) n_bytes += strlen(words->at[i]) + strlen(separator);
    launch_need(arena_new(arena, n_bytes, &text));
    *(to = text) = '\0';
    for (int i = 0; i < words->n; i++) to = stpcpy(stpcpy(to, i ? separator : ""), words->at[i]);
    return text;
}

/* Appends to the log. A folder that does not answer delays the launcher once. */
static void log_line(job_t *job, const char *text)
{
    struct timespec now;
    struct tm parts;
    char stamp[32];
    if (job->log_fd <= 0) return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    const char *line = start_text(job, "%s.%03ldZ %s", stamp, now.tv_nsec / 1000000, text);
    /* Not closed: that could take as long. */
    if (own_append(job->log_fd, line, strlen(line)) != 0) job->log_fd = -1;
}

/* Who does not read standard error must not keep the launcher from its deadlines: it waits a second for them, once. */
static void print_message(const char *text, size_t n)
{
    static bool is_stuck;
    while (n > 0) {
        struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
        is_stuck = poll(&ready, 1, is_stuck ? 0 : 1000) != 1;
        const ssize_t done = is_stuck ? -1 : write(STDERR_FILENO, text, n < PIPE_BUF ? n : PIPE_BUF);
        if (done < 0) return;
        text += done;
        n -= (size_t)done;
    }
}

void say(job_t *job, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    launch_need(arena_vformat(&job->start, (const char **)&text, format, args));
    va_end(args);
    text = (char *)(uintptr_t)start_text(job, "%s %s\n", job->speaker, text);
    print_mask(text);
    print_message(text, strlen(text));
    log_line(job, text);
}

/* ---- The temporary folder ---- */
const char *job_temp_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && folder[0] ? folder : "/tmp";
}

/* Where others can write, they can take the name of a folder that was removed. */
static bool is_own_folder(const char *path)
{
    struct stat s;
    return path[0] && lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid();
}

static void remove_folder(const char *path)
{
    static const char *const names[] = {"ssh_config", "asked", "uri", "space"};
    char file[FS_PATH_MAX + 16];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        unlink(file);
    }
    rmdir(path);
}

/* Removes folders of launchers that were killed: nobody holds their lock. */
static void remove_stale(void)
{
    char path[FS_PATH_MAX];
    DIR *folder = opendir(job_temp_folder());
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, "dptrain-run.", 12) != 0 || strlen(entry->d_name) != 18) continue;
        if (snprintf(path, sizeof path, "%s/%s", job_temp_folder(), entry->d_name) >= (int)sizeof path ||
            !is_own_folder(path))
            continue;
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) remove_folder(path);
        close(fd);
    }
    if (folder) closedir(folder);
}

err_t job_make_work(job_t *job)
{
    if (is_own_folder(job->work)) return ERR_OK;
    remove_stale();
    /* Another launcher may take it for a stale one before it is locked. */
    for (int i = 0; i < 100; i++) {
        if (job->work_fd > 0) close(job->work_fd);
        job->work_fd = -1;
        /* Under its old name, if it can be: ssh's words and the ranks' environment have it. */
        const bool is_again = i == 0 && job->work[0] && mkdir(job->work, 0700) == 0;
        if (!is_again && (snprintf(job->work, sizeof job->work, "%s/dptrain-run.XXXXXX", job_temp_folder()) >=
                              (int)sizeof job->work ||
                          !mkdtemp(job->work))) {
            job->work[0] = '\0';
            RAISE(ERR_SYSTEM, "cannot create a folder in %s: %s", job_temp_folder(), strerror(errno));
        }
        job->work_fd = open(job->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        /* Who removes a stale folder holds the lock for a moment. Some file systems have no locks. */
        if (job->work_fd >= 0 && flock(job->work_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            continue;
        if (is_own_folder(job->work)) break;
    }
    return ERR_OK;
}

void job_leave_work(job_t *job)
{
    if (is_own_folder(job->work)) remove_folder(job->work);
    job->work[0] = '\0';
    if (!job->session[0]) return;
    rmdir(job->session);
    *strrchr(job->session, '/') = '\0';
    rmdir(job->session);
    job->session[0] = '\0';
}

/* Those of launchers that were killed. */
static void remove_dead_holds(const char *path)
{
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        int64_t pid;
        if (strncmp(entry->d_name, "dptrain.", 8) == 0 && word_number(entry->d_name + 8, &pid) &&
            kill((pid_t)pid, 0) != 0 && errno == ESRCH)
            unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    }
    if (folder) closedir(folder);
}

/* Keeps the folder of OpenMPI 4's sessions until job_leave_work: an mpirun fails if another creates or removes it at the same moment. */
err_t job_hold_session(job_t *job)
{
    char folder[FS_PATH_MAX - 32];
    const char *base = getenv("OMPI_MCA_orte_tmpdir_base");
    struct stat s;
    if (job->session[0] || job->mpi_major >= 5) return ERR_OK;
    if (snprintf(folder, sizeof folder, "%s/ompi.%.*s.%d", base && base[0] ? base : job_temp_folder(),
                 (int)strcspn(job->host, "."), job->host, (int)geteuid()) >= (int)sizeof folder)
        return ERR_OK;
    if (lstat(folder, &s) == 0 && (!S_ISDIR(s.st_mode) || s.st_uid != geteuid()))
        RAISE(ERR_SYSTEM,
              "%s belongs to user %d, and mpirun would keep its files there: remove it, or set TMPDIR",
              folder, (int)s.st_uid);
    remove_dead_holds(folder);
    snprintf(job->session, sizeof job->session, "%s/dptrain.%d", folder, (int)getpid());
    /* Another launcher may remove the empty folder in between. */
    for (int i = 0; i < 3; i++) {
        mkdir(folder, 0700);
        if (mkdir(job->session, 0700) == 0 || errno == EEXIST) return ERR_OK;
    }
    job->session[0] = '\0';
    return ERR_OK;
}

/* Writes as much as MPI does at start. Returns the errno; 0: there is room. */
static int try_space(const job_t *job)
{
    static char zeros[65536];
    char path[FS_PATH_MAX + 16];
    int reason = 0;
    snprintf(path, sizeof path, "%s/space", job->work[0] ? job->work : job_temp_folder());
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) reason = errno;
    for (int n = 0; reason == 0 && n < SPACE_BYTES; n += (int)sizeof zeros)
        reason = fs_write_all(fd, FS_HERE, zeros, sizeof zeros);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return reason;
}

bool job_is_full(const job_t *job)
{
    const int reason = try_space(job);
    return reason == ENOSPC || reason == EDQUOT;
}

err_t job_check_space(const job_t *job)
{
    const int reason = try_space(job);
    if (reason == EFBIG)
        RAISE(ERR_SYSTEM,
              "files may have at most %lld bytes (ulimit -f), and mpirun needs 4 MB in %s: raise the limit",
              (long long)fs_size_limit(), job_temp_folder());
    if (reason == ENOSPC || reason == EDQUOT)
        RAISE(ERR_SYSTEM, "%s is full, and mpirun needs 4 MB there: free some space, or set TMPDIR",
              job_temp_folder());
    /* A missing folder (a cleaner has removed it) does not mean that the disk is full. */
    if (reason != 0 && reason != ENOENT)
        RAISE(ERR_SYSTEM, "cannot write in %s, where mpirun needs 4 MB: %s", job_temp_folder(),
              strerror(reason));
    return ERR_OK;
}

/* ---- Calls that a server may not answer ---- */
typedef struct file_call {
    void (*run)(struct file_call *call);
    char path[FS_PATH_MAX];
    int flags, fd, reason;
    fs_own_t own; /* of open_file */
    int64_t offset, newest;
    size_t n_bytes, n_done;
    char *bytes;
} file_call_t;

static void *run_call(void *argument)
{
    file_call_t *c = argument;
    c->run(c);
    return NULL;
}

/* Runs it in a thread. 0, or the errno; ETIMEDOUT without an answer, when the thread keeps its copy of the call and of the bytes. */
static int file_call(void (*run)(file_call_t *), double sec, file_call_t *in_out)
{
    const struct timespec until = thread_time_after(sec);
    char *bytes = in_out->bytes;
    file_call_t *c;
    pthread_t thread;
    launch_need(mem_new(sizeof *c + in_out->n_bytes, "a part of a file", &c));
    *c = *in_out;
    c->run = run;
    c->bytes = (char *)(c + 1);
    if (bytes) memcpy(c->bytes, bytes, c->n_bytes);
    if (thread_start(&thread, run_call, c) != 0) {
        run(c);
    } else if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
        pthread_detach(thread);
        return ETIMEDOUT;
    }
    *in_out = *c;
    in_out->bytes = bytes;
    if (bytes) memcpy(bytes, c->bytes, c->n_done);
    mem_free(&c);
    return in_out->reason;
}

static void open_file(file_call_t *c)
{
    fs_own_open(c->path, c->flags, &c->own);
}

err_t own_open(const char *path, int flags, const char *option, int *fd, int64_t *n_bytes)
{
    file_call_t c = {.flags = flags};
    *fd = -1;
    *n_bytes = 0;
    snprintf(c.path, sizeof c.path, "%s", path);
    if (file_call(open_file, ANSWER_SEC, &c) == ETIMEDOUT)
        RAISE(ERR_SYSTEM, "%s: its folder does not answer", path);
    if (c.own.reason == ENOENT && !(flags & O_CREAT)) return ERR_OK;
    TRY(fs_own_check(&c.own, path, option));
    *fd = c.own.fd;
    *n_bytes = c.own.stat.st_size;
    return ERR_OK;
}

static void read_file(file_call_t *c)
{
    c->reason = fs_read_all(c->fd, c->offset, c->bytes, c->n_bytes, &c->n_done);
}

static void append_file(file_call_t *c)
{
    c->reason = fs_write_all(c->fd, FS_HERE, c->bytes, c->n_bytes);
}

static void lock_file(file_call_t *c)
{
    if (flock(c->fd, LOCK_EX | LOCK_NB) != 0) c->reason = errno;
}

/* ckpt-N.h5, N up to 15 digits. */
static int64_t step_of_name(const char *name)
{
    char digits[32];
    int64_t step;
    const size_t n = strncmp(name, "ckpt-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    if (n == 0 || n >= sizeof digits || strcmp(name + 5 + n, ".h5") != 0) return -1;
    memcpy(digits, name + 5, n);
    digits[n] = '\0';
    return word_number(digits, &step) ? step : -1;
}

static void find_newest(file_call_t *c)
{
    DIR *folder = opendir(c->path);
    c->newest = -1;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const int64_t step = step_of_name(entry->d_name);
        if (step > c->newest) c->newest = step;
    }
    if (folder) closedir(folder);
}

static void make_folder(file_call_t *c)
{
    c->newest = fs_is_folder(c->path);
    if (!c->newest && fs_make_folder(c->path) != ERR_OK) c->reason = EIO;
}

int own_read(int fd, int64_t offset, char *out, size_t n_bytes, size_t *n_read)
{
    file_call_t c = {.fd = fd, .offset = offset, .bytes = out, .n_bytes = n_bytes};
    const int reason = file_call(read_file, READ_SEC, &c);
    *n_read = reason ? 0 : c.n_done;
    return reason;
}

int own_append(int fd, const char *text, size_t n_bytes)
{
    file_call_t c = {.fd = fd, .bytes = (char *)(uintptr_t)text, .n_bytes = n_bytes};
    return file_call(append_file, ANSWER_SEC, &c);
}

int own_lock(int fd)
{
    file_call_t c = {.fd = fd};
    return file_call(lock_file, ANSWER_SEC, &c);
}

int64_t own_newest(const char *folder)
{
    file_call_t c = {0};
    snprintf(c.path, sizeof c.path, "%s", folder);
    return file_call(find_newest, ANSWER_SEC, &c) ? -1 : c.newest;
}

err_t own_folder(const char *path, bool *is_new)
{
    file_call_t c = {0};
    snprintf(c.path, sizeof c.path, "%s", path);
    const int reason = file_call(make_folder, ANSWER_SEC, &c);
    *is_new = !reason && !c.newest;
    if (reason == ETIMEDOUT) RAISE(ERR_SYSTEM, "%s: it does not answer", path);
    if (reason) RAISE(ERR_SYSTEM, "cannot create the folder %s", path);
    return ERR_OK;
}
