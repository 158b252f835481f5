/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Buckets of gradients: their size, and when each is sent, recorded by a stand-in for a library. No device. */
#include <inttypes.h>
#include <string.h>

#include "cluster/comm/gradients.h"
#include "cluster/session/runtime.h"
#include "tests/tap.h"
#include "train/learn/gradient_sums.h"

enum { N_MAX = 1000, MAX_CALLS = 64, MIB = 1 << 20 };

/* The sums that a step has started so far. */
static struct {
    int n_sums[N_MAX]; /* of each float */
    bool final[N_MAX];
    int64_t counts[MAX_CALLS];
    int n_calls, n_finished;
    bool too_soon, fails;
} seen;

static err_t buffer_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    (void)comm, (void)buffer;
    if (seen.fails) RAISE(ERR_PEER, "a peer has gone");
    for (int64_t i = offset; i < offset + count; i++) {
        seen.n_sums[i]++;
        seen.too_soon |= !seen.final[i];
    }
    seen.counts[seen.n_calls++ % MAX_CALLS] = count;
    return ERR_OK;
}

static err_t buffer_finish(comm_t *comm, comm_buffer_t *buffer)
{
    (void)comm, (void)buffer;
    seen.n_finished++;
    return ERR_OK;
}

static const gradient_ops_t ops = {
    .on_device = true, .buffer_begin = buffer_begin, .buffer_finish = buffer_finish};
static comm_t two_ranks = {.rank = 0, .size = 2, .gradients = &ops};
static char device[4]; /* only its address */
static comm_buffer_t buffer = {.ops = &ops, .device = device};

static bucket_t buckets_of(int64_t n_min, int64_t n)
{
    buffer.n_bytes = (size_t)n * sizeof(float);
    return (bucket_t){.comm = &two_ranks, .buffer = &buffer, .n_min = n_min};
}

/* A step whose backward pass gives layers of these sizes (ended by 0), and n_tail more floats at its end. */
static err_t step(bucket_t *bucket, const int64_t *layers, int64_t n_tail)
{
    int64_t n = 0;
    memset(&seen, 0, sizeof seen);
    for (; *layers; n += *layers++) {
        for (int64_t i = n; i < n + *layers; i++) seen.final[i] = true;
        TRY(bucket_ready(bucket, n, *layers));
    }
    for (int64_t i = n; i < n + n_tail; i++) seen.final[i] = true;
    return bucket_finish(bucket, n + n_tail);
}

/* Every float was summed once and not before it was final, in buckets of these sizes (ended by 0). */
static bool summed(int64_t n, const int64_t *sizes)
{
    bool right = !seen.too_soon && seen.n_finished == 1;
    int n_calls = 0;
    for (; sizes[n_calls]; n_calls++) right = right && seen.counts[n_calls] == sizes[n_calls];
    right = right && seen.n_calls == n_calls;
    for (int64_t i = 0; i < N_MAX; i++) right = right && seen.n_sums[i] == (i < n);
    for (int i = 0; !right && i < seen.n_calls; i++)
        printf("# bucket %d has %" PRId64 " floats\n", i, seen.counts[i]);
    return right;
}

#define SIZES(...) ((const int64_t[]){__VA_ARGS__, 0})

static void test_order(void)
{
    bucket_t b = buckets_of(100, 305);
    OK(step(&b, SIZES(40, 60, 150, 10, 40), 5) == ERR_OK && summed(305, SIZES(100, 150, 55)),
       "full buckets begin at once, what is left with the tail at the end");
    OK(step(&b, SIZES(40, 60, 150, 10, 40), 5) == ERR_OK && summed(305, SIZES(100, 150, 55)),
       "the next step begins anew");
    b = buckets_of(100, 205);
    OK(step(&b, SIZES(99, 1, 99, 1), 5) == ERR_OK && summed(205, SIZES(100, 100, 5)),
       "the tail alone where the last layer filled a bucket");
    b = buckets_of(100, 200);
    OK(step(&b, SIZES(100, 100), 0) == ERR_OK && summed(200, SIZES(100, 100)),
       "nothing left: no empty bucket");
    b = buckets_of(1, 60);
    OK(step(&b, SIZES(10, 20, 30), 0) == ERR_OK && summed(60, SIZES(10, 20, 30)), "a bucket for each layer");
    b = buckets_of(5000, 65);
    OK(step(&b, SIZES(10, 20, 30), 5) == ERR_OK && summed(65, SIZES(65)), "one bucket for all");
    b = buckets_of(100, 905);
    OK(step(&b, SIZES(900), 5) == ERR_OK && summed(905, SIZES(900, 5)),
       "a layer larger than a bucket is not cut");
    b = buckets_of(100, 305);
    OK(step(&b, SIZES(0), 305) == ERR_OK && summed(305, SIZES(305)), "without overlap: all at the end");
    b = buckets_of(100, 405);
    b.whole = true;
    OK(step(&b, SIZES(40, 180, 70, 50, 40), 25) == ERR_OK && summed(405, SIZES(200, 100, 105)),
       "whole buckets, several of a large layer at once");
    OK(step(&b, SIZES(99, 1), 0) == ERR_OK && summed(100, SIZES(100)), "whole buckets, and nothing left");
}

/* When each sum begins. */
static void test_overlap(void)
{
    bucket_t b = buckets_of(100, 250);
    memset(&seen, 0, sizeof seen);
    bool right = bucket_ready(&b, 0, 99) == ERR_OK && seen.n_calls == 0;
    right = right && bucket_ready(&b, 99, 1) == ERR_OK && seen.n_calls == 1;
    right = right && bucket_ready(&b, 100, 50) == ERR_OK && seen.n_calls == 1;
    right = right && bucket_ready(&b, 150, 100) == ERR_OK && seen.n_calls == 2 && seen.n_finished == 0;
    OK(right, "a sum begins with the layer that fills its bucket");
    OK(bucket_finish(&b, 250) == ERR_OK && seen.n_calls == 2 && seen.n_finished == 1,
       "and all are waited for at the end");
    seen.fails = true;
    OK(bucket_ready(&b, 0, 100) == ERR_PEER && strcmp(err_message(), "a peer has gone") == 0,
       "a sum that cannot begin is backward's error");
}

/* --bucket as a user writes it, in floats; -1: refused. */
static int64_t floats_of(const char *text, int64_t n_gradients)
{
    runtime_options_t values;
    opt_group_t group = {"GPU", gpu_option_table, n_gpu_options, &values, 0};
    char word[64];
    char *argv[] = {word};
    snprintf(word, sizeof word, "--bucket=%s", text);
    if (opt_defaults(&group, 1) != ERR_OK ||
        (*text && opt_parse(&group, 1, 1, argv, NULL, 0, NULL) != ERR_OK))
        return -1;
    return bucket_floats(values.bucket, n_gradients);
}

static void test_sizes(void)
{
    const int64_t mib = MIB / (int64_t)sizeof(float);
    OK(bucket_floats(4, 100) == 1 && bucket_floats(5, 100) == 2 && bucket_floats(8, 100) == 2,
       "bytes become floats, rounded up");
    OK(bucket_floats(0, 0) == mib && bucket_floats(0, 4 * mib) == mib, "auto: at least 1 MiB");
    OK(bucket_floats(0, 4 * mib + 4) == mib + 1 && bucket_floats(0, 40 * mib) == 10 * mib,
       "… a quarter of the gradients");
    OK(bucket_floats(0, 128 * mib) == 32 * mib && bucket_floats(0, (int64_t)1 << 40) == 32 * mib,
       "… at most 32 MiB");
    OK(floats_of("", 40 * mib) == 10 * mib && floats_of("auto", 40 * mib) == 10 * mib,
       "--bucket auto, which is the default");
    OK(floats_of("1M", 40 * mib) == mib && floats_of("128M", 40 * mib) == 128 * mib, "--bucket 1M and 128M");
    OK(floats_of("1023K", 40 * mib) == -1 && floats_of("129M", 40 * mib) == -1 &&
           floats_of("0", 40 * mib) == -1,
       "less, more and 0 are refused");
}

int main(void)
{
    tap_plan(20);
    test_sizes();
    test_order();
    test_overlap();
    return tap_done();
}
