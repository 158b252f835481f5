/* SPDX-License-Identifier: MIT */
/* The stages of base/deadline.h. */
#ifndef BASE_DEADLINE_STAGE_H
#define BASE_DEADLINE_STAGE_H

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

#endif
