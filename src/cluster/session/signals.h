/* SPDX-License-Identifier: MIT */
/* Signals. Some request an orderly end (stop_catch): in training SIGUSR1, which writes a checkpoint at the next agreed step
 * and ends with exit code 0. SIGINT, SIGTERM and SIGHUP end the process after the caller's last acts, within a time limit
 * (interrupt_catch). Not collective: nothing here waits for other ranks. */
#ifndef CLUSTER_SESSION_SIGNALS_H
#define CLUSTER_SESSION_SIGNALS_H

#include <stdbool.h>

#include "base/err.h"

void stop_catch(int signal);
/* Whether a caught signal has arrived, or stop_request was called. */
bool stop_requested(void);

/* How SIGUSR1 came about: "stopped by SIGINT" where run.sh got that signal. It leaves the name in the file
 * $DPTRAIN_ASKED before it sends SIGUSR1; "stopped on request" where that file is not on this host. */
const char *stop_words(void);

/* From any thread: the same request, without a signal; whether stop_requested has told of the request. */
void stop_request(void);
bool stop_was_noticed(void);

/* ---- Signals that end the process ---- */
/* The last acts, on a thread that blocks all signals.
 *
 *   number    the signal
 *   end_sec   the limit, by clock_sec; the process ends then at the latest */
typedef void (*interrupt_act_t)(int number, double end_sec);

/* Catches the three signals. The process then ends by the signal's default effect, so that the exit status names it.
 * Signals that are ignored at the start stay ignored, as under nohup. A second one ends the process at once, unless it
 * follows so closely that a launcher sent both.
 *
 *   act        NULL: wait until the limit, while the other threads go on
 *   limit_sec  from the signal to the end of the process */
err_t interrupt_catch(interrupt_act_t act, double limit_sec);

/* Restores the effect of the signals. Does nothing without interrupt_catch. Does not return if a signal has
 * arrived: the process is ending. */
void interrupt_release(void);

bool interrupt_arrived(void);

/* Does not return if a signal has arrived. Call before ending the process for another reason. */
void interrupt_wait(void);

/* What to do if the acts exceed the limit.
 *
 *   text    printed on standard output; copied
 *   remove  a file to delete; NULL: none; copied */
void interrupt_on_limit(const char *text, const char *remove);

/* "SIGINT" */
const char *interrupt_name(int number);

#endif
