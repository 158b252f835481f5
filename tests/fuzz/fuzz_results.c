/* SPDX-License-Identifier: MIT */
/* Results in COCO's format, and the scores of those that were read. */
#include <string.h>

#include "base/mem.h"
#include "data/score/score.h"
#include "tests/fuzz/fuzz.h"

static const char annotations[] =
    "{\"images\":[{\"id\":7,\"file_name\":\"a\",\"width\":4,\"height\":3}],\"categories\":[{\"id\":1,\"name\":\"a\"}],"
    "\"annotations\":[{\"id\":1,\"image_id\":7,\"category_id\":1,\"area\":6,\"bbox\":[0,0,2,3],"
    "\"segmentation\":{\"size\":[3,4],\"counts\":[2,4,6]}},"
    "{\"id\":2,\"image_id\":7,\"category_id\":1,\"area\":6,\"bbox\":[1,0,3,3],\"iscrowd\":1,"
    "\"segmentation\":{\"size\":[3,4],\"counts\":[4,3,0,2,3]}}]}";

static truths_t *make_truths(void)
{
    truths_t *truths = NULL;
    const char *path = fuzz_file((const uint8_t *)annotations, sizeof annotations - 1);
    MUST(truths_read(path, SPLIT_VAL, NULL, &truths) == ERR_OK);
    return truths;
}

static void score(const results_t *results, const truths_t *truths)
{
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT; type++) {
        score_t *score = NULL;
        if (!results->has[type]) continue;
        MUST(score_results(results, truths, type, NULL, &score) == ERR_OK);
        for (int i = 0; i < SCORE_NUMBERS; i++)
            MUST(score->numbers[i] >= -1 && score->numbers[i] <= 1 + 1e-9);
        score_free(&score);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static truths_t *truths;
    static int64_t n_live;
    if (!truths) {
        truths = make_truths();
        n_live = mem_live();
    }
    results_t *results = NULL;
    err_t err = results_read(fuzz_file(data, n), truths, SCORE_TYPE_COUNT, NULL, &results);
    MUST((err == ERR_OK && results) || (err == ERR_DATA && !results));
    if (results) score(results, truths);
    results_free(&results);
    MUST(mem_live() == n_live);
    return 0;
}
