/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * What is said of waiting for images: when, which stage, and what is recorded. */
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/feed/input_stats.h"

static bool says(const input_stats_t *input_stats, const char *words)
{
    char text[INPUT_STATS_TEXT_MAX];
    input_stats_text(input_stats, text);
    bool found = words[0] ? strstr(text, words) != NULL : text[0] == '\0';
    if (!found) printf("# %s\n", text);
    return found && strlen(text) < INPUT_STATS_TEXT_MAX - 1;
}

static void test_text(void)
{
    /* Of 10 s of the threads: 1, 2, 3, 1 of waiting for a CPU, and so 3 of copying. */
    input_stats_t input_stats = {.wait_sec = 0.6, .step_sec = 10, .loader = {{1, 2, 3.1, 1}, 10}};
    OK(says(&input_stats, "6 % of step time was spent waiting for images"), "a wait of 6 %% is reported");
    OK(says(&input_stats,
            "31 % of their time resizing (%: reading 10, decoding 20, resizing 31, copying 29, waiting "
            "for a CPU 10)"),
       "with the stage that takes most, and all of them");
    OK(says(&input_stats, "dptrain data pack --resize"), "and what to do");
    input_stats.copy_sec = 10;
    OK(says(&input_stats, "copying (%: reading 5, decoding 10, resizing 16, copying 64"),
       "waiting for a GPU's copies is copying");
    input_stats.copy_sec = 0;
    input_stats.loader.part = (dataset_cost_t){7, 1, 1, 1};
    OK(says(&input_stats, "70 % of their time reading"), "reading");
    input_stats.loader.part = (dataset_cost_t){1, 7, 1, 1};
    OK(says(&input_stats, "70 % of their time decoding"), "decoding");
    input_stats.loader.part = (dataset_cost_t){1, 1, 1, 7};
    OK(says(&input_stats, "waiting for a CPU (%: reading") && says(&input_stats, "fewer --threads"),
       "too few CPUs");
    input_stats.wait_sec = 0.49;
    OK(says(&input_stats, ""), "less than 5 %% is not");
    input_stats = (input_stats_t){.wait_sec = 5, .step_sec = 10, .loader = {{0}, 10}};
    OK(says(&input_stats, ""), "nor is what nothing is known of: images in memory");
}

static void test_json(void)
{
    input_stats_t input_stats = {
        .wait_sec = 1, .step_sec = 10, .loader = {{1, 2, 3, 0.5}, 10}, .copy_sec = 2};
    json_t j = {0};
    json_object_begin(&j, NULL);
    input_stats_json(&input_stats, &j);
    json_object_end(&j);
    const char *text = j.text;
    OK(text && strstr(text, "\"data_wait_share\":0.1") && strstr(text, "\"load_read_sec\":1,") &&
           strstr(text, "\"load_resize_sec\":3,") && strstr(text, "\"load_copy_sec\":5.5") &&
           strstr(text, "\"load_busy_sec\":10"),
       "an epoch's record has all stages");
    json_free(&j);
}

int main(void)
{
    tap_plan(14);
    test_text();
    test_json();
    OK(input_stats_hidden_wait(0.2, 1, 0.9) < 0.11,
       "on a GPU that was busy for 0.9 of 1 s, at most 0.1 was waited");
    OK(input_stats_hidden_wait(0.05, 1, 0.9) < 0.051, "no more than fetching took");
    OK(!(input_stats_hidden_wait(0.2, 1, 1.01) > 0), "nothing where it was busy all the time");
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
