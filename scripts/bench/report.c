/* SPDX-License-Identifier: MIT */
/* Writes records of dptrain bench for scripts/bench/report.sh: report MB FILE. Runs of 100 points, each with
 * 100 to 2000 samples, as the program writes them; the same records on every machine. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/rng.h"
#include "text/json.h"

enum { POINTS = 100, MIN_SAMPLES = 100, MAX_SAMPLES = 2000 };

static double between(rng_t *rng, double low, double high)
{
    return low + (high - low) * ((double)rng_u32(rng) / 4294967296.0);
}

static void begin(json_t *j, const char *record)
{
    json_reset(j);
    json_object_begin(j, NULL);
    json_string(j, "record", record);
    json_int(j, "schema", 1);
}

static void write_head(json_t *j, const char *id)
{
    static const char *const parts[] = {"hardware", "fabric", "software"};
    begin(j, "bench_run");
    json_string(j, "id", id);
    json_string(j, "time", "2026-11-21T08:00:00Z");
    json_int(j, "ranks", 2);
    json_int(j, "threads", 1);
    json_object_begin(j, "options");
    json_object_end(j);
    json_object_begin(j, "fingerprint");
    json_string(j, "hardware_id", "1a");
    json_string(j, "fabric_id", "2b");
    json_string(j, "software_id", "3c");
    for (int i = 0; i < 3; i++) {
        json_object_begin(j, parts[i]);
        json_string(j, "name", "made for measuring the reader");
        json_object_end(j);
    }
    json_object_end(j);
    json_object_end(j);
}

static void write_times(json_t *j, rng_t *rng)
{
    double p50 = between(rng, 1e-6, 1e-2);
    int64_t n = (int64_t)between(rng, MIN_SAMPLES, MAX_SAMPLES);
    json_string(j, "unit", "s");
    json_string(j, "verdict", "ok");
    json_int(j, "n", n);
    json_int(j, "per_sample", 1);
    json_int(j, "n_disturbed", 0);
    json_string(j, "disturbances", "");
    json_real(j, "min", 0.97 * p50);
    json_real(j, "p50", p50);
    json_real(j, "p95", 1.05 * p50);
    json_real(j, "p99", 1.1 * p50);
    json_real(j, "max", 1.2 * p50);
    json_real(j, "mean", 1.01 * p50);
    json_real(j, "cv", 0.02);
    json_array_begin(j, "ci95");
    json_real(j, NULL, 0.998 * p50);
    json_real(j, NULL, 1.003 * p50);
    json_array_end(j);
    json_int(j, "slowest_rank", 1);
    json_real(j, "slowest_share", 0.75);
    json_array_begin(j, "samples");
    for (int64_t i = 0; i < n; i++)
        json_real(j, NULL, (double)(int64_t)(1e10 * between(rng, 0.97, 1.2) * p50) / 1e10);
    json_array_end(j);
}

static void write_point(json_t *j, const char *id, int number, rng_t *rng)
{
    begin(j, "bench");
    json_string(j, "run", id);
    json_string(j, "case", "comm");
    json_string(j, "test", number % 2 ? "all_reduce" : "broadcast");
    json_object_begin(j, "key");
    json_int(j, "bytes", 8LL << (number / 4));
    json_string(j, "datatype", "float");
    json_bool(j, "in_place", number / 2 % 2);
    json_object_end(j);
    json_object_begin(j, "metrics");
    json_real(j, "algbw_gbs", between(rng, 0, 10));
    json_real(j, "busbw_gbs", between(rng, 0, 10));
    json_int(j, "wrong", 0);
    json_object_end(j);
    write_times(j, rng);
    json_object_end(j);
}

static void write_end(json_t *j, const char *id)
{
    begin(j, "bench_end");
    json_string(j, "run", id);
    json_string(j, "reason", "finished");
    json_int(j, "n_points", POINTS);
    json_real(j, "seconds", 98.2);
    json_real(j, "recording_sec", 0.1);
    json_object_end(j);
}

int main(int argc, char **argv)
{
    json_t j = {0};
    rng_t rng = rng_new(1, RNG_TEST, 0);
    double n_written = 0;
    FILE *file = argc == 3 ? fopen(argv[2], "we") : NULL;
    if (!file) {
        log_error("usage: report MB FILE, which can be written");
        return ERR_USAGE;
    }
    for (int run = 0; n_written < 1e6 * atof(argv[1]); run++) {
        char id[20];
        snprintf(id, sizeof id, "%016x", run + 1);
        for (int i = -1; i <= POINTS; i++) {
            if (i < 0)
                write_head(&j, id);
            else if (i < POINTS)
                write_point(&j, id, i, &rng);
            else
                write_end(&j, id);
            if (j.status != ERR_OK || fprintf(file, "%s\n", j.text) < 0) break;
            n_written += (double)j.n_bytes + 1;
        }
    }
    int failed = ferror(file);
    json_free(&j);
    if (fclose(file) != 0 || failed) {
        log_error("cannot write %s", argv[2]);
        return ERR_SYSTEM;
    }
    return 0;
}
