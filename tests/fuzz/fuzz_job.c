/* SPDX-License-Identifier: MIT */
/* The records in a supervised job's folder: the input is its job.jsonl and its metrics.jsonl. */
#include <string.h>

#include "launch/job.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static char folder[64];
    static job_t *job;
    char path[128];
    life_t life;
    life_seen_t seen;
    life_steps_t steps;
    if (!job) {
        snprintf(folder, sizeof folder, "/dev/shm/fuzz.XXXXXX");
        MUST(mkdtemp(folder));
        MUST(mem_new(sizeof *job, "a job", &job) == ERR_OK);
        job->speaker = "fuzz:";
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "metrics.jsonl" : "job.jsonl");
        FILE *file = fopen(path, "we");
        MUST(file && fwrite(data, 1, n, file) == n && fclose(file) == 0);
    }
    const err_t err = life_open(job, folder, &life);
    MUST(err == ERR_OK || err == ERR_DATA || err == ERR_USAGE);
    if (err == ERR_OK && life.begun.is_open) {
        MUST(life.begun.metrics_bytes >= 0 && life.begun.n_starts >= 0 && life.begun.down_sec >= 0);
        MUST(strlen(life.begun.id) < sizeof life.begun.id);
    }
    life_look(&life, 0, &seen);
    MUST(seen.last_step >= -1 && seen.last_step < (int64_t)1e15);
    life_count(&life, 0, 3, &steps);
    MUST(steps.n_good >= 0 && steps.n_lost >= 0 && steps.good_sec >= 0 && steps.lost_sec >= -1e-6);
    MUST(life_size(&life) <= (int64_t)n);
    life_close(&life, true);
    arena_reset(&job->start);
    return 0;
}
