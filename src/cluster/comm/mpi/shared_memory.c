/* SPDX-License-Identifier: MIT */
/* Shared-memory windows that never end in a bus error: room is checked on all hosts first, pages are
 * allocated at once, and all ranks get a window or none. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/sim.h"
#include "cluster/comm/mpi/impl.h"

/* OpenMPI keeps its own shared segments in the same folder and allocates their pages late; this much per rank
 * is left free. */
enum { ROOM_LEFT_BYTES = 4 << 20 };

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* OpenMPI places a header before a window, so its base is not aligned. The segment starts on a page in every
 * process, so all of them round up to the same place. */
static char *page_up(char *base)
{
    size_t page = page_bytes();
    return (char *)(((uintptr_t)base + page - 1) / page * page);
}

/* The folder of OpenMPI's windows: the current value of osc_sm_backing_directory (from command line,
 * environment and files), as reported by MPI's tool interface. */
static void window_folder(char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "/dev/shm");
#ifdef MPI_T_ENUM_NULL /* SMPI has no tool interface */
    int level = MPI_THREAD_SINGLE, provided, index, count;
    /* OpenMPI 4.1 takes the level requested here for the whole process. */
    MPI_Query_thread(&level);
    if (MPI_T_init_thread(level, &provided) != MPI_SUCCESS) return;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index("osc_sm_backing_directory", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        char value[4096] = "";
        if (count < (int)sizeof value && MPI_T_cvar_read(handle, value) == MPI_SUCCESS && value[0])
            snprintf(out, n_bytes, "%s", value);
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
#endif
}

/* Collective. Whether every host has room for what its ranks request; if not, `room` describes one that does
 * not. */
static err_t room_everywhere(const shared_ranks_t *ranks, size_t n_bytes, shared_room_t *room)
{
    int rank = ranks->topo->rank, size = ranks->topo->size;
    memset(room, 0, sizeof *room);
    memcpy(room->host, ranks->topo->host_name, sizeof room->host);
    window_folder(room->folder, sizeof room->folder);
    int64_t mine = (int64_t)n_bytes + ROOM_LEFT_BYTES;
    E_MPI(MPI_Allreduce(&mine, &room->need_bytes, 1, MPI_INT64_T, MPI_SUM, ranks->host), "MPI_Allreduce");
    struct statvfs fs;
    if (statvfs(room->folder, &fs) == 0) room->free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
    if (fs_size_limit() < room->need_bytes && fs_size_limit() < room->free_bytes) {
        room->free_bytes = fs_size_limit();
        snprintf(room->folder, sizeof room->folder, "the file size limit (ulimit -f)");
    }
    int first = room->free_bytes < room->need_bytes ? rank : size;
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, ranks->world), "MPI_Allreduce");
    room->enough = first == size;
    if (!room->enough) E_MPI(MPI_Bcast(room, sizeof *room, MPI_BYTE, first, ranks->world), "MPI_Bcast");
    return ERR_OK;
}

/* Collective over `group`: whether all ranks pass true. */
static err_t all_agree(MPI_Comm group, bool mine, bool *all)
{
    int yes = mine;
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &yes, 1, MPI_INT, MPI_MIN, group), "MPI_Allreduce");
    *all = yes;
    return ERR_OK;
}

/* Allocates the pages of a block now. If the file system has filled up meanwhile, a plain store would raise
 * SIGBUS; the kernel (5.14 and later) can report it instead. */
static bool populate_pages(char *data, size_t n_bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (((uintptr_t)data & (page_bytes() - 1)) == 0 && madvise(data, n_bytes, MADV_POPULATE_WRITE) != 0 &&
        (errno == EFAULT || errno == ENOMEM))
        return false;
#endif
    memset(data, 0, n_bytes);
    return true;
}

err_t shared_window_new(const shared_ranks_t *ranks, size_t n_bytes, shared_window_t *out, bool *ok,
                        shared_room_t *room)
{
    *out = (shared_window_t){.win = MPI_WIN_NULL};
    *ok = false;
    TRY(room_everywhere(ranks, n_bytes + 2 * page_bytes(), room));
    if (!room->enough) return ERR_OK;
    size_t page = page_bytes(), n_rounded = (n_bytes + page - 1) / page * page;
    if (sim_is_rank()) { /* SMPI allocates rank 0's size for every rank */
        int64_t most = (int64_t)n_rounded;
        E_MPI(MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT64_T, MPI_MAX, ranks->host), "MPI_Allreduce");
        n_rounded = (size_t)most;
    }
    char *base = NULL;
    MPI_Win win = MPI_WIN_NULL;
    /* One more page, for page_up. */
    bool made = MPI_Win_allocate_shared((MPI_Aint)(n_rounded ? n_rounded + page : 0), 1, MPI_INFO_NULL,
                                        ranks->host, &base, &win) == MPI_SUCCESS;
    bool on_host;
    TRY(all_agree(ranks->host, made, &on_host));
    bool mine = on_host;
    if (on_host) {
        E_MPI(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
        *out = (shared_window_t){win, page_up(base), n_bytes};
        if (n_rounded) mine = populate_pages(out->own, n_rounded);
    }
    TRY(all_agree(ranks->world, mine, ok));
    /* Freeing is collective, too: a window that exists on some ranks of a host only is left to
     * MPI_Finalize. */
    if (!*ok && on_host) TRY(shared_window_free(out));
    return ERR_OK;
}

err_t shared_window_part(const shared_window_t *window, int local_rank, char **out)
{
    MPI_Aint n;
    int unit;
    char *base;
    E_MPI(MPI_Win_shared_query(window->win, local_rank, &n, &unit, &base), "MPI_Win_shared_query");
    if (sim_is_rank()) base += local_rank * n; /* SMPI's answer is rank 0's base */
    *out = page_up(base);
    return ERR_OK;
}

err_t shared_window_free(shared_window_t *window)
{
    err_t err = ERR_OK;
    if (window->win != MPI_WIN_NULL) err = mpi_check(MPI_Win_free(&window->win), "MPI_Win_free");
    *window = (shared_window_t){.win = MPI_WIN_NULL};
    return err;
}
