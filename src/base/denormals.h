/* SPDX-License-Identifier: MIT */
/* Flushes denormal numbers to zero. Gradients and velocities that decay to zero pass through many denormals,
 * each of which costs x86 an assist of 150 cycles: without this the optimizer took ten times as long once
 * enough weights had stopped moving. */
#ifndef BASE_DENORMALS_H
#define BASE_DENORMALS_H

/* Treats denormal operands and results as 0, in this thread and in threads started by it. Does nothing on
 * processors without such a mode. */
void denormals_flush(void);

#endif
