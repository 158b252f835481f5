/* SPDX-License-Identifier: MIT */
/* Opens the record files that a command line names, skips duplicates, and writes the result to a file or
 * stdout. Parsing records is left to report/records. */
#include "cmd/report_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "records/record.h"

/* A file that was read, identified independently of its name. */
typedef struct seen {
    dev_t device;
    ino_t inode;
    const char *name;
} seen_t;

typedef struct reading {
    report_file_fn_t read;
    void *context;
    seen_t *seen;
    int n_seen;
} reading_t;

/* Reads a file unless it was read before.
 *
 *   name  as given
 *   path  the file; differs from `name` for a run folder */
static err_t read_path(reading_t *r, const char *name, const char *path)
{
    struct stat info;
    bool is_stdin = strcmp(name, "-") == 0;
    int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_DATA, "cannot read %s: %s", is_stdin ? "standard input" : path, strerror(errno));
    if (fstat(fd, &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            close(fd);
            RAISE(ERR_DATA, "%s is a folder, not a file of records", path);
        }
        for (int i = 0; i < r->n_seen; i++) {
            if (r->seen[i].device != info.st_dev || r->seen[i].inode != info.st_ino) continue;
            log_warn("%s is the same file as %s; it is read once", name, r->seen[i].name);
            close(fd);
            return ERR_OK;
        }
        r->seen[r->n_seen++] = (seen_t){info.st_dev, info.st_ino, name};
    }
    err_t err = r->read(r->context, fd, is_stdin ? "(stdin)" : path);
    close(fd);
    return err;
}

static err_t report_files_read_one(reading_t *r, const char *name)
{
    char path[FS_PATH_MAX];
    if (!fs_is_folder(name)) return read_path(r, name, name);
    TRY(fs_join(path, name, "metrics.jsonl"));
    TRY(read_path(r, name, path));
    TRY(fs_join(path, name, "job.jsonl"));
    return fs_exists(path) ? read_path(r, name, path) : ERR_OK;
}

err_t report_files_each(const char *const *names, int n, report_file_fn_t read, void *context, err_t *worst)
{
    reading_t r = {.read = read, .context = context};
    TRY(mem_new_array(2 * n, sizeof *r.seen, "a list of files", &r.seen));
    for (int i = 0; i < n; i++) {
        err_t err = report_files_read_one(&r, names[i]);
        if (err == ERR_OK) continue;
        log_error("%s", err_message());
        if (err > *worst) *worst = err;
    }
    mem_free(&r.seen);
    return ERR_OK;
}

static err_t read_records(void *context, int fd, const char *name)
{
    report_t *report = context;
    TRY(report_read(report, fd, name));
    const report_file_t *file = &report->files[report->n_files - 1];
    const report_trouble_t *bad = &file->bad, *newer = &file->newer, *again = &file->again;
    if (bad->n == 1) log_warn("%s: line %lld was left out: %s", file->name, (long long)bad->line, bad->why);
    if (bad->n > 1)
        log_warn("%s: %lld lines were left out; the first is line %lld: %s", file->name, (long long)bad->n,
                 (long long)bad->line, bad->why);
    if (newer->n > 0)
        log_warn(
            "%s: records left out: %lld, the first in line %lld: their schema is newer than %d, the newest "
            "that this dptrain reads",
            file->name, (long long)newer->n, (long long)newer->line, RECORD_SCHEMA);
    if (again->n > 0)
        log_warn("%s: points left out: %lld, the first in line %lld: they belong to run %s, read before",
                 file->name, (long long)again->n, (long long)again->line, again->why);
    if (file->n_lines == 0) log_warn("%s is empty", file->name);
    return ERR_OK;
}

err_t report_files_read(report_t *report, const char *const *names, int n, err_t *worst)
{
    return report_files_each(names, n, read_records, report, worst);
}

/* job.jsonl is the life of a supervised job, not a recording. */
static int is_recording(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return entry->d_name[0] != '.' && strcmp(entry->d_name, "job.jsonl") != 0 && n > 6 &&
           strcmp(entry->d_name + n - 6, ".jsonl") == 0;
}

/* In byte order; alphasort's depends on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

err_t report_files_expand(arena_t *arena, const char *name, const char ***out, int *n_out)
{
    struct dirent **entries = NULL;
    char path[FS_PATH_MAX];
    bool is_folder = fs_is_folder(name);
    int n = is_folder ? scandir(name, &entries, is_recording, by_name) : 1;
    if (n < 0) RAISE(ERR_DATA, "cannot read the folder %s: %s", name, strerror(errno));
    if (n == 0) {
        free(entries);
        RAISE(ERR_DATA, "no recording (*.jsonl) in the folder %s", name);
    }
    err_t err = arena_new(arena, (size_t)n * sizeof **out, out);
    if (err == ERR_OK && !is_folder) (*out)[0] = name;
    for (int i = 0; is_folder && i < n; i++) {
        if (err == ERR_OK) err = fs_join(path, name, entries[i]->d_name);
        if (err == ERR_OK) err = arena_text(arena, path, strlen(path), &(*out)[i]);
        free(entries[i]); /* allocated by scandir */
    }
    free(entries);
    *n_out = n;
    return err;
}

/* Not hidden; whether it is a folder is looked up. */
static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool has_metrics(const char *folder)
{
    char path[FS_PATH_MAX];
    return fs_join(path, folder, "metrics.jsonl") == ERR_OK && fs_exists(path);
}

static err_t add_text(report_runs_t *runs, const char *text, const char ***list, int *n)
{
    TRY(mem_grow(*n + 1, sizeof **list, "names of files", list));
    return arena_text(&runs->arena, text, strlen(text), &(*list)[(*n)++]);
}

/* A subfolder, or another file, which is left out. */
static err_t add_entry(report_runs_t *runs, const char *folder, const char *name)
{
    char path[FS_PATH_MAX], records[FS_PATH_MAX];
    TRY(fs_join(path, folder, name));
    if (!fs_is_folder(path)) return ERR_OK;
    TRY(fs_join(records, path, "metrics.jsonl"));
    if (!fs_exists(records)) return add_text(runs, path, &runs->without, &runs->n_without);
    return add_text(runs, records, &runs->names, &runs->n);
}

/* Adds a name as it is, unless it is a folder of runs. */
static err_t add_name_or_runs(report_runs_t *runs, const char *name)
{
    struct dirent **entries = NULL;
    const int n_before = runs->n, n_without = runs->n_without;
    const bool maybe = fs_is_folder(name) && !has_metrics(name);
    int n = maybe ? scandir(name, &entries, is_visible, by_name) : 0;
    err_t err = ERR_OK;
    for (int i = 0; i < n; i++) {
        if (err == ERR_OK) err = add_entry(runs, name, entries[i]->d_name);
        free(entries[i]); /* allocated by scandir */
    }
    free(entries);
    if (err != ERR_OK || runs->n > n_before) {
        runs->has_folder = true;
        return err;
    }
    runs->n_without = n_without;
    return add_text(runs, name, &runs->names, &runs->n);
}

err_t report_runs_find(const char *const *names, int n, report_runs_t *out)
{
    for (int i = 0; i < n; i++) TRY(add_name_or_runs(out, names[i]));
    return ERR_OK;
}

void report_runs_free(report_runs_t *runs)
{
    mem_free(&runs->names);
    mem_free(&runs->without);
    arena_free(&runs->arena);
}

err_t report_files_check_strict(const report_t *report)
{
    int64_t n_left_out = 0;
    for (int i = 0; i < report->n_files; i++) n_left_out += report->files[i].bad.n + report->files[i].newer.n;
    if (n_left_out == 0) return ERR_OK;
    RAISE(ERR_DATA, "%lld line%s left out, which --strict forbids", (long long)n_left_out,
          n_left_out == 1 ? " was" : "s were");
}

static err_t print_stream(FILE *out, const char *name, err_t (*print)(const void *context, FILE *out),
                          const void *context)
{
    TRY(print(context, out));
    if (fflush(out) != 0 || ferror(out)) RAISE(ERR_SYSTEM, "cannot write %s: %s", name, strerror(errno));
    return ERR_OK;
}

err_t report_files_write(const char *path, err_t (*print)(const void *context, FILE *out),
                         const void *context)
{
    if (!path) return print_stream(stdout, "standard output", print, context);
    fs_temp_t temp;
    FILE *file = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, fs_temp_open(&temp, "report", path));
    TRY_OUT(err, fs_temp_stream(&temp, &file));
    TRY_OUT(err, print_stream(file, path, print, context));
    int closed = fclose(file);
    file = NULL;
    if (closed != 0) TRY_OUT(err, fs_temp_fail(&temp, errno));
    err = fs_temp_commit(&temp);
out:
    if (file) fclose(file);
    fs_temp_discard(&temp);
    return err;
}

const render_t *report_files_render(const char *format)
{
    return strcmp(format, "markdown") == 0 ? &render_markdown : &render_text;
}

err_t report_files_command(const cmd_context_t *context, const char *usage, opt_group_t *group,
                           report_run_fn_t run)
{
    const char **names = NULL;
    int n = 0;
    err_t err = opt_defaults(group, 1);
    if (cmd_wants_help(context, usage, group, 1, &err)) return err;
    if (err == ERR_OK) err = mem_new_array(context->argc + 1, sizeof *names, "names of files", &names);
    if (err == ERR_OK) err = opt_parse(group, 1, context->argc, context->argv, names, context->argc, &n);
    if (err != ERR_OK)
        cmd_fail(err);
    else if (log_speaks() && !cmd_only_checks())
        err = run(group->values, names, n);
    mem_free(&names);
    return err;
}
