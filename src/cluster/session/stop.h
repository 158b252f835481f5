/* A signal that asks for an orderly end. In training that is SIGUSR1: checkpoint at the next agreed step,
 * then finish with exit code 0. Other signals keep their default effect: SIGTERM leaves at once. */
#ifndef CLUSTER_SESSION_STOP_H
#define CLUSTER_SESSION_STOP_H

#include <stdbool.h>

void stop_catch(int signal);
/* One of those caught has come. */
bool stop_requested(void);

#endif
