/* Learning-rate schedules: a pure function of the step. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdint.h>

typedef enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_STEP, SCHEDULE_COSINE } schedule_kind_t;

typedef struct schedule {
    schedule_kind_t kind;
    double base;           /* learning rate after warm-up */
    int64_t n_steps;       /* of the whole run */
    int64_t warmup_steps;  /* linear from base / warmup_steps up to base; 0: none */
    int64_t step_every;    /* SCHEDULE_STEP: multiply by gamma after every so many steps */
    double gamma;
} schedule_t;

/* Rate of step 0, 1, …. Cosine: base · ½(1 + cos(π·t)), t from 0 at the end of warm-up to 1 at n_steps
 * (Loshchilov & Hutter 2017, without restarts). */
double schedule_rate(const schedule_t *schedule, int64_t step);

#endif
