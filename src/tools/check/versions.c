/* SPDX-License-Identifier: MIT */
/* The check `versions`: compares program, libraries, config file and data over all hosts. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "cluster/comm/device.h"
#include "cluster/hosts/topo.h"
#include "cluster/watch/watchdog.h"
#include "data/dataset/content.h"
#include "data/dataset/dataset.h"
#include "store/h5/file.h"
#include "text/progress.h"
#include "tools/check/cases.h"
#include "tools/check/host.h"
#include "train/feed/data.h"

/* ---- --content: reads every image file on every host and compares their bytes between hosts and with the user's cache of
 * hashes ---- */
static const char content_what[] = "reading files", content_case[] = "content";
static const double slice_sec = 1, line_sec = 5;

enum { MAX_THREADS = 16 };

typedef struct scan {
    dataset_t *dataset;      /* NULL: this rank does not read */
    content_t *content;      /* the dataset's, or this rank's own */
    char cache[FS_PATH_MAX]; /* "" if there is none */
    dataset_reader_t readers[MAX_THREADS];
    int n_threads;
    int64_t n; /* files; 0: this rank does not read */
    int64_t n_cached;
    atomic_llong next;
    int64_t n_unreadable;
    err_info_t unreadable; /* the first */
} scan_t;

static err_t open_scan(const check_t *check, const char *where, scan_t *s)
{
    const int n_cpus = topo_cpus();
    if (!check_host(check).speaks) return ERR_OK;
    TRY(dataset_open(where, NULL, &s->dataset));
    s->content = s->dataset->content;
    if (!s->content) return ERR_OK;
    s->n = s->content->n[SPLIT_TRAIN] + s->content->n[SPLIT_VAL];
    s->content->counts_changed = true;
    s->n_threads = n_cpus < MAX_THREADS ? n_cpus : MAX_THREADS;
    for (int i = 0; i < s->n_threads; i++) TRY(dataset_reader_open(s->dataset, &s->readers[i]));
    if (content_cache_path(where, s->cache) != ERR_OK) {
        s->cache[0] = '\0';
        return ERR_OK;
    }
    TRY(content_file_read(s->content, s->cache, CONTENT_CACHE));
    s->n_cached = atomic_load(&s->content->n_new);
    return ERR_OK;
}

static void name_nothing(const void *context, split_t split, int64_t index, char out[CONTENT_NAME_MAX])
{
    (void)context, (void)split;
    snprintf(out, CONTENT_NAME_MAX, "file %lld", (long long)index);
}

static void close_scan(scan_t *s)
{
    for (int i = 0; i < s->n_threads; i++) dataset_reader_close(&s->readers[i]);
    if (!s->dataset) content_free(&s->content); /* otherwise the dataset's */
    dataset_close(&s->dataset);
}

/* Reads files for a second. */
static void read_slice(scan_t *s)
{
    const double end = clock_sec() + slice_sec;
#pragma omp parallel for schedule(static, 1) num_threads(s->n_threads > 0 ? s->n_threads : 1)
    for (int i = 0; i < s->n_threads; i++)
        while (clock_sec() < end) {
            int64_t index;
            const int64_t at = atomic_fetch_add(&s->next, 1);
            if (at >= s->n) break;
            const split_t split = content_place(s->content, at, &index);
            err_t err = dataset_note(&s->readers[i], split, index);
            if (err == ERR_OK) continue;
#pragma omp critical
            if (s->n_unreadable++ == 0) err_take(err, &s->unreadable);
        }
}

/* Collective. In slices, so that a host that waits for others knows that they work. */
static err_t read_all(check_t *check, scan_t *s)
{
    double told_sec = clock_sec();
    watchdog_phase("%s", content_what);
    for (;;) {
        if (atomic_load(&s->next) < s->n) read_slice(s);
        const int64_t next = atomic_load(&s->next);
        int64_t sums[2] = {next < s->n ? next : s->n, s->n};
        TRY(comm_allreduce(check->comm, sums, 2, DTYPE_I64, COMM_SUM, content_what));
        progress_draw(content_what, sums[0], sums[1], "");
        if (sums[0] >= sums[1]) break;
        if (!progress_wants_lines() || clock_sec() - told_sec < line_sec) continue;
        log_note("%s: %lld of %lld on all hosts", content_what, (long long)sums[0], (long long)sums[1]);
        told_sec = clock_sec();
    }
    progress_clear_line();
    return ERR_OK;
}

static void report_host(check_t *check, const scan_t *s)
{
    const content_t *content = s->content;
    char file[CONTENT_NAME_MAX];
    const int64_t n_changed = atomic_load(&content->n_changed);
    if (!check_host(check).speaks) return;
    if (s->n_unreadable > 0)
        check_line(check, check_host(check), content_case, CHECK_FAIL,
                   "replace these files; dptrain data verify names all",
                   "%lld of %lld files cannot be read: %s", (long long)s->n_unreadable, (long long)s->n,
                   s->unreadable.message);
    if (n_changed > 0) {
        int64_t index;
        const split_t split = content_place(content, atomic_load(&content->first_changed), &index);
        content->name_of(content->context, split, index, file);
        check_line(
            check, check_host(check), content_case, CHECK_FAIL,
            "restore the files from a good copy; if the changes are right, touch them",
            "%lld of %lld files changed since they were last read, but not their size and time, the first is %s",
            (long long)n_changed, (long long)s->n, file);
    } else if (s->n_unreadable == 0) {
        const int64_t n_other = s->n - s->n_cached;
        char other[64] = "";
        if (s->n_cached > 0 && n_other > 0)
            snprintf(other, sizeof other, ", %lld new or modified", (long long)n_other);
        check_line(check, check_host(check), content_case, CHECK_OK, NULL, "%lld files read%s",
                   (long long)s->n, other);
    }
}

/* Whether all hosts have the same list of files, and `content`: they are files. */
static err_t compare_lists(check_t *check, const scan_t *s, bool *same, bool *content)
{
    int64_t all[3] = {INT64_MIN, INT64_MIN, -1};
    if (s->dataset) {
        all[0] = (int64_t)(s->dataset->info.hash >> 1);
        all[1] = -all[0];
        all[2] = s->content ? -1 : 1;
    }
    TRY(comm_allreduce(check->comm, all, 3, DTYPE_I64, COMM_MAX, content_what));
    *same = all[0] == -all[1];
    *content = all[2] < 0;
    return ERR_OK;
}

/* Collective. Ranks that do not read take part with an empty table. */
static err_t prepare_tables(check_t *check, scan_t *s)
{
    int64_t n[SPLIT_COUNT] = {0};
    if (s->content) memcpy(n, s->content->n, sizeof n);
    TRY(comm_broadcast(check->comm, n, sizeof n, 0, content_what));
    err_t err = s->content ? ERR_OK : content_new(n, &s->content);
    TRY(comm_agree(check->comm, err, content_what));
    if (!s->dataset) s->content->name_of = name_nothing;
    return content_name_hosts(check->comm, s->content);
}

/* Collective. */
static err_t compare_contents(check_t *check, scan_t *s)
{
    bool any;
    TRY(prepare_tables(check, s));
    TRY(read_all(check, s));
    err_t err = content_merge(check->comm, s->content, &any);
    if (err != ERR_OK && err != ERR_DATA) return err;
    if (err == ERR_DATA)
        check_line(check, check_job(check), content_case, CHECK_FAIL, "copy the same files to every host",
                   "%lld files differ, the first: %s", (long long)s->content->n_differ, err_message());
    report_host(check, s);
    const bool kept =
        err == ERR_OK && s->n > 0 && s->n_unreadable == 0 && atomic_load(&s->content->n_changed) == 0;
    if (kept && s->cache[0] && content_file_write(s->content, s->cache, CONTENT_CACHE) != ERR_OK)
        log_warn("hashes of files are not kept: %s", err_message());
    return ERR_OK;
}

static err_t check_folder(check_t *check, const char *where, scan_t *s)
{
    bool same, content;
    TRY(comm_agree(check->comm, open_scan(check, where, s), content_what));
    TRY(compare_lists(check, s, &same, &content));
    if (same && content) return compare_contents(check, s);
    const bool shards = s->dataset && strcmp(s->dataset->info.kind, "images") == 0;
    check_line(check, check_job(check), content_case, CHECK_SKIP, NULL, "%s",
               !same    ? "the hosts have different files"
               : shards ? "shards are sealed; dptrain data verify reads them"
                        : "all bytes are in the hash of the data");
    return ERR_OK;
}

/* Collective. One rank per host reads all image files of the folder. Skips folders of which hosts have different
 * lists, and data that is compared otherwise. */
static err_t check_content(check_t *check, const char *where)
{
    scan_t *s = NULL;
    TRY(comm_agree(check->comm, mem_new(sizeof *s, content_what, &s), content_what));
    err_t err = check_folder(check, where, s);
    close_scan(s);
    mem_free(&s);
    return err;
}

/* ---- The check ---- */
static const char own_binary[] = "/proc/self/exe"; /* needs no probe: it is running */

/* Of a library, which may have some hundred MB of kernels for GPUs, so many blocks. */
enum { HASH_TEXT = 40, LIBRARY_BLOCKS = 16 };

/* Of blocks from the first, which has a build's number, to the last; of all if there are no more than n_blocks. */
static err_t hash_file(const char *path, int64_t n_blocks, uint64_t *out)
{
    enum { BLOCK = 1 << 20 };
    XXH3_state_t *state = XXH3_createState();
    char *block = NULL;
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int why = fd < 0 || fstat(fd, &info) != 0 ? errno : 0;
    bool ok = !why && state && XXH3_64bits_reset(state) == XXH_OK &&
              mem_new_array(BLOCK, 1, "a file to hash", &block) == ERR_OK;
    const int64_t size = ok ? info.st_size : 0, last = size - BLOCK, n_all = (size + BLOCK - 1) / BLOCK;
    ok = ok && XXH3_64bits_update(state, &size, sizeof size) == XXH_OK;
    for (int64_t i = 0; ok && i < (n_all <= n_blocks ? n_all : n_blocks); i++) {
        size_t n = 0;
        why = fs_read_all(fd, n_all <= n_blocks ? i * BLOCK : last * i / (n_blocks - 1), block, BLOCK, &n);
        ok = !why && XXH3_64bits_update(state, block, n) == XXH_OK;
    }
    if (ok) *out = XXH3_64bits_digest(state);
    if (fd >= 0) close(fd);
    mem_free(&block);
    XXH3_freeState(state);
    if (!ok) RAISE(ERR_DATA, "cannot read '%s': %s", path, strerror(why ? why : ENOMEM));
    return ERR_OK;
}

/* The hash of a file that every host needs; a host that cannot read it reports that. */
static void compare_file(check_t *check, const char *name, const char *path, const char *advice)
{
    char text[HASH_TEXT] = "";
    uint64_t hash = 0;
    bool speaks = check_host(check).speaks, own = strcmp(path, own_binary) == 0;
    err_t err = speaks && !own ? process_probe(path, check->options->shared_timeout_sec) : ERR_OK;
    if (err != ERR_OK) advice = check_hung_advice;
    if (err == ERR_OK && speaks) err = hash_file(path, INT64_MAX, &hash);
    if (err != ERR_OK) check_line(check, check_host(check), name, CHECK_FAIL, advice, "%s", err_message());
    if (speaks) snprintf(text, sizeof text, "%016" PRIx64, hash);
    check_same(check, name, CHECK_FAIL, advice, err == ERR_OK ? text : NULL);
}

/* ---- The bytes of libraries ---- */
/* A version does not say which bytes were installed. A difference is a warning: builds of one version usually work together, and
 * that MPI and NCCL have the same version is a fact of its own. */
typedef struct library {
    char item[96]; /* what programs link to: "libmpi.so.40"; of two such files, "libmpi.so.40 #2" */
    char path[FS_PATH_MAX];
    bool replaced; /* the file, since it was mapped */
} library_t;

/* A library's code in a line of /proc/PID/maps. */
static bool library_parse(char *line, library_t *out)
{
    static const char deleted[] = " (deleted)";
    char code;
    int at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%*s %*c%*c%c%*c %*s %*s %*s %n", &code, &at) != 1 || code != 'x' || line[at] != '/')
        return false;
    char *path = line + at;
    const size_t n = strlen(path), n_deleted = strlen(deleted);
    out->replaced = n > n_deleted && strcmp(path + n - n_deleted, deleted) == 0;
    if (out->replaced) path[n - n_deleted] = '\0';
    const char *name = strrchr(path, '/') + 1, *end = strstr(name, ".so");
    if (!end) return false;
    end += strlen(".so");
    if (*end && (*end != '.' || !isdigit((unsigned char)end[1]))) return false;
    if (*end) end += 1 + strspn(end + 1, "0123456789");
    snprintf(out->item, sizeof out->item, "%.*s", (int)(end - name), name);
    return snprintf(out->path, sizeof out->path, "%s", path) < (int)sizeof out->path;
}

static int by_item(const void *a, const void *b)
{
    const library_t *x = a, *y = b;
    const int order = strcmp(x->item, y->item);
    return order ? order : strcmp(x->path, y->path);
}

err_t versions_add_libraries(check_t *check, const char *maps)
{
    char line[FS_PATH_MAX + 128];
    library_t *all = NULL;
    int64_t n = 0;
    FILE *file = fopen(maps, "re");
    err_t err = ERR_OK;
    while (err == ERR_OK && file && fgets(line, sizeof line, file)) {
        err = mem_grow(n + 1, sizeof *all, "libraries", &all);
        if (err == ERR_OK) n += library_parse(line, &all[n]);
    }
    if (file) fclose(file);
    if (n > 0) qsort(all, (size_t)n, sizeof *all, by_item);
    for (int64_t i = 0, of_item = 1; err == ERR_OK && i < n; i++) {
        library_t *library = &all[i];
        char item[sizeof library->item + 24], hash[HASH_TEXT] = "cannot be read";
        uint64_t value;
        if (i > 0 && by_item(library, library - 1) == 0) continue; /* it is mapped twice */
        of_item = i > 0 && strcmp(library->item, library[-1].item) == 0 ? of_item + 1 : 1;
        snprintf(item, sizeof item, of_item > 1 ? "%s #%d" : "%s", library->item, (int)of_item);
        if (library->replaced)
            snprintf(hash, sizeof hash, "replaced after it was loaded");
        else if (hash_file(library->path, LIBRARY_BLOCKS, &value) == ERR_OK)
            snprintf(hash, sizeof hash, "%016" PRIx64, value);
        const char *name = strrchr(library->path, '/') + 1;
        const bool has_more = strcmp(name, library->item) != 0;
        const check_fact_t fact = {
            .name = "libraries",
            .item = item,
            .rule = CHECK_EQUAL,
            .unequal = CHECK_WARN,
            .advice =
                "install the same packages on all hosts; check LD_LIBRARY_PATH, LD_PRELOAD and containers",
            .value = NAN};
        check_fact(check, check_host(check), &fact, "%s%s%s", has_more ? name : "", has_more ? " " : "",
                   hash);
    }
    mem_free(&all);
    return err;
}

/* Collective. The argument of --data, or what rank 0 would choose for `train`. */
static err_t versions_choose_data(check_t *check, char where[FS_PATH_MAX])
{
    char why[128];
    if (check->options->data) {
        snprintf(where, FS_PATH_MAX, "%s", check->options->data);
        return ERR_OK;
    }
    where[0] = '\0';
    err_t err = check->comm->rank == 0 ? dataset_choose(check->options->data, where, why) : ERR_OK;
    TRY(comm_agree(check->comm, err, "choosing the data"));
    return comm_broadcast(check->comm, where, FS_PATH_MAX, 0, "choosing the data");
}

/* *usable: the data could be opened; the error is then that it is nothing to train on. */
static err_t versions_hash_data(const check_t *check, const char *where, char out[HASH_TEXT], bool *usable)
{
    dataset_t *dataset = NULL;
    TRY(process_probe(where, check->options->shared_timeout_sec));
    TRY(dataset_open(where, NULL, &dataset));
    *usable = true;
    err_t err = dataset_check_training(dataset);
    snprintf(out, HASH_TEXT, "%s%s", dataset_hash(&dataset->info).text,
             dataset->content ? " of names and sizes" : "");
    dataset_close(&dataset);
    return err;
}

/* Collective. */
static err_t compare_data(check_t *check)
{
    static const char advice[] =
        "copy the same data to this path on every host (scripts/on_hosts.sh --copy), or use "
        "a shared folder";
    char where[FS_PATH_MAX], hash[HASH_TEXT] = "";
    TRY(versions_choose_data(check, where));
    if (dataset_is_built_in(where)) {
        check_line(check, check_job(check), "data", CHECK_SKIP, NULL, "%s are generated, not read", where);
        return ERR_OK;
    }
    bool usable = false;
    err_t err = check_host(check).speaks ? versions_hash_data(check, where, hash, &usable) : ERR_OK;
    if (err != ERR_OK)
        check_line(check, check_host(check), "data", CHECK_FAIL,
                   err == ERR_PEER ? check_hung_advice
                   : usable        ? "docs/data.md shows how a folder of images has to look"
                                   : advice,
                   "%s", err_message());
    check_same(check, "data", CHECK_FAIL, advice, err == ERR_OK ? hash : NULL);
    if (!check->options->content) return ERR_OK;
    int32_t failed = err != ERR_OK;
    TRY(comm_allreduce(check->comm, &failed, 1, DTYPE_I32, COMM_MAX, "comparing data"));
    return failed ? ERR_OK : check_content(check, where);
}

static void compare_libraries(check_t *check)
{
    static const char same[] = "install the same version on all hosts";
    char text[256];
    comm_describe(check->comm, text, sizeof text);
    check_equal(check, "MPI", CHECK_FAIL, "install the same MPI on all hosts; check PATH and LD_LIBRARY_PATH",
                text);
    comm_library_version("nccl", text, sizeof text);
    check_equal(check, "NCCL", CHECK_FAIL, "install the same NCCL on all hosts; check LD_LIBRARY_PATH", text);
    h5_version(text, sizeof text);
    check_equal(check, "HDF5", CHECK_WARN, same, text);
    check_equal(check, "C library", CHECK_WARN, same, gnu_get_libc_version());
}

static err_t versions_run(check_t *check)
{
    compare_file(
        check, "dptrain", own_binary,
        "copy the same binary to all hosts (scripts/on_hosts.sh --copy), or start it from a shared folder");
    compare_libraries(check);
    err_t err = check_host(check).speaks ? versions_add_libraries(check, "/proc/self/maps") : ERR_OK;
    TRY(comm_agree(check->comm, err, "listing libraries"));
    if (check->options->config)
        compare_file(check, "config", check->options->config,
                     "copy the file to all hosts (scripts/on_hosts.sh --copy), or put it in a shared folder");
    return compare_data(check);
}

const check_case_t check_versions = {"versions", "same binary, libraries, --config and --data on all hosts",
                                     true, versions_run};
