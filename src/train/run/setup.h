/* SPDX-License-Identifier: MIT */
/* The parts of trainer_setup. What can be refused cheaply comes first, then the header, then what takes
 * time. Internal to train/run. Collective, in this order, unless stated otherwise. */
#ifndef TRAIN_RUN_SETUP_H
#define TRAIN_RUN_SETUP_H

#include "train/run/choose_algorithms.h"
#include "train/run/trainer.h"

/* Opens the data on all ranks, compares it, and decodes images of each kind on rank 0. */
err_t train_open_input(comm_t *comm, const train_options_t *options, train_input_t *input);

/* A run calls these in this order. A trial (train/run/trial.h) calls only those marked with *.
 *
 *   train_own_folder       creates the output folder; waits for a job that may be dead, refuses a living one
 *   trainer_build *        data, steps, model
 *   trainer_restore        see trainer.h
 *   trainer_check_out      refuses an earlier run and what cannot be written; deletes nothing
 *   trainer_set_threads    the number of threads, possibly measured
 *   trainer_prepare *      gradient buffers, recorded steps
 *   trainer_print_header   everything that is known before algorithms are measured
 *   trainer_plan *         algorithms; the executor. measure_sec: algorithm_request_t's
 *   trainer_open_out       clears an earlier run (--overwrite); opens metrics, events, checkpoint writer
 *   trainer_begin *        with the final weights, the rest of what a step needs
 *   trainer_print_plan     the rest of the header; not collective */
err_t train_own_folder(comm_t *comm, train_output_t *output);
/* Parts of trainer_build; not collective. */
err_t trainer_plan_steps(trainer_t *t);
err_t trainer_build_graph(trainer_t *t);
/* Refuses a model or data that do not fit this run; the rest of what the task chooses. */
err_t trainer_check_model(trainer_t *t);
err_t trainer_build(trainer_t *t);
err_t trainer_check_out(trainer_t *t);
err_t trainer_set_threads(trainer_t *t);
err_t trainer_prepare(trainer_t *t);
err_t trainer_print_header(trainer_t *t);
/* Its lines about the data; not collective. */
void trainer_print_data(const trainer_t *t);
err_t trainer_plan(trainer_t *t, const double *measure_sec);
err_t trainer_open_out(trainer_t *t);
err_t trainer_begin(trainer_t *t);
void trainer_print_plan(const trainer_t *t);

/* What opens the run's loader at its position. */
loader_options_t trainer_loader_options(trainer_t *t);

/* --preview, in place of trainer_setup and trainer_loop: draws the first training samples. preview.c.
 *
 * ERR_SYSTEM, before data is opened: the file cannot be written. */
err_t trainer_preview(trainer_t *t);

/* Sets output->folder. Rank 0 only, not collective. */
err_t train_choose_folder(const train_options_t *options, train_output_t *output);

/* Gives the folder up; after a failed set-up also removes it if train_own_folder created it and it is empty.
 * Not collective. */
void train_leave_folder(const train_output_t *output, bool failed);

#endif
