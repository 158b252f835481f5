/* SPDX-License-Identifier: MIT */
/* Denormal numbers, in which a velocity or a gradient that dies away spends its last hundred halvings, cost
 * x86 an assist of 150 cycles each: the optimizer took ten times as long once enough weights had stopped
 * moving. */
#ifndef BASE_DENORMALS_H
#define BASE_DENORMALS_H

/* From now on they count as 0, read or computed, in this thread and in those that it starts (as TensorFlow
 * does in its threads). Nothing where the processor has no such switch. */
void denormals_flush(void);

#endif
