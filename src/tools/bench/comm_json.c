/* SPDX-License-Identifier: MIT */
/* The file of `bench comm --output-file` (-J): what nccl-tests writes with -J, under the same keys (its src/util.cu, version
 * 3), so that programs that read those files read these. What this program does not know is null: iterations are chosen point
 * by point, MPI has no GPUs. dptrain's own records are in log.c. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "tools/bench/cases.h"
#include "tools/bench/comm.h"

extern char **environ;

enum { FORMAT_VERSION = 3, MAX_TRIES = 1000, MAX_ARGS_BYTES = 1 << 20 };

struct comm_json {
    json_t json;
    int fd;
    bool special; /* a device or a pipe */
    char path[FS_PATH_MAX];
};

/* nccl-tests overwrites nothing: the first of PATH, PATH.0, PATH.1, … that does not exist. Devices and pipes are written to. */
static err_t create_file(comm_json_t *file, const char *path)
{
    struct stat info;
    file->special = stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
    int n = snprintf(file->path, sizeof file->path, "%s", path);
    for (int i = 0; n < (int)sizeof file->path && i <= MAX_TRIES; i++) {
        const int mode = file->special ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL;
        file->fd = open(file->path, mode | O_CLOEXEC, 0666);
        if (file->fd >= 0) return ERR_OK;
        if (errno != EEXIST || (stat(path, &info) == 0 && S_ISDIR(info.st_mode)))
            RAISE(ERR_SYSTEM, "--output-file (-J): cannot write '%s': %s", path,
                  errno == EEXIST ? "it is a folder" : strerror(errno));
        n = snprintf(file->path, sizeof file->path, "%s.%d", path, i);
    }
    RAISE(ERR_USAGE, "--output-file (-J) '%s': the name is too long, or all of .0 to .%d exist", path,
          MAX_TRIES - 1);
}

static void write_time(json_t *j, const char *key)
{
    char text[32];
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    json_string(j, key, text);
}

/* nccl-tests writes truths as text. */
static void write_truth(json_t *j, const char *key, bool truth)
{
    json_string(j, key, truth ? "true" : "false");
}

static void write_args(json_t *j)
{
    char *text = NULL;
    size_t n = 0;
    if (fs_read_file("/proc/self/cmdline", MAX_ARGS_BYTES, &text, &n) != ERR_OK) n = 0;
    json_array_begin(j, "args");
    for (size_t at = 0; at < n; at += strlen(text + at) + 1) json_string(j, NULL, text + at);
    json_array_end(j);
    mem_free(&text);
}

static bool begins_with_one_of(const char *word, const char *const *prefixes)
{
    while (*prefixes && strncmp(word, *prefixes, strlen(*prefixes)) != 0) prefixes++;
    return *prefixes != NULL;
}

/* Settings of the libraries. Others may be secrets, and mpirun's own for its ranks are: a job's key. */
static void write_environment(json_t *j)
{
    static const char *const libraries[] = {"NCCL_", "CUDA_", "OMPI_MCA_", "UCX_", "FI_", "OMP_", NULL};
    static const char *const own[] = {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_prte_",
                                      NULL};
    json_array_begin(j, "env");
    for (char **word = environ; *word; word++)
        if (begins_with_one_of(*word, libraries) && !begins_with_one_of(*word, own))
            json_string(j, NULL, *word);
    json_array_end(j);
}

/* As NCCL_VERSION_CODE: 22809 for 2.28.9. */
static void write_library_version(const comm_session_t *s, json_t *j)
{
    char text[128];
    int major, minor, patch;
    collective_library(s->bench->comm, s->plan.by[0], text, sizeof text);
    if (sscanf(text, "NCCL %d.%d.%d", &major, &minor, &patch) == 3)
        json_int(j, "nccl_version", (minor < 9 ? 1000 : 10000) * major + 100 * minor + patch);
    else
        json_string(j, "nccl_version", NULL);
}

static void write_devices(json_t *j, const comm_place_t *places, int n)
{
    json_array_begin(j, "devices");
    for (int r = 0; r < n; r++) {
        const comm_place_t *p = &places[r];
        const bool gpu = p->device >= 0;
        json_object_begin(j, NULL);
        json_int(j, "rank", r);
        json_int(j, "group", 0);
        json_int(j, "pid", p->pid);
        json_string(j, "hostname", p->host);
        if (gpu)
            json_int(j, "device", p->device);
        else
            json_string(j, "device", NULL);
        char pci[sizeof p->where];
        snprintf(pci, sizeof pci, "%s", p->where);
        if (strrchr(pci, '.')) *strrchr(pci, '.') = '\0'; /* the function */
        json_string(j, "device_hex", gpu ? pci : NULL);
        json_string(j, "device_info", p->name);
        json_object_end(j);
    }
    json_array_end(j);
}

static void write_config(const comm_session_t *s, json_t *j, const comm_place_t *places)
{
    const bool gpu = places[0].device >= 0;
    json_object_begin(j, "config");
    json_int(j, "nthreads", 1);
    if (gpu)
        json_int(j, "ngpus", 1);
    else
        json_string(j, "ngpus", NULL);
    json_int(j, "minimum_bytes", s->sizes.min);
    json_int(j, "maximum_bytes", s->sizes.max);
    if (s->sizes.factor > 1)
        json_int(j, "step_factor", s->sizes.factor);
    else
        json_int(j, "step_bytes", s->sizes.step);
    json_string(j, "warmup_iters", NULL);
    json_string(j, "iterations", NULL);
    json_int(j, "aggregated_iterations", 1);
    json_int(j, "validation", s->options->check);
    json_int(j, "graph", 0);
    write_truth(j, "blocking_collectives", s->plan.by[0]->memory != COLLECTIVE_ON_DEVICE);
    write_truth(j, "per_iter_timing", false);
    json_int(j, "per_iter_skip", 0);
    json_string(j, "parallel_init", NULL);
    write_devices(j, places, s->bench->comm->size);
    json_object_end(j);
}

err_t comm_json_check(const comm_plan_t *plan, int n_communicators)
{
    if (plan->n_tests == 1 && n_communicators <= 1 && plan->tests[0] != COMM_TEST_ALL_PAIRS) return ERR_OK;
    RAISE(
        ERR_USAGE,
        "--output-file (-J) holds one table, as nccl-tests' does: choose one --test but not all_pairs, and one "
        "--communicator; --out FILE has the records of all");
}

err_t comm_json_open(comm_session_t *s, const comm_place_t *places, comm_json_t **out)
{
    static const char what[] = "the file of --output-file (-J)";
    comm_t *comm = s->bench->comm;
    comm_json_t *file = NULL;
    err_t err = comm_json_check(&s->plan, s->plan.n_by);
    if (err == ERR_OK && comm->rank == 0) err = mem_new(sizeof *file, what, &file);
    if (file) {
        file->fd = -1;
        err = create_file(file, s->options->output_file);
    }
    *out = file;
    TRY(comm_agree(comm, err, what));
    if (!file) return ERR_OK;
    bench_print("# Writing JSON output to %s", file->path);
    json_t *j = &file->json;
    json_object_begin(j, NULL);
    json_int(j, "version", FORMAT_VERSION);
    write_time(j, "start_time");
    write_args(j);
    write_environment(j);
    write_library_version(s, j);
    write_config(s, j, places);
    json_array_begin(j, "results");
    return ERR_OK;
}

static void write_half(json_t *j, const char *key, const comm_half_t *half)
{
    if (!half->wanted) {
        json_string(j, key, NULL);
        return;
    }
    json_object_begin(j, key);
    json_real(j, "time", 1e6 * half->result.p50);
    json_real(j, "alg_bw", half->rate.algbw_gbs);
    json_real(j, "bus_bw", half->rate.busbw_gbs);
    if (half->n_wrong >= 0)
        json_int(j, "nwrong", half->n_wrong);
    else
        json_string(j, "nwrong", NULL);
    json_object_end(j);
}

void comm_json_row(comm_json_t *file, const comm_what_t *what, int root, const comm_half_t halves[2])
{
    if (!file) return;
    const comm_test_info_t *test = &comm_tests[what->test];
    const comm_half_t *first = &halves[halves[0].wanted ? 0 : 1];
    char root_text[16];
    snprintf(root_text, sizeof root_text, "%6d",
             test->rooted ? root : -1); /* a text of six columns there, too */
    json_t *j = &file->json;
    json_object_begin(j, NULL);
    json_int(j, "size", first->call.n_bytes);
    json_int(j, "count", first->call.count);
    json_string(j, "type", collective_type_names[what->type]);
    json_string(j, "redop", test->reduces ? collective_op_names[what->op] : "none");
    json_string(j, "root", root_text);
    write_half(j, "out_of_place", &halves[0]);
    write_half(j, "in_place", &halves[1]);
    json_int(j, "actual_iterations", first->result.n * first->result.per_sample);
    json_string(j, "experiment_name", "");
    json_object_end(j);
}

static err_t write_file(comm_json_t *file)
{
    if (file->json.status != ERR_OK) return file->json.status;
    int reason = fs_write_all(file->fd, FS_HERE, file->json.text, file->json.n_bytes);
    if (!reason) reason = fs_write_all(file->fd, FS_HERE, "\n", 1);
    if (close(file->fd) != 0 && !reason) reason = errno;
    file->fd = -1;
    if (reason) RAISE(ERR_SYSTEM, "--output-file (-J): cannot write '%s': %s", file->path, strerror(reason));
    return ERR_OK;
}

err_t comm_json_close(const comm_session_t *s, bool keep, comm_json_t **out)
{
    comm_json_t *file = *out;
    err_t err = ERR_OK;
    if (!file) return ERR_OK;
    if (keep && file->fd >= 0) {
        json_t *j = &file->json;
        json_array_end(j);
        json_object_begin(j, "out_of_bounds");
        json_int(j, "count", s->n_wrong);
        write_truth(j, "okay", s->n_wrong == 0);
        json_object_end(j);
        json_object_begin(j, "average_bus_bandwidth");
        json_real(j, "bandwidth", s->n_busbw ? s->busbw_sum / (double)s->n_busbw : NAN);
        json_string(j, "okay", "unchecked");
        json_object_end(j);
        json_array_begin(j, "errors");
        json_array_end(j);
        write_time(j, "end_time");
        json_object_end(j);
        err = write_file(file);
    } else if (file->fd >= 0) {
        if (!file->special) unlink(file->path);
        close(file->fd);
    }
    json_free(&file->json);
    mem_free(out);
    return err;
}
