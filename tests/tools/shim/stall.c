/* SPDX-License-Identifier: MIT */
/* Preloaded into one rank or all: stops the process in MPI_Init or MPI_Finalize, or blocks the main thread in
 * a write to a file, as a disk does that no longer answers.
 *
 *   STALL       MPI_Init, MPI_Finalize, or part of a file's path
 *   STALL_RANK  only this rank; unset: every process
 *   STALL_FROM  the write from which on it blocks [1] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_here(const char *where)
{
    const char *stall = getenv("STALL"), *rank = getenv("STALL_RANK"), *mine = getenv("OMPI_COMM_WORLD_RANK");
    return stall && strstr(where, stall) && (!rank || (mine && strcmp(rank, mine) == 0));
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided);
int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    int (*next)(int *, char ***, int, int *);
    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Init_thread");
    if (is_here("MPI_Init")) raise(SIGSTOP);
    return next(argc, argv, wanted, provided);
}

int MPI_Finalize(void);
int MPI_Finalize(void)
{
    int (*next)(void);
    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Finalize");
    if (is_here("MPI_Finalize")) raise(SIGSTOP);
    return next();
}

/* glibc's streams do not call write() through the symbol table, so the stream's flush is caught. */
int fflush(FILE *stream)
{
    static int n;
    int (*next)(FILE *);
    char link[64], path[4096] = "";
    *(void **)&next = dlsym(RTLD_NEXT, "fflush");
    snprintf(link, sizeof link, "/proc/self/fd/%d", stream ? fileno(stream) : -1);
    if (stream && readlink(link, path, sizeof path - 1) > 0 && is_here(path)) {
        const char *from = getenv("STALL_FROM");
        if (++n >= (from ? atoi(from) : 1))
            for (;;) pause();
    }
    return next(stream);
}
