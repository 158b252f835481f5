#include "train/schedule.h"

#include <math.h>

static double cosine(const schedule_t *s, int64_t step)
{
    int64_t length = s->n_steps - s->warmup_steps;
    double t = length > 0 ? (double)(step - s->warmup_steps) / (double)length : 0;
    return 0.5 * (1 + cos(3.14159265358979323846 * (t < 1 ? t : 1)));
}

double schedule_rate(const schedule_t *s, int64_t step)
{
    if (step < s->warmup_steps) return s->base * (double)(step + 1) / (double)s->warmup_steps;
    switch (s->kind) {
    case SCHEDULE_CONSTANT:
        return s->base;
    case SCHEDULE_STEP:
        return s->base * pow(s->gamma, (double)(step / s->step_every));
    case SCHEDULE_COSINE:
        return s->base * cosine(s, step);
    }
    return s->base;
}
