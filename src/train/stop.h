/* SIGUSR1: checkpoint at the next agreed step, then finish with exit code 0. Other signals keep their default
 * effect: SIGTERM leaves at once. */
#ifndef TRAIN_STOP_H
#define TRAIN_STOP_H

#include <stdbool.h>

void stop_install(void);
bool stop_requested(void);

#endif
