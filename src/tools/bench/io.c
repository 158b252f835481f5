/* SPDX-License-Identifier: MIT */
/* `dptrain bench io`: IDX files and checkpoints through the functions that training uses, and plain files as the
 * baseline; eviction from the page cache is verified by mincore. A rank that fails stays in the measuring loop,
 * because others wait there: it keeps its error and skips further iterations. Ranks agree on errors at the end, so
 * that the folder is always removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cluster/session/signals.h"
#include "data/dataset/idx.h"
#include "store/checkpoint/file.h"
#include "text/figure.h"
#include "tools/bench/cases.h"

err_t io_check_folder(const char *folder, int64_t n_bytes)
{
    if (!fs_exists(folder)) RAISE(ERR_USAGE, "--io-dir %s: no such folder", folder);
    if (!fs_is_folder(folder)) RAISE(ERR_USAGE, "--io-dir %s is a file; expected a folder", folder);
    struct statvfs info;
    if (statvfs(folder, &info) != 0)
        RAISE(ERR_SYSTEM, "--io-dir %s: cannot query free space: %s", folder, strerror(errno));
    int64_t room = (int64_t)(info.f_bavail * info.f_frsize);
    if (room < n_bytes)
        RAISE(ERR_USAGE,
              "--io-dir %s has %s free, but needs %s: %s too little; free some space, or choose a smaller "
              "--io-bytes or another --io-dir",
              folder, figure_bytes((double)room).text, figure_bytes((double)n_bytes).text,
              figure_bytes((double)(n_bytes - room)).text);
    if (fs_size_limit() < n_bytes)
        RAISE(ERR_USAGE,
              "the file size limit is %s (ulimit -f), but --io-bytes needs %s; raise the limit or choose a "
              "smaller --io-bytes",
              figure_bytes((double)fs_size_limit()).text, figure_bytes((double)n_bytes).text);
    err_t err = fs_check_writable(folder);
    return err == ERR_OK ? ERR_OK : err_context(err, "--io-dir");
}

void io_filesystem(const char *folder, char *out, size_t n_bytes)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {
        {0xef53, "ext4"},        {0x58465342, "xfs"}, {0x9123683e, "btrfs"},  {0x01021994, "tmpfs"},
        {0x794c7630, "overlay"}, {0x6969, "nfs"},     {0x0bd00bd0, "lustre"}, {0x47504653, "gpfs"},
        {0x65735546, "fuse"},    {0x2fc12fc1, "zfs"}, {0x01021997, "9p"},     {0x00c36400, "ceph"},
    };
    struct statfs info;
    snprintf(out, n_bytes, "unknown");
    if (statfs(folder, &info) != 0) return;
    unsigned long magic = (unsigned long)info.f_type & 0xffffffffUL;
    snprintf(out, n_bytes, "0x%lx", magic);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].magic == magic) snprintf(out, n_bytes, "%s", known[i].name);
}

err_t io_temp_new(const char *folder, char out[FS_PATH_MAX])
{
    char path[FS_PATH_MAX];
    TRY(fs_join(path, folder, "dptrain-bench-XXXXXX"));
    if (!mkdtemp(path))
        RAISE(ERR_SYSTEM, "--io-dir %s: cannot create a folder in it: %s", folder, strerror(errno));
    memcpy(out, path, sizeof path);
    return ERR_OK;
}

void io_temp_remove(const char *temp)
{
    char path[FS_PATH_MAX];
    DIR *dir = opendir(temp);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_type != DT_DIR && fs_join(path, temp, entry->d_name) == ERR_OK) unlink(path);
    if (dir) closedir(dir);
    rmdir(temp);
}

static size_t part_bytes(int64_t n)
{
    return n < IO_PART ? (size_t)n : IO_PART;
}

err_t io_write(const char *path, const uint8_t *bytes, int64_t n, int *out)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot create '%s': %s", path, strerror(errno));
    while (n > 0 && !stop_requested()) {
        size_t n_part = part_bytes(n);
        int reason = fs_write_all(fd, FS_HERE, bytes, n_part);
        if (reason) {
            close(fd);
            RAISE(ERR_SYSTEM, "cannot write '%s': %s", path, strerror(reason));
        }
        bytes += n_part;
        n -= (int64_t)n_part;
    }
    *out = fd;
    return ERR_OK;
}

err_t io_flush(int fd, const char *path)
{
    if (fsync(fd) != 0) RAISE(ERR_SYSTEM, "cannot flush '%s': %s", path, strerror(errno));
    return ERR_OK;
}

/* one_buffer: every part overwrites the one before. */
static err_t read_parts(const char *path, uint8_t *out, int64_t n, bool one_buffer)
{
    err_t err = ERR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    while (n > 0 && !stop_requested()) {
        size_t n_part = part_bytes(n), n_read;
        int reason = fs_read_all(fd, FS_HERE, out, n_part, &n_read);
        if (reason) RAISE_OUT(err, ERR_SYSTEM, "cannot read '%s': %s", path, strerror(reason));
        if (n_read < n_part) RAISE_OUT(err, ERR_SYSTEM, "'%s' is truncated", path);
        if (!one_buffer) out += n_part;
        n -= (int64_t)n_part;
    }
out:
    close(fd);
    return err;
}

err_t io_read(const char *path, uint8_t *out, int64_t n)
{
    return read_parts(path, out, n, false);
}

/* The caller must be able to write the file: otherwise mincore reports all pages as cached. */
static err_t count_resident(int fd, const char *path, int64_t *n_resident)
{
    struct stat info;
    *n_resident = 0;
    if (fstat(fd, &info) != 0) RAISE(ERR_SYSTEM, "cannot stat '%s': %s", path, strerror(errno));
    if (info.st_size == 0) return ERR_OK;
    size_t n_bytes = (size_t)info.st_size, n_page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n_pages = (n_bytes + n_page - 1) / n_page;
    unsigned char *resident;
    TRY(mem_new(n_pages, "pages of a file", &resident));
    void *map = mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    bool known = map != MAP_FAILED && mincore(map, n_bytes, resident) == 0;
    for (size_t i = 0; i < n_pages; i++) *n_resident += !known || (resident[i] & 1);
    if (map != MAP_FAILED) munmap(map, n_bytes);
    mem_free(&resident);
    return ERR_OK;
}

err_t io_drop(const char *path, int64_t *n_left)
{
    enum { TRIES = 3 }; /* pages just added by another CPU may survive one attempt */
    err_t err = ERR_OK;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    TRY_OUT(err, io_flush(fd, path));
    *n_left = 1;
    for (int i = 0; *n_left > 0 && i < TRIES; i++) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        TRY_OUT(err, count_resident(fd, path, n_left));
    }
out:
    close(fd);
    return err;
}

enum { N_BYTES = 64 << 20, N_BYTES_QUICK = 16 << 20, N_BYTES_MIN = 64 << 10, SLACK = 1 << 20 };
enum { N_ARRAYS = 8, SIDE = 28, NAME_MAX_BYTES = 32 };

typedef struct io_options {
    const char *dir;
    int64_t n_bytes;
    bool fault;
} io_options_t;

#define FIELD(name) offsetof(io_options_t, name)
static const opt_t io_table[] = {
    {"io-dir", OPT_STRING, FIELD(dir), NULL, 0, 0, NULL, "DIR",
     "directory to measure, visible on all hosts [that of the records]", OPT_COMMON},
    {"io-bytes", OPT_SIZE, FIELD(n_bytes), "0", 0, 1e12, NULL, "BYTES",
     "file size; 0: 64M, or 16M with --quick", OPT_MORE},
    {"io-fault", OPT_FLAG, FIELD(fault), NULL, 0, 0, NULL, NULL, "corrupt the data read before the check",
     OPT_HIDDEN},
};

typedef struct io {
    bench_t *bench;
    const io_options_t *options;
    int64_t n_bytes;
    char temp[FS_PATH_MAX], path[FS_PATH_MAX]; /* the folder, the file in it */
    char filesystem[24];
    uint8_t *source, *sink; /* [n_bytes]: data to write, data read */
    uint8_t *values;        /* from the latest idx_read */
    char names[N_ARRAYS][NAME_MAX_BYTES];
    ckpt_array_t arrays[N_ARRAYS];
    int fd; /* open file to flush; -1 */
    table_t table;
} io_t;

/* One kind of access. */
typedef struct access {
    const char *test;
    bool reads, everybody; /* everybody: all ranks, otherwise only rank 0, as in training */
    err_t (*run)(io_t *io);
    err_t (*prepare)(io_t *io); /* before each sample, untimed; NULL: nothing */
    int64_t n_bytes;            /* per rank */
} access_t;

/* The measurement of an access. */
typedef struct task {
    io_t *io;
    const access_t *access;
    bool cold;
    int64_t n_left; /* maximum number of pages still cached after eviction */
    err_info_t failed;
} task_t;

static err_t io_check_options(void *values)
{
    const io_options_t *o = values;
    if (o->dir && !o->dir[0]) RAISE(ERR_USAGE, "--io-dir is empty; expected a folder");
    if (o->n_bytes > 0 && o->n_bytes < N_BYTES_MIN)
        RAISE(ERR_USAGE, "invalid --io-bytes %lld: expected %dK or more", (long long)o->n_bytes,
              N_BYTES_MIN >> 10);
    return ERR_OK;
}

static void close_fd(io_t *io)
{
    if (io->fd >= 0) close(io->fd);
    io->fd = -1;
}

static err_t io_remove_file(io_t *io)
{
    close_fd(io);
    unlink(io->path);
    return ERR_OK;
}

static err_t raw_write(io_t *io)
{
    TRY(io_write(io->path, io->source, io->n_bytes, &io->fd));
    close_fd(io);
    return ERR_OK;
}

static err_t write_unflushed(io_t *io)
{
    TRY(io_remove_file(io));
    return io_write(io->path, io->source, io->n_bytes, &io->fd);
}

static err_t raw_flush(io_t *io)
{
    return io_flush(io->fd, io->path);
}

/* What the folder delivers, without the cost of memory for all of it. */
static err_t raw_read(io_t *io)
{
    return read_parts(io->path, io->sink, io->n_bytes, true);
}

static shape_t images_shape(const io_t *io)
{
    return shape_3d(io->n_bytes / (SIDE * SIDE), SIDE, SIDE);
}

static err_t io_write_idx(io_t *io)
{
    return idx_write(io->path, images_shape(io), io->source);
}

static err_t io_read_idx(io_t *io)
{
    shape_t shape;
    return idx_read(io->path, 3, io->n_bytes, &shape, &io->values);
}

static err_t free_values(io_t *io)
{
    mem_free(&io->values);
    return ERR_OK;
}

static err_t io_write_checkpoint(io_t *io)
{
    h5_attr_t attrs[] = {h5_text("model", "bench"), h5_int("step", 1)};
    ckpt_content_t content = {io->arrays, N_ARRAYS, attrs, sizeof attrs / sizeof attrs[0]};
    return checkpoint_write(io->path, &content);
}

static err_t io_read_checkpoint(io_t *io)
{
    checkpoint_t *checkpoint;
    err_t err = ERR_OK;
    TRY(checkpoint_open(io->path, &checkpoint));
    for (int i = 0; i < N_ARRAYS && err == ERR_OK; i++) {
        const ckpt_array_t *a = &io->arrays[i];
        int64_t at = (const uint8_t *)a->data - io->source;
        err = checkpoint_read(checkpoint, a->name, a->dtype, a->shape, io->sink + at);
    }
    checkpoint_close(&checkpoint);
    return err;
}

static bool task_takes_part(const task_t *task)
{
    return (task->access->everybody || task->io->bench->comm->rank == 0) && task->failed.code == ERR_OK;
}

static err_t keep_error(task_t *task, err_t err)
{
    if (err != ERR_OK) err_take(err, &task->failed);
    return ERR_OK;
}

static err_t run_task(void *context)
{
    task_t *task = context;
    return task_takes_part(task) ? keep_error(task, task->access->run(task->io)) : ERR_OK;
}

/* One rank per host evicts the file from the page cache. */
static err_t prepare_task(void *context)
{
    task_t *task = context;
    const access_t *a = task->access;
    int64_t n_left = 0;
    if (task_takes_part(task) && a->prepare) keep_error(task, a->prepare(task->io));
    if (!task->cold || !task_takes_part(task) || task->io->bench->comm->topo.local_rank != 0) return ERR_OK;
    keep_error(task, io_drop(task->io->path, &n_left));
    if (n_left > task->n_left) task->n_left = n_left;
    return ERR_OK;
}

/* 1 if the data that this rank read differs from the data written. The plain read keeps none, so it reads again. */
static int64_t wrong_files(task_t *task)
{
    io_t *io = task->io;
    const access_t *a = task->access;
    uint8_t *got = io->values ? io->values : io->sink;
    if (!a->reads || !task_takes_part(task)) return 0;
    if (a->run == raw_read) keep_error(task, io_read(io->path, io->sink, io->n_bytes));
    if (io->options->fault) got[a->n_bytes / 2] ^= 1;
    return memcmp(got, io->source, (size_t)a->n_bytes) != 0;
}

static err_t io_report(const task_t *task, const bench_result_t *result, int64_t n_wrong)
{
    bench_t *bench = task->io->bench;
    const access_t *a = task->access;
    int n_ranks = a->everybody ? bench->comm->size : 1;
    double gbs = result->p50 > 0 ? (double)a->n_bytes / result->p50 / 1e9 : 0;
    const char *cache = !a->reads ? "-" : !task->cold ? "warm" : task->n_left == 0 ? "cold" : "warm?";
    table_t *table = &task->io->table;
    table_cell(table, "%s", a->test);
    table_cell(table, "%s", cache);
    table_cell(table, "%d", n_ranks);
    table_cell(table, "%.2f", (double)a->n_bytes / (1 << 20));
    table_cell(table, "%.3f%-1s", 1e3 * result->p50, bench_mark(result));
    table_cell(table, "%.3f", gbs);
    table_cell(table, "%.3f", gbs * n_ranks);
    table_cell(table, "%lld", (long long)n_wrong);
    table_log(table);
    bench_print_best(result, 1, gbs, "GB/s");
    json_t *j = bench_record_begin(bench, "io", a->test);
    if (j) {
        json_int(j, "bytes", a->n_bytes);
        json_string(j, "cache", a->reads ? cache : NULL);
        json_string(j, "filesystem", task->io->filesystem);
        bench_key_ranks(bench, NULL, j);
    }
    bench_record_metrics(bench);
    if (j) {
        json_real(j, "gbs", gbs);
        json_real(j, "gbs_all", gbs * n_ranks);
        json_int(j, "active_ranks", n_ranks);
        if (task->cold) json_int(j, "resident_pages", task->n_left);
        json_int(j, "wrong", n_wrong);
    }
    return bench_record_end(bench, result);
}

static err_t measure_access(io_t *io, const access_t *access, bool cold)
{
    static const char what[] = "measuring files";
    comm_t *comm = io->bench->comm;
    task_t task = {.io = io, .access = access, .cold = cold};
    bench_work_t work = {.what = access->test, .context = &task, .run = run_task, .prepare = prepare_task};
    bench_result_t result = {0};
    err_t err = bench_measure(io->bench, &work, 1, &result);
    int64_t n_wrong = err == ERR_OK ? wrong_files(&task) : 0;
    if (err == ERR_OK)
        err = comm_agree(comm, task.failed.code == ERR_OK ? ERR_OK : err_put(&task.failed), what);
    if (err == ERR_OK) err = bench_sum_wrong(io->bench, &n_wrong);
    if (err == ERR_OK) err = comm_allreduce(comm, &task.n_left, 1, DTYPE_I64, COMM_MAX, what);
    if (err == ERR_OK) err = io_report(&task, &result, n_wrong);
    bench_result_free(&result);
    return err;
}

/* Writes the file once, measures reading it cold and warm, and removes it. */
static err_t measure_reading(io_t *io, const access_t *access, err_t (*make)(io_t *io))
{
    comm_t *comm = io->bench->comm;
    err_t err = ERR_OK;
    if (comm->rank == 0) {
        io_remove_file(io);
        err = make(io);
    }
    err = comm_agree(comm, err, "writing the file to read");
    for (int cold = 1; cold >= 0 && err == ERR_OK; cold--) {
        memset(io->sink, 0, (size_t)io->n_bytes);
        err = measure_access(io, access, cold);
    }
    mem_free(&io->values);
    if (comm->rank == 0) io_remove_file(io);
    return err;
}

static err_t measure_all(io_t *io)
{
    int64_t idx = shape_count(images_shape(io)), ckpt = N_ARRAYS * shape_count(io->arrays[0].shape) * 4;
    const access_t plain_write = {"raw_write", false, false, raw_write, io_remove_file, io->n_bytes},
                   plain_flush = {"raw_fsync", false, false, raw_flush, write_unflushed, io->n_bytes},
                   plain_read = {"raw_read", true, true, raw_read, NULL, io->n_bytes},
                   idx_writes = {"idx_write", false, false, io_write_idx, io_remove_file, idx},
                   idx_reads = {"idx_read", true, true, io_read_idx, free_values, idx},
                   ckpt_writes = {"checkpoint_write",  false,          false,
                                  io_write_checkpoint, io_remove_file, ckpt},
                   ckpt_reads = {"checkpoint_read", true, false, io_read_checkpoint, NULL, ckpt};
    TRY(measure_access(io, &plain_write, false));
    TRY(measure_access(io, &plain_flush, false));
    TRY(measure_reading(io, &plain_read, raw_write));
    TRY(measure_access(io, &idx_writes, false));
    TRY(measure_reading(io, &idx_reads, io_write_idx));
    TRY(measure_access(io, &ckpt_writes, false));
    return measure_reading(io, &ckpt_reads, io_write_checkpoint);
}

/* On rank 0, before anything is measured. The folder of the records exists by now. */
static err_t make_temp_folder(io_t *io)
{
    char of_records[FS_PATH_MAX] = "runs", unused[FS_PATH_MAX];
    const char *folder = io->options->dir ? io->options->dir : of_records;
    if (io->bench->options->out) TRY(fs_temp_path(io->bench->options->out, of_records, unused));
    /* One file at a time, plus its header. */
    TRY(io_check_folder(folder, io->n_bytes + SLACK));
    io_filesystem(folder, io->filesystem, sizeof io->filesystem);
    return io_temp_new(folder, io->temp);
}

static err_t find_temp_folder(const io_t *io)
{
    if (fs_is_folder(io->temp)) return ERR_OK;
    RAISE(ERR_USAGE, "'%s' is not visible on %s; --io-dir must be a folder that all hosts share", io->temp,
          io->bench->comm->topo.host_name);
}

static err_t make_io_buffers(io_t *io)
{
    static const char what[] = "measuring files";
    TRY(mem_new((size_t)io->n_bytes, what, &io->source));
    TRY(mem_new((size_t)io->n_bytes, what, &io->sink));
    uint64_t key = rng_key(5, RNG_TEST);
    /* Incompressible, so that no file system can shorten it. */
    for (int64_t at = 0; at < io->n_bytes; at += (int64_t)sizeof(rng_block_t)) {
        rng_block_t block = rng_philox(key, (uint32_t)at, (uint32_t)(at >> 32), 0, 0);
        int64_t n = io->n_bytes - at < (int64_t)sizeof block ? io->n_bytes - at : (int64_t)sizeof block;
        memcpy(io->source + at, &block, (size_t)n);
    }
    int64_t count = io->n_bytes / N_ARRAYS / (int64_t)sizeof(float);
    for (int i = 0; i < N_ARRAYS; i++) {
        snprintf(io->names[i], NAME_MAX_BYTES, "/params/layer%d/weight", i);
        io->arrays[i] = (ckpt_array_t){.name = io->names[i],
                                       .dtype = DTYPE_F32,
                                       .shape = shape_1d(count),
                                       .data = io->source + i * count * (int64_t)sizeof(float)};
    }
    return fs_join(io->path, io->temp, "file");
}

/* Collective. The caller removes the folder, also after an error. */
static err_t io_prepare(io_t *io)
{
    static const char what[] = "preparing to measure files";
    comm_t *comm = io->bench->comm;
    TRY(bench_check_memory(io->bench, 3 * io->n_bytes, "--io-bytes (three buffers)"));
    TRY(comm_agree(comm, comm->rank == 0 ? make_temp_folder(io) : ERR_OK, what));
    TRY(comm_broadcast(comm, io->temp, sizeof io->temp, 0, what));
    err_t err = find_temp_folder(io);
    if (err == ERR_OK) err = make_io_buffers(io);
    return comm_agree(comm, err, what);
}

static err_t io_run(bench_t *bench, const void *values)
{
    const io_options_t *o = values;
    io_t *io = NULL;
    TRY(comm_agree(bench->comm, mem_new(sizeof *io, "measuring files", &io), "measuring files"));
    *io = (io_t){.bench = bench, .options = o, .fd = -1};
    io->n_bytes = o->n_bytes ? o->n_bytes : bench->options->quick ? N_BYTES_QUICK : N_BYTES;
    err_t err = io_prepare(io);
    if (err == ERR_OK) {
        bench_print("io: in %s (%s), %d rank%s", io->temp, io->filesystem, bench->comm->size,
                    bench->comm->size > 1 ? "s" : "");
        io->table = (table_t){.columns = {{"access", true, .min_width = 18},
                                          {"cache", true},
                                          {"ranks"},
                                          {"MiB", .min_width = 8},
                                          {"time", .unit = "ms ", .min_width = 12},
                                          {"GB/s", .min_width = 8},
                                          {"all ranks"},
                                          {"wrong"}},
                              .n_columns = 8,
                              .indent = 2};
        table_log(&io->table); /* the headings */
        err = measure_all(io);
    }
    close_fd(io);
    if (bench->comm->rank == 0 && io->temp[0]) io_temp_remove(io->temp);
    mem_free(&io->source);
    mem_free(&io->sink);
    mem_free(&io->values);
    table_free(&io->table);
    mem_free(&io);
    return err;
}

const bench_case_t bench_io = {.name = "io",
                               .summary = "reading and writing IDX files and checkpoints, cold and warm",
                               .table = io_table,
                               .n_options = sizeof io_table / sizeof io_table[0],
                               .n_options_bytes = sizeof(io_options_t),
                               .check = io_check_options,
                               .run = io_run};
