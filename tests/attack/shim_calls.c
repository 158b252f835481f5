/* SPDX-License-Identifier: MIT */
/* The functions that the shim replaces: each asks shim.c whether the fault strikes this call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"

/* The library's own function of this name. */
#define NEXT(name)                                                                                           \
    static __typeof__(&name) next;                                                                           \
    if (!next) {                                                                                             \
        void *found = dlsym(RTLD_NEXT, #name);                                                               \
        memcpy(&next, &found, sizeof next);                                                                  \
    }

/* ---- Files ---- */
#define OPENING(name)                                                                                        \
    int name(const char *path, int flags, ...)                                                               \
    {                                                                                                        \
        va_list rest;                                                                                        \
        va_start(rest, flags);                                                                               \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                            \
        va_end(rest);                                                                                        \
        NEXT(name)                                                                                           \
        return shim_strike("open", path, 0, NULL) == ACT_FAIL ? -1 : next(path, flags, mode);                \
    }
OPENING(open)
OPENING(open64)

FILE *fopen(const char *path, const char *mode)
{
    NEXT(fopen)
    return shim_strike("open", path, 0, NULL) == ACT_FAIL ? NULL : next(path, mode);
}

#define WRITING(name, params, args)                                                                          \
    ssize_t name params                                                                                      \
    {                                                                                                        \
        char path[PATH_MAX];                                                                                 \
        NEXT(name)                                                                                           \
        act_t act = shim_strike("write", shim_path(fd, path), n, NULL);                                      \
        if (act == ACT_FAIL) return -1;                                                                      \
        if (act == ACT_DROP) return (ssize_t)n;                                                              \
        if (act == ACT_SHORT && n > 1) n /= 2;                                                               \
        if (act != ACT_FLIP || n == 0) return next args;                                                     \
        void *copy = memcpy(malloc(n), data, n);                                                             \
        shim_flip(copy, n);                                                                                  \
        data = copy;                                                                                         \
        ssize_t done = next args;                                                                            \
        free(copy);                                                                                          \
        return done;                                                                                         \
    }
WRITING(write, (int fd, const void *data, size_t n), (fd, data, n))
WRITING(pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
WRITING(pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at))

#define READING(name, params, args)                                                                          \
    ssize_t name params                                                                                      \
    {                                                                                                        \
        char path[PATH_MAX];                                                                                 \
        NEXT(name)                                                                                           \
        act_t act = shim_strike("read", shim_path(fd, path), n, NULL);                                       \
        if (act == ACT_FAIL) return -1;                                                                      \
        if (act == ACT_SHORT && n > 1) n /= 2;                                                               \
        ssize_t done = next args;                                                                            \
        if (act == ACT_FLIP && done > 0) shim_flip(data, (size_t)done);                                      \
        return done;                                                                                         \
    }
READING(read, (int fd, void *data, size_t n), (fd, data, n))
READING(pread, (int fd, void *data, size_t n, off_t at), (fd, data, n, at))
READING(pread64, (int fd, void *data, size_t n, off64_t at), (fd, data, n, at))

int fsync(int fd)
{
    char path[PATH_MAX];
    NEXT(fsync)
    act_t act = shim_strike("fsync", shim_path(fd, path), 0, NULL);
    return act == ACT_FAIL ? -1 : act == ACT_DROP ? 0 : next(fd);
}

int close(int fd)
{
    char path[PATH_MAX];
    NEXT(close)
    if (!shim_strikes("close")) return next(fd);
    act_t act = shim_strike("close", shim_path(fd, path), 0, NULL);
    int status = next(fd);
    if (act == ACT_FAIL) errno = (int)shim_value();
    return act == ACT_FAIL ? -1 : status;
}

int rename(const char *from, const char *to)
{
    NEXT(rename)
    return shim_strike("rename", to, 0, NULL) == ACT_FAIL ? -1 : next(from, to);
}

int unlink(const char *path)
{
    NEXT(unlink)
    return shim_strike("unlink", path, 0, NULL) == ACT_FAIL ? -1 : next(path);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir)
    return shim_strike("mkdir", path, 0, NULL) == ACT_FAIL ? -1 : next(path, mode);
}

/* Streams write by a call inside libc that cannot be replaced. */
int fputs(const char *text, FILE *file)
{
    char path[PATH_MAX];
    NEXT(fputs)
    if (!shim_ready() || file == stdout || file == stderr) return next(text, file);
    shim_path(fileno(file), path);
    if (strstr(path, "metrics.jsonl") && strstr(text, "\"record\":\"step\"")) shim_step(text);
    return shim_strike("fputs", path, strlen(text), NULL) == ACT_FAIL ? EOF : next(text, file);
}

int fflush(FILE *file)
{
    char path[PATH_MAX];
    NEXT(fflush)
    if (!shim_ready() || !file || file == stdout || file == stderr) return next(file);
    return shim_strike("fflush", shim_path(fileno(file), path), 0, NULL) == ACT_FAIL ? EOF : next(file);
}

/* ---- Memory and threads ---- */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t n);
void *__libc_memalign(size_t align, size_t n);
#define ALLOCATING(params, n_bytes, args, name)                                                              \
    void *name params                                                                                        \
    {                                                                                                        \
        return shim_strike("malloc", NULL, n_bytes, __builtin_return_address(0)) == ACT_FAIL                 \
                   ? NULL                                                                                    \
                   : __libc_##args;                                                                          \
    }
ALLOCATING((size_t n), n, malloc(n), malloc)
ALLOCATING((size_t n, size_t size), n *size, calloc(n, size), calloc)
ALLOCATING((void *old, size_t n), n, realloc(old, n), realloc)
ALLOCATING((size_t align, size_t n), n, memalign(align, n), aligned_alloc)

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    NEXT(mmap)
    return shim_strike("mmap", NULL, n, NULL) == ACT_FAIL ? MAP_FAILED
                                                          : next(at, n, protection, flags, fd, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *of)
{
    NEXT(pthread_create)
    return shim_strike("pthread_create", NULL, 0, NULL) == ACT_FAIL ? (int)shim_value()
                                                                    : next(thread, attributes, body, of);
}

/* ---- Clocks: the wall clock jumps and stays so ---- */
static time_t jumped;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    NEXT(clock_gettime)
    int status = next(clock, now);
    if (clock != CLOCK_REALTIME) return status;
    if (shim_strike("clock", NULL, 0, NULL) == ACT_JUMP) jumped = (time_t)shim_value();
    now->tv_sec += jumped;
    return status;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* ---- Hashes of the weights ---- */
#define HASHING(name)                                                                                        \
    uint64_t name(const void *data, size_t n_bytes, uint64_t seed);                                          \
    uint64_t name(const void *data, size_t n_bytes, uint64_t seed)                                           \
    {                                                                                                        \
        NEXT(name)                                                                                           \
        shim_hash_begins(data, n_bytes, seed);                                                               \
        uint64_t hash = next(data, n_bytes, seed);                                                           \
        shim_hash_ends(hash);                                                                                \
        return hash;                                                                                         \
    }
HASHING(XXH3_64bits_withSeed)
HASHING(XXH3_64bits_withSeed_dispatch)

/* ---- MPI ---- */
#define MPI_CALL_OF(name, count, params, args, after)                                                        \
    int MPI_##name params                                                                                    \
    {                                                                                                        \
        act_t act = shim_strike("MPI_" #name, NULL, (size_t)(count), NULL);                                  \
        if (act == ACT_FAIL) return MPI_ERR_OTHER;                                                           \
        int status = PMPI_##name args;                                                                       \
        after;                                                                                               \
        return status;                                                                                       \
    }
/* In a storm the ranks of many jobs share the cores: they sleep until all have arrived, instead of spinning. */
static void arrive_asleep(MPI_Comm comm)
{
    MPI_Request request;
    int done = !shim_sleeps() || PMPI_Ibarrier(comm, &request) != MPI_SUCCESS;
    while (!done && PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) shim_nap();
}

#define COLLECTIVE_OF(name, count, params, args, after)                                                      \
    int MPI_##name params                                                                                    \
    {                                                                                                        \
        act_t act = shim_strike("MPI_" #name, NULL, (size_t)(count), NULL);                                  \
        if (act == ACT_FAIL) return MPI_ERR_OTHER;                                                           \
        arrive_asleep(comm);                                                                                 \
        int status = PMPI_##name args;                                                                       \
        after;                                                                                               \
        return status;                                                                                       \
    }
#define MPI_CALL(name, params, args, after) MPI_CALL_OF(name, 0, params, args, after)
#define NOTHING                             (void)act

static void flip_received(act_t act, void *data, int count, MPI_Datatype type)
{
    int n = 0;
    if ((act != ACT_FLIP && act != ACT_FILL) || MPI_Type_size(type, &n) != MPI_SUCCESS) return;
    size_t n_bytes = (size_t)n * (size_t)count;
    if (act == ACT_FLIP)
        shim_flip(data, n_bytes);
    else if (data)
        memset(data, (int)shim_value(), n_bytes / 2); /* gradients, not what follows them */
}

/* Batch norm's running statistics before they are averaged: the only floats that small gathers send. */
static const void *flip_sent(const void *send, int count, MPI_Datatype type)
{
    int n = 0;
    if (!shim_strikes("mpi_send") || PMPI_Type_size(type, &n) != MPI_SUCCESS) return send;
    size_t n_bytes = (size_t)n * (size_t)count;
    if (n_bytes <= 65536 && shim_strike("mpi_send", NULL, n_bytes, NULL) == ACT_FLIP) {
        void *own;
        memcpy(&own, &send, sizeof own);
        shim_flip(own, n_bytes);
    }
    return send;
}

MPI_CALL(Init_thread, (int *argc, char ***argv, int wanted, int *given), (argc, argv, wanted, given), NOTHING)
MPI_CALL(Finalize, (void), (), NOTHING)
MPI_CALL(Abort, (MPI_Comm comm, int code), (comm, code), NOTHING)
COLLECTIVE_OF(Barrier, 0, (MPI_Comm comm), (comm), NOTHING)
MPI_CALL(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), (comm, color, key, out), NOTHING)
MPI_CALL(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out),
         (comm, type, key, info, out), NOTHING)
MPI_CALL(Win_allocate_shared, (MPI_Aint n, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
         (n, unit, info, comm, base, win), NOTHING)
COLLECTIVE_OF(Bcast, n, (void *data, int n, MPI_Datatype type, int root, MPI_Comm comm),
              (data, n, type, root, comm), flip_received(act, data, n, type))
COLLECTIVE_OF(Allreduce, n,
              (const void *send, void *data, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
              (send, data, n, type, op, comm), flip_received(act, data, n, type))
MPI_CALL(Reduce, (const void *send, void *data, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
         (send, data, n, type, op, root, comm), NOTHING)
MPI_CALL(Iallreduce,
         (const void *send, void *data, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
          MPI_Request *request),
         (send, data, n, type, op, comm, request), NOTHING)
COLLECTIVE_OF(Allgather, m,
              (const void *send, int n, MPI_Datatype from, void *data, int m, MPI_Datatype type,
               MPI_Comm comm),
              (flip_sent(send, n, from), n, from, data, m, type, comm), flip_received(act, data, m, type))
COLLECTIVE_OF(Alltoall, m,
              (const void *send, int n, MPI_Datatype from, void *data, int m, MPI_Datatype type,
               MPI_Comm comm),
              (send, n, from, data, m, type, comm), flip_received(act, data, m, type))
MPI_CALL(Send, (const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm),
         (data, n, type, to, tag, comm), NOTHING)
MPI_CALL(Recv, (void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *out),
         (data, n, type, from, tag, comm, out), flip_received(act, data, n, type))
MPI_CALL(Sendrecv,
         (const void *send, int n, MPI_Datatype type, int to, int tag, void *data, int m, MPI_Datatype type2,
          int from, int tag2, MPI_Comm comm, MPI_Status *out),
         (send, n, type, to, tag, data, m, type2, from, tag2, comm, out), flip_received(act, data, m, type2))
