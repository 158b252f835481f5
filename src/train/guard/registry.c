/* SPDX-License-Identifier: MIT */
/* The guests of a run in the order in which they are called. A step is on record, and counted, before a signal may save
 * its position (interruption); then the user is told, and ranks are compared; the end record sums up what came before it. */
#include "train/guard/guard.h"

extern const guest_t bad_images_guest, checkpoint_interval_guest, compare_files_guest, end_record_guest,
    interruption_guest, keep_best_guest, patience_guest, profile_guest, records_guest, replicas_guest,
    resume_check_guest, status_guest, stop_guest, stragglers_guest, target_guest, tensorboard_guest,
    telemetry_guest, time_limit_guest;

const guest_t *const guest_registry[] = {
    &resume_check_guest,
    &records_guest,
    &tensorboard_guest,
    &telemetry_guest,
    &interruption_guest,
    &bad_images_guest,
    &replicas_guest,
    &stragglers_guest,
    &checkpoint_interval_guest,
    &compare_files_guest,
    &end_record_guest,
    &keep_best_guest,
    &profile_guest,
    &status_guest,
    &time_limit_guest,
    &stop_guest,
    &target_guest,
    &patience_guest,
    NULL,
};
