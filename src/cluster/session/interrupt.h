/* SPDX-License-Identifier: MIT */
/* SIGINT, SIGTERM and SIGHUP end the process after the caller's last acts, within a time limit. The signal
 * then has its default effect, so that the exit status names it. Signals that are ignored at the start stay
 * ignored, as under nohup. Not collective: nothing here waits for other ranks. */
#ifndef CLUSTER_SESSION_INTERRUPT_H
#define CLUSTER_SESSION_INTERRUPT_H

#include <stdbool.h>

#include "base/err.h"

/* The last acts, on a thread that blocks all signals.
 *
 *   number    the signal
 *   end_sec   the limit, by clock_sec; the process ends then at the latest */
typedef void (*interrupt_act_t)(int number, double end_sec);

/* Catches the three signals. A second one ends the process at once, unless it follows so closely that a
 * launcher sent both.
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
