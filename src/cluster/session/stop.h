/* SPDX-License-Identifier: MIT */
/* Signals that request an orderly end: in training SIGUSR1, which writes a checkpoint at the next agreed
 * step and ends with exit code 0. Signals that end the process: cluster/session/interrupt.h. */
#ifndef CLUSTER_SESSION_STOP_H
#define CLUSTER_SESSION_STOP_H

#include <stdbool.h>

void stop_catch(int signal);
/* Whether a caught signal has arrived, or stop_request was called. */
bool stop_requested(void);

/* How SIGUSR1 came about: "stopped by SIGINT" where run.sh got that signal. It leaves the name in the file
 * $DPTRAIN_ASKED before it sends SIGUSR1; "stopped on request" where that file is not on this host. */
const char *stop_words(void);

/* From any thread: the same request, without a signal; whether stop_requested has told of the request. */
void stop_request(void);
bool stop_was_noticed(void);

#endif
