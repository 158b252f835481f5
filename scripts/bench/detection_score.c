/* SPDX-License-Identifier: MIT */
/* Scores results for scripts/bench/detection.sh: detection_score ANNOTATIONS RESULTS. Prints for each type of the
 * results: type, seconds of scoring, the peak of resident memory in KiB, AP, seconds since the start with
 * reading. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/score/score.h"
#include "scripts/bench/peak_memory.h"

static err_t score_file(const char *annotations, const char *path, double start_sec)
{
    truths_t *truths = NULL;
    results_t *results = NULL;
    score_t *score = NULL;
    err_t err;
    TRY_OUT(err, truths_read(annotations, SPLIT_VAL, NULL, &truths));
    TRY_OUT(err, results_read(path, truths, SCORE_TYPE_COUNT, NULL, &results));
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT; type++) {
        if (!results->has[type]) continue;
        double from_sec = clock_sec();
        TRY_OUT(err, score_results(results, truths, type, NULL, &score));
        double to_sec = clock_sec();
        printf("%s %.4f %ld %.17g %.4f\n", score_type_names[type], to_sec - from_sec, peak_kib(),
               score->numbers[0], to_sec - start_sec);
        score_free(&score);
    }
out:
    results_free(&results);
    truths_free(&truths);
    return err;
}

int main(int argc, char **argv)
{
    double start_sec = clock_sec();
    if (argc != 3) {
        log_error("usage: detection_score ANNOTATIONS RESULTS");
        return ERR_USAGE;
    }
    err_t err = score_file(argv[1], argv[2], start_sec);
    if (err != ERR_OK) log_error("%s", err_message());
    return (int)err;
}
