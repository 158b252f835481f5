/* SPDX-License-Identifier: MIT */
/* Scores as tables and as JSON. */
#include <inttypes.h>

#include "base/figure.h"
#include "base/log.h"
#include "base/table.h"
#include "data/score/score.h"

const score_number_t score_numbers[SCORE_NUMBERS] = {
    {"AP", "0.50:0.95", "all", "100"},     {"AP50", "0.50", "all", "100"},
    {"AP75", "0.75", "all", "100"},        {"APs", "0.50:0.95", "small", "100"},
    {"APm", "0.50:0.95", "medium", "100"}, {"APl", "0.50:0.95", "large", "100"},
    {"AR1", "0.50:0.95", "all", "1"},      {"AR10", "0.50:0.95", "all", "10"},
    {"AR100", "0.50:0.95", "all", "100"},  {"ARs", "0.50:0.95", "small", "100"},
    {"ARm", "0.50:0.95", "medium", "100"}, {"ARl", "0.50:0.95", "large", "100"},
};

static void number_cell(table_t *t, double value)
{
    if (value < 0)
        table_cell(t, "-");
    else
        table_cell(t, "%.4f", value);
}

static void print_numbers(const score_t *const *scores, int n_scores)
{
    table_t t = {.columns = {{"", true}, {"IoU", true}, {"area", true}, {"detections"}},
                 .n_columns = 4 + n_scores};
    for (int s = 0; s < n_scores; s++)
        t.columns[4 + s] = (table_column_t){.heading = score_type_names[scores[s]->type]};
    for (int i = 0; i < SCORE_NUMBERS; i++) {
        const score_number_t *number = &score_numbers[i];
        table_cell(&t, "%s", number->name);
        table_cell(&t, "%s", number->iou);
        table_cell(&t, "%s", number->area);
        table_cell(&t, "%s", number->most);
        for (int s = 0; s < n_scores; s++) number_cell(&t, scores[s]->numbers[i]);
    }
    table_log(&t);
    table_free(&t);
}

/* AP, AP50 and AP75 of a category. */
static void print_categories(const score_t *score, const truths_t *truths)
{
    table_t t = {.columns = {{"category", true}, {"objects"}, {"detections"}}, .n_columns = 6};
    for (int i = 0; i < 3; i++) t.columns[3 + i] = (table_column_t){.heading = score_numbers[i].name};
    for (int32_t c = 0; c < score->n_categories; c++) {
        const score_category_t *category = &score->categories[c];
        table_cell(&t, "%s", truths->categories[c].name);
        table_cell(&t, "%s", figure_count(category->n_truths).text);
        table_cell(&t, "%s", figure_count(category->n_detections).text);
        for (int i = 0; i < 3; i++) number_cell(&t, category->numbers[i]);
    }
    log_info("\n%s of each category", score_type_names[score->type]);
    table_log(&t);
    table_free(&t);
}

void score_print(const score_t *const *scores, int n_scores, const truths_t *truths)
{
    print_numbers(scores, n_scores);
    for (int s = 0; s < n_scores && truths; s++) print_categories(scores[s], truths);
}

static void json_numbers(json_t *j, const double values[SCORE_NUMBERS])
{
    for (int i = 0; i < SCORE_NUMBERS; i++) json_real(j, score_numbers[i].name, values[i]);
}

static void json_categories(json_t *j, const score_t *score, const truths_t *truths)
{
    json_array_begin(j, "categories");
    for (int32_t c = 0; c < score->n_categories; c++) {
        const score_category_t *category = &score->categories[c];
        json_object_begin(j, NULL);
        json_int(j, "id", truths->categories[c].id);
        json_string(j, "name", truths->categories[c].name);
        json_int(j, "objects", category->n_truths);
        json_int(j, "crowds", category->n_crowds);
        json_int(j, "detections", category->n_detections);
        json_numbers(j, category->numbers);
        json_object_end(j);
    }
    json_array_end(j);
}

void score_json(const score_t *const *scores, int n_scores, const truths_t *truths, json_t *j)
{
    for (int s = 0; s < n_scores; s++) {
        json_object_begin(j, score_type_names[scores[s]->type]);
        json_numbers(j, scores[s]->numbers);
        if (truths) json_categories(j, scores[s], truths);
        json_object_end(j);
    }
}
