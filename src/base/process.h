/* SPDX-License-Identifier: MIT */
/* This process: its place in the job by its launcher, its threads and signals, the libraries that it loads at run time; and
 * other processes of this machine. Not collective. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"

/* Rank and size according to the launcher (mpirun, srun, torchrun, …), as the environment says. Read it before MPI_Init,
 * which adds variables of its own. */
enum { LAUNCHERS = 8 };
typedef struct launch {
    const char *name;     /* the innermost launcher, such as "mpirun"; NULL: none */
    const char *variable; /* its size is in */
    int by;               /* its number; -1: none */
    int rank, size;       /* its rank and size; 0 and 1 without one */
    int sizes[LAUNCHERS]; /* of all launchers found; 0: not found */
} launch_t;
launch_t launch_read(void);
/* ERR_USAGE if the launcher started more ranks than MPI sees.
 *
 *   library  the MPI library that does not see them, such as "Open MPI v4.1.4" */
err_t launch_check(const launch_t *launch, int n_seen, const char *library);

/* Whether a launcher of MPI processes started this one: only then can MPI see other ranks. */
bool launch_present(void);
/* Rank and size in its job; 0 and 1 without one. */
int launch_rank(void);
int launch_size(void);
/* Whether the process is this rank's alone: its signals, number, CPUs and usage are the rank's. Simulated ranks
 * share one (base/sim.h). */
bool launch_owns_process(void);
/* The host's name, or "localhost". */
void launch_host_name(char *out, size_t n_bytes);

/* Threads and signals. Threads that compute never run a signal handler: oneDNN's sgemm keeps a heap address in
 * the stack pointer (oneDNN issue 4845, mended in 3.11.2), so that the kernel would write the handler's frame
 * over the heap. */

/* Whether the caller is the process's first thread. */
bool thread_is_main(void);

/* As pthread_cond_init. Waits end by the monotonic clock: a change of the wall clock must not end them. */
int thread_cond_init(pthread_cond_t *out);

/* A time of that clock, for pthread_cond_timedwait. */
struct timespec thread_time_after(double sec);

/* As pthread_create. The thread blocks all signals but those that a fault raises. */
int thread_start(pthread_t *out, void *(*run)(void *), void *argument);

/* Starts a thread that receives the process's signals, and blocks them in the calling thread and in all that
 * it starts, except SIGPIPE and those that a fault raises. Call at the start of main. Does nothing if the
 * thread cannot be started. */
void thread_receive_signals(void);

/* Whether a thread competes for its CPU: how long it was ready to run and did not, as the kernel counts it
 * (/proc/thread-self/schedstat). On a quiet machine that is below a tenth of the time, beside one busy process
 * about half. Without such a file, no thread ever competes. */
typedef struct contention {
    int fd;
    int64_t waited_nsec;
    double since_sec;
    int n_calm;
    bool competes;
} contention_t;

/* Watches the calling thread. Any thread may then update it. */
void contention_open(contention_t *c);
void contention_close(contention_t *c);

/* Judges the time since the last call; the calls should be about 50 ms apart. True from the first interval of
 * which the thread waited for more than a fifth, until ten in sequence with less than a tenth. */
bool contention_update(contention_t *c);

/* The share of the time since it was opened or last updated that the thread waited for a CPU. */
double contention_share(const contention_t *c);

enum { PROCESS_NAME_MAX = 32 };

/* What /proc/PID/stat shows of a process. */
typedef struct process {
    int pid, parent, cpu; /* cpu: the one it last ran on */
    char state;           /* as in ps: R, S, D, T, Z, … */
    char name[PROCESS_NAME_MAX];
    int64_t ticks;   /* CPU time so far */
    int64_t started; /* ticks after the boot */
} process_t;

/* Parses the text of a stat file; false if it is malformed. */
bool process_parse(const char *text, process_t *out);

/* Reads PROC/PID/stat; false if the process is gone or hidden.
 *
 *   proc  "/proc", or another folder for tests */
bool process_read(const char *proc, long pid, process_t *out);

/* Whether the kernel lets the processes of a job read and write each other's memory (process_vm_readv). */
typedef struct peer_memory {
    bool refused;
    const char *cause, *advice; /* of a refusal: a few words; what to do */
} peer_memory_t;

/* Tried once, by two short-lived calls in a child process; not refused if that cannot be tried. Call it first before
 * MPI_Init, which does not like forks. */
const peer_memory_t *peer_memory(void);

/* A write to a socket whose other end has gone returns EPIPE, as one to a pipe does, but for stdout and stderr: when
 * their reader has gone, SIGPIPE still ends the process. Open MPI writes to ranks of other hosts, one of which may
 * have been killed, and this one is not to be taken for the one that failed. */
void process_survive_lost_peers(void);

/* Shared libraries are loaded on first use, so that the program also starts on machines without them. */

/* The value of a macro as a literal, for names with versions: "libfoo.so." DL_TEXT(FOO_MAJOR). */
#define DL_TEXT(macro)  DL_TEXT_(macro)
#define DL_TEXT_(value) #value

typedef struct dl_function {
    const char *name;
    void *pointer; /* address of the function pointer to set */
} dl_function_t;

/* Resolves n functions. If the process already has them (linked in, or a test's stand-in), uses those.
 *
 *   names  libraries to try, NULL-terminated; the first that opens is used
 *   hint   ends the error message: what the user can do
 *
 * ERR_SYSTEM naming library and reason. */
err_t dl_load(const char *const *names, const dl_function_t *functions, int n, const char *hint);

#endif
