/* SPDX-License-Identifier: MIT */
/* Deadlines of what the watchdog (cluster/watch/watchdog.h) does not time: the start, MPI_Init, MPI_Finalize,
 * the exit, and calls on a disk. On expiry a message names the rank, its host, and where /proc shows it the
 * ranks of the host that hold it up; then the job ends with ERR_PEER. And once a process has decided to
 * leave, nothing can keep it. Beside them, what a rank was last doing, for who finds it killed. Not collective. */
#ifndef CLUSTER_WATCH_DEADLINE_H
#define CLUSTER_WATCH_DEADLINE_H

#include <stdbool.h>

#include "base/err.h"

/* Stages of a process under a launcher, in order. The process shows its stage to the other ranks of its host
 * as the name of a thread. RUN is not timed. */
typedef enum deadline_stage {
    DEADLINE_START,
    DEADLINE_INIT,
    DEADLINE_RUN,
    DEADLINE_FINALIZE,
    DEADLINE_EXIT,
    DEADLINE_N_STAGES,
} deadline_stage_t;

/* Enough for the last message and MPI_Abort. */
#define DEADLINE_LEAVE_SEC 5.0

/* The first call of main, in the stage START. Without a thread for it, no other function has an effect.
 *
 *   abort_job  ends the job; called after the message, from a thread of its own */
void deadline_open(void (*abort_job)(err_t code));

/* Sets the deadline of later waits (--timeout). Until then it is 300 s. START and INIT have a tenth less, but
 * at least 20 s, because processes start at different times; or what DPTRAIN_TIMEOUT_START says. */
void deadline_set(double sec);

/* Enters a stage. Without a launcher, stages are not timed.
 *
 *   note  appended to the message; a constant string, may be "" */
void deadline_enter(deadline_stage_t stage, const char *note);

/* Bracket a call that should take a moment and may never return, with or without a launcher. Main thread
 * only, not nested.
 *
 *   what       names the call; valid until deadline_end
 *   may_speak  false: another rank reports, and this one leaves silently */
void deadline_begin(const char *what, bool (*may_speak)(void));
void deadline_end(void);

/* The decision to leave: after `sec` at the latest, the process ends with `code` by _exit, whatever its
 * threads are doing. Of several calls the first code and the earliest end count. */
void deadline_leave(err_t code, double sec);

/* Whether the process stood still, as by SIGSTOP, for half of the deadline before MPI had begun: the others may
 * wait for it. Its last phase (below) says so, where run.sh finds it. The deadline's thread checks this at
 * intervals; mpirun continues a stopped rank only to end it, so check before the process ends by a signal.
 * deadline_stood_still is async-signal-safe. */
void deadline_check_stopped(void);
bool deadline_stood_still(void);

/* As deadline_leave within the deadline, under a launcher: for the handlers of exit. */
void deadline_exit(err_t code);

/* What this rank was last doing, kept outside the process: scripts/run.sh reads it after a rank was killed. A rank that
 * run.sh started has a page in /dev/shm, dptrain-JOB.RANK (JOB from DPTRAIN_JOB); a note costs a copy of a few bytes.
 * Without run.sh nothing happens.
 *
 *   last_phase_open   creates the page; failures are ignored, as it only serves a message
 *   last_phase_close  removes it: this rank ends knowingly. Async-signal-safe */
enum { LAST_PHASE_TEXT = 64 };
void last_phase_open(void);
void last_phase_close(void);
void last_phase_note(const char *text);

#endif
