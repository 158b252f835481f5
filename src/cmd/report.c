/* Records as tables. No MPI: it is for a login node as well as for a job. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "report/print.h"

static const char usage[] =
    "usage: dptrain report [options] FILE…\n"
    "\n"
    "Reads records, a JSON object a line, of dptrain bench and of dptrain train (metrics.jsonl); - is the "
    "standard\n"
    "input. Lines that are no records are counted, the first is named, and the others are reported. Exit "
    "code 3:\n"
    "a file could not be read, or nothing in them could be used; with --strict also where a line was left "
    "out.\n"
    "\n"
    "--format csv (RFC 4180, lines end with CR LF) has a row for each figure of each point, so that one file "
    "holds all:\n"
    "  file,line      where the point's record is\n"
    "  run            id of the bench run; of a training run, which has none, its time\n"
    "  case,test      of the bench; \"train\" and the model\n"
    "  key            what tells the point from others, as bytes=8;datatype=float; of training, epoch=0 or "
    "nothing\n"
    "  metric,value   the figure's name in results/README.md, and the figure in full; empty where it is "
    "missing\n"
    "  unit           of the value\n";

typedef struct report_options {
    const char *format, *out, *only_case, *only_test;
    bool strict;
} report_options_t;

static const char *const formats[] = {"table", "csv", "markdown", NULL};

#define FIELD(name) offsetof(report_options_t, name)
static const opt_t table[] = {
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, formats, "", "what to print", false},
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE",
     "write it there, whole or not at all, and not to the standard output", false},
    {"case", OPT_STRING, FIELD(only_case), NULL, 0, 0, NULL, "NAME",
     "only this case of the bench: comm, gemm, …", false},
    {"test", OPT_STRING, FIELD(only_test), NULL, 0, 0, NULL, "NAME", "only this test: all_reduce, …", false},
    {"strict", OPT_FLAG, FIELD(strict), NULL, 0, 0, NULL, "", "a line that is left out is an error", false},
};

/* A file that was read, by what it is: under another name it is the same. */
typedef struct seen {
    dev_t device;
    ino_t inode;
    const char *name;
} seen_t;

typedef struct reading {
    report_t report;
    seen_t *seen;
    int n_seen;
    err_t worst; /* of the files that could not be read */
} reading_t;

static void warn_trouble(const report_file_t *file)
{
    const report_trouble_t *bad = &file->bad, *newer = &file->newer, *again = &file->again;
    if (bad->n == 1) log_warn("%s: line %lld was left out: %s", file->name, (long long)bad->line, bad->why);
    if (bad->n > 1)
        log_warn("%s: %lld lines were left out; the first is line %lld: %s", file->name, (long long)bad->n,
                 (long long)bad->line, bad->why);
    if (newer->n > 0)
        log_warn("%s: records left out: %lld, the first in line %lld: their schema is newer than %d, which "
                 "is what "
                 "this dptrain knows",
                 file->name, (long long)newer->n, (long long)newer->line, REPORT_SCHEMA);
    if (again->n > 0)
        log_warn(
            "%s: points left out: %lld, the first in line %lld: they are of run %s, which was read already",
            file->name, (long long)again->n, (long long)again->line, again->why);
    if (file->n_lines == 0) log_warn("%s is empty", file->name);
}

/* *out < 0: it was read already, which was said. */
static err_t open_file(reading_t *r, const char *name, int *out)
{
    struct stat info;
    bool is_stdin = strcmp(name, "-") == 0;
    int fd = is_stdin ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
    *out = -1;
    if (fd < 0)
        RAISE(ERR_DATA, "cannot read %s: %s", is_stdin ? "the standard input" : name, strerror(errno));
    if (fstat(fd, &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            close(fd);
            RAISE(ERR_DATA, "%s is a folder; name a file in it: that of a run is metrics.jsonl", name);
        }
        for (int i = 0; i < r->n_seen; i++) {
            if (r->seen[i].device != info.st_dev || r->seen[i].inode != info.st_ino) continue;
            log_warn("%s is the same file as %s; it is read once", name, r->seen[i].name);
            close(fd);
            return ERR_OK;
        }
        r->seen[r->n_seen++] = (seen_t){info.st_dev, info.st_ino, name};
    }
    *out = fd;
    return ERR_OK;
}

static err_t read_file(reading_t *r, const char *name)
{
    int fd;
    TRY(open_file(r, name, &fd));
    if (fd < 0) return ERR_OK;
    err_t err = report_read(&r->report, fd, strcmp(name, "-") == 0 ? "(stdin)" : name);
    close(fd);
    if (err == ERR_OK) warn_trouble(&r->report.files[r->report.n_files - 1]);
    return err;
}

/* The others are still worth a report where one cannot be read; the exit code says so. */
static err_t read_files(reading_t *r, const char *const *names, int n)
{
    TRY(mem_new_array(n, sizeof *r->seen, "a list of files", &r->seen));
    for (int i = 0; i < n; i++) {
        err_t err = read_file(r, names[i]);
        if (err == ERR_OK) continue;
        log_error("%s", err_message());
        if (err > r->worst) r->worst = err;
    }
    return ERR_OK;
}

static bool add_name(const char **names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (names[i] == name) return false;
    names[n] = name;
    return true;
}

/* Nothing is left: which of the two was wanted in vain, and what there is. */
static err_t raise_filtered(const report_t *report)
{
    enum { MAX_NAMES = 64 };
    const char *names[MAX_NAMES + 1];
    int n = 0;
    bool by_case = report->only_case != NULL;
    for (const report_run_t *run = report->runs; run; run = run->next)
        for (const report_group_t *group = run->groups; group; group = group->next) {
            if (by_case && strcmp(group->case_name, report->only_case) == 0) by_case = false;
        }
    for (const report_run_t *run = report->runs; run; run = run->next)
        for (const report_group_t *group = run->groups; group && n < MAX_NAMES; group = group->next)
            n += add_name(names, n, by_case ? group->case_name : group->test);
    const char *wanted = by_case ? report->only_case : report->only_test;
    const char *nearest = opt_nearest(wanted, names, n);
    RAISE(ERR_USAGE, "no point has the %s '%s'; %s%s%s", by_case ? "case" : "test", wanted,
          nearest ? "did you mean '" : "without the option all are shown", nearest ? nearest : "",
          nearest ? "'?" : "");
}

/* Whether there is anything to print. */
static err_t check_usable(const report_t *report)
{
    int64_t n_records = 0, n_points = 0;
    for (int i = 0; i < report->n_files; i++) n_records += report->files[i].n_records;
    for (const report_run_t *run = report->runs; run; run = run->next) n_points += run->n_points;
    if (n_records == 0) RAISE(ERR_DATA, "nothing to report: there is no record that can be used");
    return report->n_filtered > 0 && n_points == 0 ? raise_filtered(report) : ERR_OK;
}

static err_t check_strict(const report_t *report)
{
    int64_t n_left_out = 0;
    for (int i = 0; i < report->n_files; i++) n_left_out += report->files[i].bad.n + report->files[i].newer.n;
    if (n_left_out == 0) return ERR_OK;
    RAISE(ERR_DATA, "%lld lines were left out, which --strict forbids", (long long)n_left_out);
}

static err_t print_to(const report_t *report, const char *format, FILE *out, const char *name)
{
    if (strcmp(format, "csv") == 0)
        TRY(report_print_csv(report, out));
    else
        TRY(report_print(report, strcmp(format, "table") == 0 ? &render_text : &render_markdown, out));
    if (fflush(out) != 0 || ferror(out)) RAISE(ERR_SYSTEM, "cannot write %s: %s", name, strerror(errno));
    return ERR_OK;
}

/* Under another name, flushed, then renamed: a reader sees the old file or the whole new one. */
static err_t print_to_file(const report_t *report, const char *format, const char *path)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    err_t err = ERR_OK;
    TRY(fs_temp_path(path, folder, temp));
    unlink(temp); /* of an earlier process that had our number */
    FILE *file = fopen(temp, "wxe");
    if (!file) RAISE(ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    TRY_OUT(err, print_to(report, format, file, path));
    int synced = fsync(fileno(file)), closed = fclose(file);
    file = NULL;
    if (synced != 0 || closed != 0 || rename(temp, path) != 0)
        RAISE_OUT(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return fs_sync(folder);
out:
    if (file) fclose(file);
    unlink(temp);
    return err;
}

static err_t read_and_print(reading_t *r, const report_options_t *options, const char *const *names, int n)
{
    if (n == 0) RAISE(ERR_USAGE, "dptrain report wants files of records; - is the standard input");
    TRY(read_files(r, names, n));
    TRY(check_usable(&r->report));
    if (options->out)
        TRY(print_to_file(&r->report, options->format, options->out));
    else
        TRY(print_to(&r->report, options->format, stdout, "the standard output"));
    /* What is forbidden is shown nevertheless. */
    return options->strict ? check_strict(&r->report) : ERR_OK;
}

static err_t run(const report_options_t *options, const char *const *names, int n)
{
    reading_t r = {.report = {.only_case = options->only_case, .only_test = options->only_test}};
    err_t err = read_and_print(&r, options, names, n);
    report_free(&r.report);
    mem_free(&r.seen);
    cmd_fail(err);
    return err > r.worst ? err : r.worst;
}

err_t cmd_report(const cmd_context_t *context)
{
    report_options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    const char **names = NULL;
    int n = 0;
    err_t err = opt_defaults(&group, 1);
    if (cmd_wants_help(context, usage, &group, 1)) return ERR_OK;
    if (err == ERR_OK) err = mem_new_array(context->argc + 1, sizeof *names, "names of files", &names);
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, names, context->argc, &n);
    if (err != ERR_OK)
        cmd_fail(err);
    else if (log_speaks())
        err = run(&options, names, n);
    mem_free(&names);
    return err;
}
