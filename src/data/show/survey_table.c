/* SPDX-License-Identifier: MIT */
/* Prints the counts of a survey, training and validation side by side, and a bar chart of the categories. */
#include "data/show/survey_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { BAR = 30 };

static void print_counts(const source_t *source, const char *what, const int64_t counts[SPLIT_COUNT])
{
    printf("%-28s", what);
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (source->n_samples[s] > 0) printf(" %24" PRId64, counts[s]);
    printf("\n");
}

/* One member of both splits' counts. */
#define COUNTS(survey, member)                                                                               \
    (const int64_t[SPLIT_COUNT])                                                                             \
    {                                                                                                        \
        (survey)->splits[SPLIT_TRAIN].member, (survey)->splits[SPLIT_VAL].member                             \
    }

static void print_ranges(const source_t *source, const char *what, const survey_range_t *ranges[SPLIT_COUNT])
{
    printf("%-28s", what);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        char text[64] = "not known";
        const survey_range_t *r = ranges[s];
        if (r->n > 0) snprintf(text, sizeof text, "%.0f  %.0f  %.0f", r->min, r->median, r->max);
        if (source->n_samples[s] > 0) printf(" %24s", text);
    }
    printf("\n");
}

#define RANGES(survey, member)                                                                               \
    (const survey_range_t *[SPLIT_COUNT])                                                                    \
    {                                                                                                        \
        &(survey)->splits[SPLIT_TRAIN].member, &(survey)->splits[SPLIT_VAL].member                           \
    }

static void print_pictures(const source_t *source, const survey_t *survey, bool read)
{
    printf("%-28s", "");
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (source->n_samples[s] > 0) printf(" %24s", split_names[s]);
    printf("\n");
    print_counts(source, "pictures", COUNTS(survey, n_pictures));
    for (int f = 0; read && f < IMAGE_FORMAT_COUNT; f++) {
        char what[32];
        snprintf(what, sizeof what, "  %s", image_format_names[f]);
        print_counts(source, what, COUNTS(survey, n_formats[f]));
    }
    if (read) print_counts(source, "  unreadable", COUNTS(survey, n_unreadable));
    if (read) print_counts(source, "  turned by EXIF", COUNTS(survey, n_turned));
    print_ranges(source, "width: min, median, max", RANGES(survey, width));
    print_ranges(source, "height", RANGES(survey, height));
    print_ranges(source, "bytes of a picture", RANGES(survey, bytes));
    print_counts(source, "bytes of all", COUNTS(survey, n_bytes));
}

static void print_objects(const source_t *source, const survey_t *survey)
{
    static const char *const sizes[SURVEY_SIZES] = {"  small (area < 32²)", "  medium",
                                                    "  large (area >= 96²)"};
    print_counts(source, "objects", COUNTS(survey, n_objects));
    for (int k = 0; k < SURVEY_SIZES; k++) {
        /* ² has two bytes, and one column. */
        char what[32];
        snprintf(what, sizeof what, "%s%*s", sizes[k], 28 - utf8_count(sizes[k]), "");
        print_counts(source, what, COUNTS(survey, n_sizes[k]));
    }
    print_counts(source, "crowds", COUNTS(survey, n_crowds));
    print_counts(source, "pictures without either", COUNTS(survey, n_empty));
}

void survey_print(const source_t *source, const survey_t *survey, bool read)
{
    print_pictures(source, survey, read);
    if (source->has_annotations) print_objects(source, survey);
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

static void print_row(const source_t *source, const survey_t *survey, const row_t *row, int64_t most,
                      int width)
{
    static const char bar[BAR + 1] = "##############################";
    const char *name = source->categories[row->category].name;
    /* What there is has a mark. */
    const int64_t n_marks = row->n > 0 ? (row->n * BAR + most - 1) / most : 0;
    printf("%s%*s", name, width - utf8_count(name), "");
    if (source->has_annotations) printf(" %10" PRId64, row->n);
    printf(" %10" PRId64 "  %.*s\n", survey->categories[row->category].n_pictures, (int)n_marks, bar);
}

err_t survey_print_categories(const source_t *source, const survey_t *survey, int64_t top)
{
    row_t *rows = NULL;
    const int32_t n = source->n_categories;
    int32_t n_used = 0, width = 12;
    int64_t n_rest = 0;
    TRY(mem_new_array(n, sizeof *rows, "categories", &rows));
    for (int32_t i = 0; i < n; i++) {
        const survey_category_t *c = &survey->categories[i];
        rows[i] = (row_t){i, source->has_annotations ? c->n_objects : c->n_pictures};
        n_used += c->n_pictures > 0;
    }
    qsort(rows, (size_t)n, sizeof *rows, by_count);
    const int32_t n_shown = top < n ? (int32_t)top : n;
    for (int32_t i = 0; i < n_shown; i++) {
        const int length = utf8_count(source->categories[rows[i].category].name);
        if (length > width) width = length;
    }
    printf("\n%-*s%s   pictures   (%" PRId32 " categories, %" PRId32 " of them with pictures)\n", width,
           "category", source->has_annotations ? "    objects" : "", n, n_used);
    for (int32_t i = 0; i < n_shown; i++)
        if (survey->categories[rows[i].category].n_pictures > 0)
            print_row(source, survey, &rows[i], rows[0].n, width);
    for (int32_t i = n_shown; i < n; i++) n_rest += survey->categories[rows[i].category].n_pictures > 0;
    if (n_rest > 0) printf("%" PRId64 " more have fewer; --top N lists more\n", n_rest);
    mem_free(&rows);
    return ERR_OK;
}
