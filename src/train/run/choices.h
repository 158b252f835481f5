/* SPDX-License-Identifier: MIT */
/* What a start chose for the whole run: train/start/choose.h. */
#ifndef TRAIN_RUN_CHOICES_H
#define TRAIN_RUN_CHOICES_H

#include "compute/graph/algorithms.h"

typedef struct algorithm_choice {
    algorithms_t table; /* empty: the backend's own rule */
    char *text;         /* the table as text, for the checkpoint */
    char from[16];      /* "fixed", "file", "checkpoint", "cache", "measured", "rule" */
    char about[128];    /* for the console: "algorithms measured (3.1 s)" */
    char libraries[96]; /* that were loaded for some of them, on rank 0: "cuDNN 9.19.0", or "" */
    double measure_sec;
    int n_by_rule; /* choices left to the backend's rule because time ran out */
} algorithm_choice_t;

typedef struct thread_choice {
    /* "option", "fixed" (--reproducible), "checkpoint", "share", "measured", "cache" */
    char from[16];
    double measure_sec;
    bool calm; /* measured without other processes, and so cached */
} thread_choice_t;

#endif
