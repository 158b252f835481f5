/* SPDX-License-Identifier: MIT */
/* Measures what a rank's hardware can do at most, and keeps the greatest of a host's in the user's cache: a clock
 * rate or a busy neighbour lowers a measurement, and nothing raises one above the hardware. The loops and products
 * are the backend's. */
#include "cluster/session/yardstick.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/disk_wait.h"
#include "text/figure.h"

enum { FORMAT = 1 };
/* More than any machine does, per second. */
static const double most = 1e18;
/* A kept value above the measured one by a greater factor is not believed. Other load takes most of the memory's rate,
 * but hardly any of a core's in its best moments. */
static const double most_above_flops = 2, most_above_bytes = 10;
/* Smaller gains are not written. */
static const double gain = 1.002;

static const char what[] = "measuring the hardware's peak";

double yardstick_least_sec(const yardstick_t *y, double n_flops, double n_bytes, bound_t *bound)
{
    const double products = y->flops > 0 ? n_flops / y->flops : 0;
    const double bytes = y->bytes_per_sec > 0 ? fmax(0, n_bytes - y->cache_bytes) / y->bytes_per_sec : 0;
    const double least = fmax(products, bytes);
    if (bound) *bound = least <= 0 ? BOUND_NONE : products >= bytes ? BOUND_PRODUCTS : BOUND_BYTES;
    return least;
}

void yardstick_write(const yardstick_kept_t *kept, const char *machine, char out[YARDSTICK_TEXT_MAX])
{
    snprintf(out, YARDSTICK_TEXT_MAX, "machine = %s\nflops = %.9g\nbytes_per_sec = %.9g\n", machine,
             kept->flops, kept->bytes_per_sec);
}

/* A line "NAME = NUMBER", from *text on, which moves behind it. */
static bool read_number(const char **text, const char *name, double *out)
{
    const size_t n = strlen(name);
    char *end;
    if (strncmp(*text, name, n) != 0 || strncmp(*text + n, " = ", 3) != 0) return false;
    const char *number = *text + n + 3;
    const char *line_end = number + strspn(number, "0123456789.e+"); /* strtod takes more: -1, nan, 0x1p9 */
    *out = strtod(number, &end);
    if (end == number || end != line_end || *end != '\n' || !(*out <= most)) return false;
    *text = end + 1;
    return true;
}

err_t yardstick_read(const char *text, const char *machine, yardstick_kept_t *out)
{
    static const char head[] = "machine = ";
    const size_t n_head = sizeof head - 1, n = strlen(machine);
    yardstick_kept_t kept;
    *out = (yardstick_kept_t){0};
    const char *end = strchr(text, '\n');
    if (strncmp(text, head, n_head) != 0 || !end) RAISE(ERR_DATA, "its first line names no machine");
    if ((size_t)(end - text) != n_head + n || memcmp(text + n_head, machine, n) != 0) return ERR_OK;
    text = end + 1;
    if (!read_number(&text, "flops", &kept.flops) ||
        !read_number(&text, "bytes_per_sec", &kept.bytes_per_sec) || *text)
        RAISE(ERR_DATA, "expected lines flops and bytes_per_sec, with a number up to %g each", most);
    *out = kept;
    return ERR_OK;
}

/* 0 unless it can be right; what is not measured now tells nothing. */
static double believed(double kept, double measured, double most_above, const char *path)
{
    if (measured <= 0 || kept <= most_above * measured) return kept;
    log_warn("a kept peak in %s is ignored: it is %s times what was measured now", path,
             figure_number(kept / measured).text);
    return 0;
}

/* Collective. Raises *measured to what is kept for its machine. The first rank of each host reads and writes: there may
 * be hundreds, and the folder on a network. */
static err_t keep(comm_t *comm, const char *machine, yardstick_kept_t *measured)
{
    char path[FS_PATH_MAX], name[64];
    yardstick_kept_t mine = {0}, *kept;
    snprintf(name, sizeof name, "peak-%016" PRIx64 ".txt", (uint64_t)XXH3_64bits(machine, strlen(machine)));
    const bool reads = comm->topo.local_rank == 0 && fs_cache_path(path, name) == ERR_OK;
    if (reads) {
        char *text;
        err_t err = measure_cache_read(path, YARDSTICK_TEXT_MAX, &text);
        if (err == ERR_OK && text) err = yardstick_read(text, machine, &mine);
        mem_free(&text);
        if (err != ERR_OK) log_warn("the kept peak in %s is ignored: %s", path, err_message());
        mine.flops = believed(mine.flops, measured->flops, most_above_flops, path);
        mine.bytes_per_sec = believed(mine.bytes_per_sec, measured->bytes_per_sec, most_above_bytes, path);
    }
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *kept, "kept peaks", &kept), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, kept, what);
    for (int r = 0; r < comm->size && err == ERR_OK; r++)
        if (comm->places[r].host_index == comm->topo.host) {
            measured->flops = fmax(measured->flops, kept[r].flops);
            measured->bytes_per_sec = fmax(measured->bytes_per_sec, kept[r].bytes_per_sec);
        }
    mem_free(&kept);
    if (reads &&
        (measured->flops > gain * mine.flops || measured->bytes_per_sec > gain * mine.bytes_per_sec)) {
        char text[YARDSTICK_TEXT_MAX];
        yardstick_write(measured, machine, text);
        if (measure_cache_write(path, text) != ERR_OK) log_detail("the peak is not kept: %s", err_message());
    }
    return err;
}

/* Collective. Errors that ranks agree on become a warning, and *out 0. */
static err_t agree_peak(comm_t *comm, err_t mine, const backend_peak_t *peak, double *out)
{
    err_t err = comm_agree(comm, mine, what);
    *out = err == ERR_OK ? peak->per_sec : 0;
    if (err == ERR_OK || err != comm->agreed) return err;
    log_warn("%s: %s", what, err_message());
    return ERR_OK;
}

int64_t yardstick_array_bytes(int n_threads, int64_t own_bytes, int64_t all_bytes, int64_t free_bytes)
{
    static const int64_t most_bytes = 128 << 20;
    const int64_t least = all_bytes > 0 ? 2 * all_bytes : most_bytes, room = free_bytes / 4;
    int64_t n =
        own_bytes > 0 && 2 * n_threads * own_bytes < most_bytes ? 2 * n_threads * own_bytes : most_bytes;
    if (n < least) n = least;
    if (n > room) n = room;
    return n < least ? 0 : n;
}

static err_t measure_bytes(const comm_t *comm, const backend_t *backend, int n_threads, backend_peak_t *out)
{
    const int n_ranks = comm->topo.local_size;
    const int64_t room = machine_free_bytes() / n_ranks;
    const int64_t n = yardstick_array_bytes(n_threads, machine_cache_bytes(1, 1),
                                            machine_cache_bytes(n_threads, n_ranks), room);
    if (n == 0 && n_threads > 0)
        RAISE(ERR_SYSTEM, "the rate of memory stays unknown: %s are left for each rank of this host",
              figure_bytes((double)room).text);
    return backend->peak_bytes(n, out);
}

err_t yardstick_measure(comm_t *comm, const backend_t *backend, dtype_t compute, yardstick_t *out)
{
    char machine[YARDSTICK_MACHINE_MAX];
    backend_peak_t flops = {0}, bytes = {0};
    yardstick_kept_t measured = {0};
    *out = (yardstick_t){0};
    /* Simulated ranks share a process, and their clock stands still. */
    if (!backend->peak_flops || comm->topo.simulated) return ERR_OK;
    /* All ranks measure at once, because those of a host share memory and clock rate. */
    TRY(comm_barrier(comm, what));
    TRY(agree_peak(comm, backend->peak_flops(compute, &flops), &flops, &measured.flops));
    out->cache_bytes = (double)machine_cache_bytes(flops.n_threads, comm->topo.local_size);
    if (measured.flops <= 0) return ERR_OK;
    TRY(agree_peak(comm, measure_bytes(comm, backend, flops.n_threads, &bytes), &bytes,
                   &measured.bytes_per_sec));
    if (bytes.cache_bytes > 0) out->cache_bytes = (double)bytes.cache_bytes;
    /* On a device a full memory leaves small products alone, which say little of what is kept. */
    if (flops.n_threads > 0) {
        const bool has_bytes = measured.bytes_per_sec > 0;
        /* What determines a measurement: the machine, what multiplies, and how many do at once. */
        char cpu[MACHINE_CPU_TEXT];
        machine_cpu_text(cpu);
        snprintf(machine, sizeof machine, "%s; %s; %s by %s; threads %d; ranks %d; format %d", cpu,
                 backend->name, dtype_name(compute), flops.from, flops.n_threads, comm->topo.local_size,
                 FORMAT);
        TRY(keep(comm, machine, &measured));
        if (!has_bytes) measured.bytes_per_sec = 0; /* as on hosts that keep none */
    }
    double means[] = {measured.flops, measured.bytes_per_sec, out->cache_bytes};
    TRY(comm_allreduce(comm, means, 3, DTYPE_F64, COMM_SUM, what));
    out->flops = means[0] / comm->size;
    out->bytes_per_sec = means[1] / comm->size;
    out->cache_bytes = means[2] / comm->size;
    snprintf(out->flops_from, sizeof out->flops_from, "%s", flops.from);
    if (flops.n_threads > 0)
        snprintf(out->flops_from, sizeof out->flops_from, "%s, %d thread%s", flops.from, flops.n_threads,
                 flops.n_threads > 1 ? "s" : "");
    return ERR_OK;
}
