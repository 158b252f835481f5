/* SPDX-License-Identifier: MIT */
/* The check `shared`: each host writes a token and looks for those of the others; then measures latency and
 * bandwidth of the folder. */
#include "tools/check/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/stats.h"
#include "text/figure.h"
#include "tools/bench/cases.h"
#include "tools/check/cases.h"

enum { N_SMALL_FILES = 21 };

typedef struct shared {
    char folder[FS_PATH_MAX]; /* rank 0's, absolute */
    uint64_t id;              /* of this run, part of all file names */
    bool asked_for;           /* --shared was given: a folder that is not shared fails the check */
    bool speaks;              /* this rank writes and reads for its host */
    bool hangs;               /* the folder does not respond on this host */
    bool *seen;               /* [n_hosts * n_hosts], the same on all ranks */
    bool *wrote;              /* [n_hosts], likewise */
    int root;
} shared_t;

bool shared_is_reference(int host, int n_hosts)
{
    return n_hosts <= SHARED_ALL || host == 0 || host == n_hosts / 2 || host == n_hosts - 1;
}

bool shared_mutual(const bool *seen, int n_hosts, int a, int b)
{
    return seen[a * n_hosts + b] && seen[b * n_hosts + a];
}

int shared_find_root(const bool *seen, int n_hosts)
{
    int best = 0, best_count = -1;
    for (int host = 0; host < n_hosts; host++) {
        int count = 0;
        for (int other = 0; shared_is_reference(host, n_hosts) && other < n_hosts; other++)
            count += shared_mutual(seen, n_hosts, host, other);
        if (count <= best_count) continue;
        best_count = count;
        best = host;
    }
    return best;
}

static err_t path_of(const shared_t *s, const char *kind, int host, char out[FS_PATH_MAX])
{
    char name[80];
    snprintf(name, sizeof name, ".dptrain-check-%016" PRIx64 "-%s-%d", s->id, kind, host);
    return fs_join(out, s->folder, name);
}

/* On rank 0. */
static void choose_folder(const check_options_t *options, shared_t *s)
{
    char folder[FS_PATH_MAX];
    const char *request = options->shared ? options->shared : options->out ? options->out : "runs";
    snprintf(folder, sizeof folder, "%s", request);
    s->hangs = process_probe(request, options->shared_timeout_sec) != ERR_OK;
    /* The nearest existing parent of --out. */
    bool is_parent = options->shared != NULL || s->hangs;
    while (!is_parent) {
        char *slash = strrchr(folder, '/');
        snprintf(slash ? slash + (slash == folder) : folder, 2, "%s", slash ? "" : ".");
        is_parent = fs_exists(folder);
    }
    /* If the folder is missing or hangs, write_token will report it. */
    _Static_assert(FS_PATH_MAX >= PATH_MAX, "realpath writes as much");
    if (s->hangs || !realpath(folder, s->folder)) memcpy(s->folder, folder, sizeof folder);
    s->id = (uint64_t)(1e6 * clock_unix_sec()) ^ (uint64_t)getpid() << 48;
}

/* Writes a small file that contains its own path. */
static err_t write_token(const check_t *check, shared_t *s, int host)
{
    char path[FS_PATH_MAX];
    int fd;
    err_t err = process_probe(s->folder, check->options->shared_timeout_sec);
    s->hangs = err != ERR_OK;
    TRY(err);
    /* Does not name the file: equal messages of several hosts become one row. */
    if (access(s->folder, W_OK | X_OK) != 0) RAISE(ERR_SYSTEM, "%s: %s", s->folder, strerror(errno));
    TRY(path_of(s, "token", host, path));
    TRY(io_write(path, (const uint8_t *)path, (int64_t)strlen(path), &fd));
    err = io_flush(fd, path);
    if (close(fd) != 0 && err == ERR_OK) RAISE(ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno));
    return err;
}

static bool see_token(const shared_t *s, int host)
{
    char path[FS_PATH_MAX], text[FS_PATH_MAX];
    if (path_of(s, "token", host, path) != ERR_OK) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t n;
    int reason = fs_read_all(fd, FS_HERE, text, sizeof text, &n);
    close(fd);
    return !reason && n == strlen(path) && memcmp(text, path, n) == 0;
}

static bool looks_for(const check_t *check, int host)
{
    return shared_is_reference(check->host, check->n_hosts) || shared_is_reference(host, check->n_hosts);
}

/* Looks for the other hosts' tokens until all are visible or time is up; reports how long that took. */
static void look_for_tokens(check_t *check, shared_t *s)
{
    bool *seen = s->seen + (size_t)check->host * (size_t)check->n_hosts;
    double start = clock_sec(), timeout = check->options->shared_timeout_sec;
    int n_missing;
    do {
        n_missing = 0;
        for (int host = 0; host < check->n_hosts; host++) {
            if (!looks_for(check, host) || !s->wrote[host] || seen[host]) continue;
            seen[host] = see_token(s, host);
            n_missing += !seen[host];
        }
        if (n_missing > 0) clock_sleep(0.05);
    } while (n_missing > 0 && clock_sec() - start < timeout);
    double sec = clock_sec() - start;
    if (n_missing == 0 && check->n_hosts > 1)
        check_measured(check, check_host(check), "files of others", sec > 1 ? CHECK_WARN : CHECK_OK,
                       "attribute caching delays new files: mount with noac or a small actimeo",
                       check_less(sec), "within %.2f s", sec);
}

/* Collective. Writes each host's token and finds out which hosts see it. */
static err_t exchange_tokens(check_t *check, shared_t *s)
{
    static const char what[] = "looking for the files of other hosts";
    comm_t *comm = check->comm;
    int n = check->n_hosts;
    int32_t *written = NULL, *seen = NULL;
    err_t err = mem_new_array(n, sizeof *written, "hosts", &written);
    if (err == ERR_OK) err = mem_new_array((int64_t)n * n, sizeof *seen, "hosts", &seen);
    TRY_OUT(err, comm_agree(comm, err, what));
    err = s->speaks ? write_token(check, s, check->host) : ERR_OK;
    if (s->speaks) written[check->host] = err == ERR_OK;
    if (err != ERR_OK)
        check_line(check, check_host(check), "writable", s->asked_for ? CHECK_FAIL : CHECK_WARN,
                   s->hangs ? check_hung_advice
                            : "check the mount (missing? read-only?), its owner and its quota",
                   "%s", err_message());
    else
        check_line(check, check_host(check), "writable", CHECK_OK, NULL, "yes");
    TRY_OUT(err, comm_allreduce(comm, written, n, DTYPE_I32, COMM_MAX, what));
    for (int host = 0; host < n; host++) s->wrote[host] = written[host] != 0;
    if (s->speaks && !s->hangs) look_for_tokens(check, s);
    for (int64_t i = 0; i < (int64_t)n * n; i++) seen[i] = s->seen[i];
    TRY_OUT(err, comm_allreduce(comm, seen, (int64_t)n * n, DTYPE_I32, COMM_MAX, what));
    for (int64_t i = 0; i < (int64_t)n * n; i++) s->seen[i] = seen[i] != 0;
    s->root = shared_find_root(s->seen, n);
out:
    mem_free(&seen);
    mem_free(&written);
    return err;
}

static void judge_sharing(check_t *check, const shared_t *s)
{
    if (check->n_hosts == 1 || !s->wrote[check->host]) return;
    if (shared_mutual(s->seen, check->n_hosts, check->host, s->root))
        check_line(check, check_host(check), "shared", CHECK_OK, NULL, "%s", s->folder);
    else
        check_line(check, check_host(check), "shared", s->asked_for ? CHECK_FAIL : CHECK_WARN,
                   s->asked_for
                       ? "mount the shared folder on that host, at the same path"
                       : "checkpoints will be on rank 0's host only; --shared DIR requires DIR to be shared",
                   "%s is not the same folder as on %s", s->folder, check_host_name(check, s->root));
}

/* Add lines about the folder's speed.
 *
 *   sec  to create, stat and remove a small file */
static void shared_judge_latency(check_t *check, double sec)
{
    check_measured(check, check_host(check), "small file", sec > 0.1 ? CHECK_WARN : CHECK_OK,
                   "the file server is slow or far: keep data on local disks", check_less(1e3 * sec), "%s",
                   figure_time(sec).text);
}

static void shared_judge_speed(check_t *check, const char *name, double bytes_per_sec)
{
    check_measured(check, check_host(check), name, bytes_per_sec < 10e6 ? CHECK_WARN : CHECK_OK,
                   "checkpoints and data will be slow: check the mount and the network to its server",
                   check_more(bytes_per_sec), "%s", figure_bandwidth(bytes_per_sec).text);
}

/* Median time to create, stat and remove a small file. */
static err_t measure_small(check_t *check, const shared_t *s)
{
    char path[FS_PATH_MAX];
    double sec[N_SMALL_FILES];
    TRY(path_of(s, "small", check->host, path));
    for (int i = 0; i < N_SMALL_FILES; i++) {
        struct stat info;
        int fd;
        double start = clock_sec();
        TRY(io_write(path, (const uint8_t *)"x", 1, &fd));
        bool ok = close(fd) == 0 && stat(path, &info) == 0;
        int why = errno;
        ok &= unlink(path) == 0;
        sec[i] = clock_sec() - start;
        if (!ok) RAISE(ERR_SYSTEM, "%s: %s", path, strerror(why));
    }
    shared_judge_latency(check, stats_median(sec, N_SMALL_FILES));
    return ERR_OK;
}

/* Incompressible data that every rank can compute. */
static void fill_words(uint64_t id, uint64_t *words, int64_t n)
{
    for (int64_t i = 0; i < n; i++) words[i] = (id + (uint64_t)i) * 0x9e3779b97f4a7c15u;
}

static err_t measure_write(check_t *check, const char *path, const uint64_t *words, int64_t n_bytes)
{
    int fd;
    int64_t n_left;
    double start = clock_sec();
    TRY(io_write(path, (const uint8_t *)words, n_bytes, &fd));
    err_t err = io_flush(fd, path);
    close(fd);
    TRY(err);
    shared_judge_speed(check, "writing", (double)n_bytes / (clock_sec() - start));
    return io_drop(path, &n_left);
}

static err_t measure_read(check_t *check, const char *path, const uint64_t *words, int64_t n_bytes)
{
    uint64_t *read;
    TRY(mem_new((size_t)n_bytes, "data read back", &read));
    double start = clock_sec();
    err_t err = io_read(path, (uint8_t *)read, n_bytes);
    double sec = clock_sec() - start;
    if (err == ERR_OK && memcmp(read, words, (size_t)n_bytes) != 0)
        check_line(check, check_host(check), "reading", CHECK_FAIL, "check the file server and its mounts",
                   "the data differs from what was written");
    else if (err == ERR_OK)
        shared_judge_speed(check, "reading", (double)n_bytes / sec);
    mem_free(&read);
    return err;
}

/* Collective. Rank 0 writes; the last host reads, because its cache does not hold the file. */
static err_t measure_speed(check_t *check, const shared_t *s)
{
    static const char what[] = "measuring the shared folder";
    char path[FS_PATH_MAX];
    comm_t *comm = check->comm;
    int64_t n_bytes = check->options->shared_bytes & ~(int64_t)7;
    bool writes = comm->rank == 0, reads = s->speaks && check->host == check->n_hosts - 1;
    uint64_t *words = NULL;
    err_t err = path_of(s, "data", 0, path);
    if (err == ERR_OK && (writes || reads)) err = mem_new((size_t)n_bytes, "data of a file", &words);
    if (words) fill_words(s->id, words, n_bytes / (int64_t)sizeof *words);
    if (err == ERR_OK && writes) err = measure_write(check, path, words, n_bytes);
    err = comm_agree(comm, err, what);
    if (err == ERR_OK)
        err = comm_agree(comm, reads ? measure_read(check, path, words, n_bytes) : ERR_OK, what);
    if (writes) unlink(path);
    mem_free(&words);
    return err;
}

/* Collective. */
static err_t examine_folder(check_t *check, shared_t *s)
{
    char type[32];
    comm_t *comm = check->comm;
    TRY(exchange_tokens(check, s));
    judge_sharing(check, s);
    bool there = s->speaks && !s->hangs && fs_exists(s->folder);
    if (there) io_filesystem(s->folder, type, sizeof type);
    check_same(check, "file system", CHECK_WARN, "mount it the same way on all hosts", there ? type : NULL);
    bool shared = s->wrote[0]; /* with one host, writable suffices */
    for (int host = 0; host < check->n_hosts; host++)
        shared &= check->n_hosts == 1 || shared_mutual(s->seen, check->n_hosts, host, s->root);
    if (!shared) return ERR_OK;
    TRY(comm_agree(comm, s->speaks ? measure_small(check, s) : ERR_OK, "measuring the shared folder"));
    return measure_speed(check, s);
}

static err_t shared_run(check_t *check)
{
    char path[FS_PATH_MAX];
    comm_t *comm = check->comm;
    shared_t s = {.asked_for = check->options->shared != NULL, .speaks = check_host(check).speaks};
    if (!s.asked_for && check->n_hosts == 1) {
        check_line(check, check_job(check), "shared", CHECK_SKIP, NULL,
                   "one host; --shared DIR checks a folder");
        return ERR_OK;
    }
    if (comm->rank == 0) choose_folder(check->options, &s);
    TRY(comm_broadcast(comm, s.folder, sizeof s.folder, 0, "the shared folder"));
    TRY(comm_broadcast(comm, &s.id, sizeof s.id, 0, "the shared folder"));
    int64_t n = check->n_hosts;
    err_t err = mem_new_array(n * n, sizeof *s.seen, "hosts", &s.seen);
    if (err == ERR_OK) err = mem_new_array(n, sizeof *s.wrote, "hosts", &s.wrote);
    err = comm_agree(comm, err, "the shared folder");
    if (err == ERR_OK) err = examine_folder(check, &s);
    if (s.speaks && !s.hangs && path_of(&s, "token", check->host, path) == ERR_OK) unlink(path);
    mem_free(&s.seen);
    mem_free(&s.wrote);
    return err;
}

const check_case_t check_shared = {"shared", "the shared folder is the same on all hosts, and fast", true,
                                   shared_run};
