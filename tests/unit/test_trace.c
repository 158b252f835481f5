/* SPDX-License-Identifier: MIT */
/* The recorder of --trace: tracks, limits, and its cost when off. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/tap.h"

static void add(trace_track_t track, const char *name, double start, double end, int64_t step)
{
    trace_add(track, &(trace_span_t){name, "phase", start, end, step, 0});
}

static int64_t count(trace_track_t track)
{
    int64_t n;
    trace_spans(track, &n);
    return n;
}

static void test_off(void)
{
    int64_t n_blocks = mem_count(), step;
    OK(!trace_wants(0), "off: no step is wanted");
    add(TRACE_TRAINING, "step", 1, 2, 0);
    OK(count(TRACE_TRAINING) == 0 && trace_dropped(TRACE_TRAINING, &step) == 0, "off: nothing is kept");
    trace_sort(TRACE_TRAINING);
    trace_close();
    OK(mem_count() == n_blocks, "off: nothing is allocated");
}

static void test_tracks(void)
{
    const int64_t capacity[TRACE_N_TRACKS] = {8, 4, 0};
    int64_t n, step;
    OK_CALL(trace_open(capacity, 3), "open");
    int64_t n_blocks = mem_count();
    OK(trace_wants(2) && !trace_wants(3), "steps before the last are wanted");
    trace_add(TRACE_TRAINING, &(trace_span_t){"allreduce", "phase", 1.5, 2.5, 2, 4096});
    add(TRACE_LOADER, "fill", 0.5, 0.75, 1);
    add(TRACE_LOADER, "fill", 1.5, 1.75, 3);
    const trace_span_t *spans = trace_spans(TRACE_TRAINING, &n);
    OK(n == 1 && strcmp(spans[0].name, "allreduce") == 0 && spans[0].step == 2 && spans[0].n_bytes == 4096,
       "a span comes back as it was added");
    OK(spans[0].start_sec == 1.5 && spans[0].end_sec == 2.5, "with its times");
    spans = trace_spans(TRACE_LOADER, &n);
    OK(n == 1 && spans[0].step == 1, "another track has its own, and none of a step that is not wanted");
    OK(trace_dropped(TRACE_LOADER, &step) == 0, "which is not called dropped");
    add(TRACE_CHECKPOINT, "copy", 0, 1, 0);
    OK(count(TRACE_CHECKPOINT) == 0 && trace_dropped(TRACE_CHECKPOINT, &step) == 1 && step == 0,
       "a track without room drops");
    OK(mem_count() == n_blocks, "adding allocates nothing");
    trace_close();
    OK(count(TRACE_TRAINING) == 0 && !trace_wants(0), "closed: off again");
}

static void test_full(void)
{
    const int64_t capacity[TRACE_N_TRACKS] = {3, 0, 0};
    int64_t n, step;
    OK_CALL(trace_open(capacity, INT64_MAX), "open");
    for (int i = 0; i < 5; i++) add(TRACE_TRAINING, "step", i, i + 1, 10 + i);
    const trace_span_t *spans = trace_spans(TRACE_TRAINING, &n);
    OK(n == 3 && spans[2].step == 12, "a full track keeps what it has");
    OK(trace_dropped(TRACE_TRAINING, &step) == 2 && step == 13, "and counts the rest from the first step on");
    trace_close();
    OK_CALL(trace_open(capacity, INT64_MAX), "open again");
    OK(count(TRACE_TRAINING) == 0 && trace_dropped(TRACE_TRAINING, &step) == 0, "it starts empty");
    trace_close();
}

static void test_sort(void)
{
    const int64_t capacity[TRACE_N_TRACKS] = {4, 0, 0};
    int64_t n;
    OK_CALL(trace_open(capacity, 9), "open");
    add(TRACE_TRAINING, "conv1", 1, 2, 0);
    add(TRACE_TRAINING, "relu1", 2, 3, 0);
    add(TRACE_TRAINING, "forward", 1, 4, 0);
    add(TRACE_TRAINING, "step", 0, 5, 0);
    trace_sort(TRACE_TRAINING);
    static const char *const wanted[] = {"step", "forward", "conv1", "relu1"};
    const trace_span_t *spans = trace_spans(TRACE_TRAINING, &n);
    bool right = n == 4;
    for (int i = 0; right && i < 4; i++) right = strcmp(spans[i].name, wanted[i]) == 0;
    OK(right, "sorted: by start, a span before those inside it");
    trace_close();
}

int main(void)
{
    tap_plan(20);
    test_off();
    test_tracks();
    test_full();
    test_sort();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
