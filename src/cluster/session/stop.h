/* SPDX-License-Identifier: MIT */
/* Signals that ask for an orderly end. In training that is SIGUSR1: checkpoint at the next agreed step, then
 * finish with exit code 0. Other signals keep their default effect: SIGTERM ends the process at once. */
#ifndef CLUSTER_SESSION_STOP_H
#define CLUSTER_SESSION_STOP_H

#include <stdbool.h>

void stop_catch(int signal);
/* Whether a caught signal has arrived. */
bool stop_requested(void);

#endif
