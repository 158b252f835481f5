/* SPDX-License-Identifier: MIT */
/* The kinds of records. */
#include "records/tables.h"

const record_row_t record_kinds[N_RECORD_KINDS] = {
    [RECORD_RUN] = {"run", record_run},
    [RECORD_STEP] = {"step", record_step, {"step_of_classifier", "step_of_detector"}},
    [RECORD_EPOCH] = {"epoch", record_epoch, {"epoch_of_classifier", "epoch_of_detector"}},
    [RECORD_EVALUATION] = {"evaluation",
                           record_evaluation,
                           {"evaluation_of_classifier", "evaluation_of_detector"}},
    [RECORD_CHECKPOINT] = {"checkpoint", record_checkpoint},
    [RECORD_STRAGGLER] = {"straggler", record_straggler},
    [RECORD_RESUME] = {"resume", record_resume},
    [RECORD_REPLICAS] = {"replicas", record_replicas},
    [RECORD_PROFILE] = {"profile", record_profile},
    [RECORD_END] = {"end", record_end},
    [RECORD_BENCH_RUN] = {"bench_run", record_bench_run},
    [RECORD_BENCH] = {"bench", record_bench, {"bench_untimed", "bench_timed"}, record_check_times},
    [RECORD_BENCH_END] = {"bench_end", record_bench_end},
    [RECORD_JOB_START] = {"job_start", record_job_start},
    [RECORD_JOB_CONTINUE] = {"job_continue", record_job_continue},
    [RECORD_JOB_RANKS] = {"job_ranks", record_job_ranks},
    [RECORD_JOB_TRAINING] = {"job_training", record_job_training},
    [RECORD_JOB_FAULT] = {"job_fault", record_job_fault},
    [RECORD_JOB_LEFT_OUT] = {"job_left_out", record_job_left_out},
    [RECORD_JOB_WAIT] = {"job_wait", record_job_wait},
    [RECORD_JOB_END] = {"job_end", record_job_end},
    [RECORD_EVAL] = {"eval", record_eval},
    [RECORD_PREDICTION] = {"prediction", record_prediction},
    [RECORD_CHECK] = {"check", record_check_result},
    [RECORD_COMPARISON] = {"comparison", record_comparison},
    [RECORD_HISTORY] = {"history", record_history},
};
