/* SPDX-License-Identifier: MIT */
/* Sets up a trainer, in this order. A run (train.c) calls all, a trial, a replay and --preview what they need. Collective,
 * unless stated otherwise. */
#ifndef TRAIN_START_SETUP_H
#define TRAIN_START_SETUP_H

#include "train/run/trainer.h"

/* Rank 0 only, not collective. Sets output->folder. */
err_t train_choose_folder(const train_options_t *options, train_output_t *output);
/* Creates the output folder; waits for a job that may be dead, refuses a living one. */
err_t train_own_folder(comm_t *comm, train_output_t *output);
/* Not collective. Gives the folder up; after a failed set-up removes it if train_own_folder made it and it is empty. */
void train_leave_folder(const train_output_t *output, bool failed);

/* --resume: finds the checkpoint and inherits its options. */
err_t trainer_find_checkpoint(trainer_t *t);

/* Asks --weights what a detector's network has to be; before its data is opened, whose classes depend on it. */
err_t trainer_ask_weights(trainer_t *t);

/* Opens the data on all ranks, compares it, and decodes images of each kind on rank 0. */
err_t train_open_input(trainer_t *t);

/* Asks --weights, opens the input; steps, model, initial weights. */
err_t trainer_build(trainer_t *t);
/* Parts of it; not collective. trainer_check_model refuses a model or data that do not fit this run; the task chooses its
 * micro-batch. */
err_t trainer_plan_steps(trainer_t *t);
err_t trainer_build_graph(trainer_t *t);
err_t trainer_check_model(trainer_t *t);

/* Loads the checkpoint after checking its data and model; a new run imports --weights. */
err_t trainer_restore(trainer_t *t);

/* Refuses an earlier run in the output folder and what cannot be written; deletes nothing. */
err_t trainer_check_out(trainer_t *t);

/* The number of threads, possibly measured. */
err_t trainer_set_threads(trainer_t *t);

/* Gradient buffers, the plan of a step, recorded steps; the guests are chosen. */
err_t trainer_prepare(trainer_t *t);

/* Prints what is known before algorithms are measured. print_data: its lines about the data; not collective. */
err_t trainer_print_header(trainer_t *t);
void train_print_data(const train_options_t *options, const train_input_t *input, const task_run_t *run);

/* Algorithms, which may take long to measure, and the executor.
 *
 *   measure_sec  algorithm_request_t's */
err_t trainer_plan(trainer_t *t, const double *measure_sec);

/* Clears an earlier run (--overwrite); opens metrics, events, checkpoint writer. */
err_t trainer_open_out(trainer_t *t);

/* With the final weights, the rest of what a step needs. loader_options: of its loader, at the run's position; not
 * collective. */
err_t trainer_begin(trainer_t *t);
loader_options_t trainer_loader_options(trainer_t *t);

/* Not collective. Prints the rest of the header. timing: of sums of gradients. */
void train_print_plan(const train_model_t *model, const train_input_t *input, const task_run_t *run,
                      const comm_timing_t *timing);

/* Not collective. Writes the run record. */
err_t trainer_record_run(trainer_t *t);

/* Collective if `t` has a communicator; after any of the above failed, too. */
void trainer_teardown(trainer_t *t);

/* --preview, in place of a run: draws the first training samples. preview.c.
 *
 * ERR_SYSTEM, before data is opened: the file cannot be written. */
err_t trainer_preview(trainer_t *t);

/* A resumed run may be shorter than what is done. */
static inline int64_t train_steps_left(const train_steps_t *steps, const train_position_t *at)
{
    return steps->n > at->step ? steps->n - at->step : 0;
}

#endif
