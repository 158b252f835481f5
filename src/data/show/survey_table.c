/* SPDX-License-Identifier: MIT */
/* Prints the counts of a survey, with training and validation side by side, and a bar chart of the
 * categories. */
#include "data/show/survey_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/table.h"

enum { BAR = 30 };

/* A table with a column for each split that has samples. */
typedef struct splits_table {
    const source_t *source;
    table_t table;
} splits_table_t;

static void survey_counts(splits_table_t *to, const char *what, const int64_t counts[SPLIT_COUNT])
{
    table_cell(&to->table, "%s", what);
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (to->source->n_samples[s] > 0) table_cell(&to->table, "%" PRId64, counts[s]);
}

/* One member of both splits' counts. */
#define COUNTS(survey, member)                                                                               \
    (const int64_t[SPLIT_COUNT])                                                                             \
    {                                                                                                        \
        (survey)->splits[SPLIT_TRAIN].member, (survey)->splits[SPLIT_VAL].member                             \
    }

static void survey_ranges(splits_table_t *to, const char *what, const survey_range_t *ranges[SPLIT_COUNT])
{
    table_cell(&to->table, "%s", what);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        const survey_range_t *r = ranges[s];
        if (to->source->n_samples[s] == 0) continue;
        if (r->n > 0)
            table_cell(&to->table, "%.0f  %.0f  %.0f", r->min, r->median, r->max);
        else
            table_cell(&to->table, "unknown");
    }
}

#define RANGES(survey, member)                                                                               \
    (const survey_range_t *[SPLIT_COUNT])                                                                    \
    {                                                                                                        \
        &(survey)->splits[SPLIT_TRAIN].member, &(survey)->splits[SPLIT_VAL].member                           \
    }

static void survey_images(splits_table_t *to, const survey_t *survey, bool read)
{
    survey_counts(to, "images", COUNTS(survey, n_images));
    if (to->source->ops->raw) survey_counts(to, "  raw pixels", COUNTS(survey, n_images));
    for (int f = 0; read && !to->source->ops->raw && f < IMAGE_FORMAT_COUNT; f++) {
        char what[32];
        snprintf(what, sizeof what, "  %s", image_format_names[f]);
        survey_counts(to, what, COUNTS(survey, n_formats[f]));
    }
    if (read) survey_counts(to, "  unreadable", COUNTS(survey, n_unreadable));
    if (read) survey_counts(to, "  turned by EXIF", COUNTS(survey, n_turned));
    survey_ranges(to, "width: min, median, max", RANGES(survey, width));
    survey_ranges(to, "height", RANGES(survey, height));
    survey_ranges(to, "bytes of an image", RANGES(survey, bytes));
    survey_counts(to, "bytes of all", COUNTS(survey, n_bytes));
}

static void survey_objects(splits_table_t *to, const survey_t *survey)
{
    static const char *const sizes[SURVEY_SIZES] = {"  small (area < 32²)", "  medium",
                                                    "  large (area >= 96²)"};
    survey_counts(to, "objects", COUNTS(survey, n_objects));
    for (int k = 0; k < SURVEY_SIZES; k++) survey_counts(to, sizes[k], COUNTS(survey, n_sizes[k]));
    survey_counts(to, "crowds", COUNTS(survey, n_crowds));
    survey_counts(to, "images without either", COUNTS(survey, n_empty));
}

err_t survey_print(const source_t *source, const survey_t *survey, bool read)
{
    static const char *const splits[SPLIT_COUNT] = {"train", "val"};
    splits_table_t to = {source, {.columns = {{NULL, true}}, .n_columns = 1}};
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (source->n_samples[s] > 0) to.table.columns[to.table.n_columns++].heading = splits[s];
    survey_images(&to, survey, read);
    if (source->has_annotations) survey_objects(&to, survey);
    err_t err = table_print(&to.table, stdout);
    table_free(&to.table);
    return err;
}

typedef struct row {
    int32_t category;
    int64_t n;
} row_t;

static int by_count(const void *a, const void *b)
{
    const row_t *x = a, *y = b;
    return x->n != y->n ? (x->n > y->n ? -1 : 1) : (x->category > y->category) - (x->category < y->category);
}

static void survey_category(const source_t *source, const survey_t *survey, const row_t *row, int64_t most,
                            table_t *table)
{
    static const char bar[BAR + 1] = "##############################";
    /* At least one mark for any nonzero count. */
    const int64_t n_marks = row->n > 0 ? (row->n * BAR + most - 1) / most : 0;
    table_cell(table, "%s", source->categories[row->category].name);
    if (source->has_annotations) table_cell(table, "%" PRId64, row->n);
    table_cell(table, "%" PRId64, survey->categories[row->category].n_images);
    table_cell(table, "%.*s", (int)n_marks, bar);
}

err_t survey_print_categories(const source_t *source, const survey_t *survey, int64_t top)
{
    row_t *rows = NULL;
    const int32_t n = source->n_categories;
    int32_t n_used = 0;
    int64_t n_rest = 0;
    TRY(mem_new_array(n, sizeof *rows, "categories", &rows));
    for (int32_t i = 0; i < n; i++) {
        const survey_category_t *c = &survey->categories[i];
        rows[i] = (row_t){i, source->has_annotations ? c->n_objects : c->n_images};
        n_used += c->n_images > 0;
    }
    qsort(rows, (size_t)n, sizeof *rows, by_count);
    const int32_t n_shown = top < n ? (int32_t)top : n;
    char about[96];
    snprintf(about, sizeof about, "(%" PRId32 " categories, %" PRId32 " of them with images)", n, n_used);
    table_t table = {.columns = {{"category", true}}, .n_columns = 1};
    if (source->has_annotations) table.columns[table.n_columns++].heading = "objects";
    table.columns[table.n_columns++].heading = "images";
    table.columns[table.n_columns++] = (table_column_t){.heading = about, .is_text = true};
    for (int32_t i = 0; i < n_shown; i++)
        if (survey->categories[rows[i].category].n_images > 0)
            survey_category(source, survey, &rows[i], rows[0].n, &table);
    print_out("\n");
    err_t err = table_print(&table, stdout);
    for (int32_t i = n_shown; i < n; i++) n_rest += survey->categories[rows[i].category].n_images > 0;
    if (n_rest > 0) print_out("%" PRId64 " more have fewer; --top N lists more\n", n_rest);
    table_free(&table);
    mem_free(&rows);
    return err;
}
