/* SPDX-License-Identifier: MIT */
/* `dptrain data show`: survey, tables and contact sheet in sequence, with a limit on warnings. Parsing its
 * options is left to cmd/data.c. */
#include "data/show/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/show/sheet.h"
#include "text/opt.h"
#include "text/table.h"

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

/* Counts and ranges of each split. read: formats are known. */
static err_t print_counts(const source_t *source, const survey_t *survey, bool read)
{
    static const char *const splits[SPLIT_COUNT] = {"train", "val"};
    static const char *const sizes[SURVEY_SIZES] = {"  small (area < 32²)", "  medium",
                                                    "  large (area >= 96²)"};
    splits_table_t to = {source, {.columns = {{NULL, true}}, .n_columns = 1}};
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (source->n_samples[s] > 0) to.table.columns[to.table.n_columns++].heading = splits[s];
    survey_counts(&to, "images", COUNTS(survey, n_images));
    if (source->ops->raw) survey_counts(&to, "  raw pixels", COUNTS(survey, n_images));
    for (int f = 0; read && !source->ops->raw && f < IMAGE_FORMAT_COUNT; f++) {
        char what[32];
        snprintf(what, sizeof what, "  %s", image_format_names[f]);
        survey_counts(&to, what, COUNTS(survey, n_formats[f]));
    }
    if (read) survey_counts(&to, "  unreadable", COUNTS(survey, n_unreadable));
    if (read) survey_counts(&to, "  turned by EXIF", COUNTS(survey, n_turned));
    survey_ranges(&to, "width: min, median, max", RANGES(survey, width));
    survey_ranges(&to, "height", RANGES(survey, height));
    survey_ranges(&to, "bytes of an image", RANGES(survey, bytes));
    survey_counts(&to, "bytes of all", COUNTS(survey, n_bytes));
    if (source->has_annotations) {
        survey_counts(&to, "objects", COUNTS(survey, n_objects));
        for (int k = 0; k < SURVEY_SIZES; k++) survey_counts(&to, sizes[k], COUNTS(survey, n_sizes[k]));
        survey_counts(&to, "crowds", COUNTS(survey, n_crowds));
        survey_counts(&to, "images without either", COUNTS(survey, n_empty));
    }
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

/* The `top` categories with the most objects or, for sources without annotations, images. */
static err_t print_categories(const source_t *source, const survey_t *survey, int64_t top)
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
    for (int32_t i = 0; i < n_shown; i++) {
        static const char bar[BAR + 1] = "##############################";
        const row_t *row = &rows[i];
        /* At least one mark for any nonzero count. */
        const int64_t most = rows[0].n, n_marks = row->n > 0 ? (row->n * BAR + most - 1) / most : 0;
        if (survey->categories[row->category].n_images == 0) continue;
        table_cell(&table, "%s", source->categories[row->category].name);
        if (source->has_annotations) table_cell(&table, "%" PRId64, row->n);
        table_cell(&table, "%" PRId64, survey->categories[row->category].n_images);
        table_cell(&table, "%.*s", (int)n_marks, bar);
    }
    print_out("\n");
    err_t err = table_print(&table, stdout);
    for (int32_t i = n_shown; i < n; i++) n_rest += survey->categories[rows[i].category].n_images > 0;
    if (n_rest > 0) print_out("%" PRId64 " more have fewer; --top N lists more\n", n_rest);
    table_free(&table);
    mem_free(&rows);
    return err;
}

enum { MOST_TOLD = 20 };

static int64_t n_told;

static void tell_unreadable(const char *message)
{
    if (n_told++ < MOST_TOLD) log_warn("unreadable: %s", message);
}

static void tell_not_drawn(const char *message)
{
    if (n_told++ < MOST_TOLD) log_warn("incompletely drawn: %s", message);
}

static void end_telling(void)
{
    if (n_told > MOST_TOLD) log_warn("… and %" PRId64 " more", n_told - MOST_TOLD);
    n_told = 0;
}

static err_t find_category(const source_t *source, const char *name, int32_t *out)
{
    const char **names = NULL;
    *out = -1;
    for (int32_t i = 0; name && i < source->n_categories; i++)
        if (strcmp(source->categories[i].name, name) == 0) *out = i;
    if (!name || *out >= 0) return ERR_OK;
    TRY(mem_new_array(source->n_categories, sizeof *names, "names of categories", &names));
    for (int32_t i = 0; i < source->n_categories; i++) names[i] = source->categories[i].name;
    const char *nearest = opt_nearest(name, names, source->n_categories);
    mem_free(&names);
    RAISE(ERR_USAGE, "%s has no category '%s'%s%s%s", source->path, name, nearest ? "; did you mean '" : "",
          nearest ? nearest : "", nearest ? "'?" : "; omit --category to show all");
}

static err_t draw_sheet(const source_t *source, int32_t category, const show_options_t *options)
{
    pick_t *picks = NULL;
    page_t *page = NULL;
    int64_t n = 0, n_bad = 0;
    err_t err;
    TRY(mem_new_array(options->count, sizeof *picks, "images of the sheet", &picks));
    TRY_OUT(err, pick_images(source, category, (uint64_t)options->seed, options->count, picks, &n));
    if (n == 0)
        RAISE_OUT(err, ERR_USAGE, "no image of %s has the category %s", source->path, options->category);
    const sheet_t sheet = {
        .source = source, .picks = picks, .n = n, .tile = options->tile, .tell = tell_not_drawn};
    TRY_OUT(err, sheet_draw(&sheet, &n_bad, &page));
    end_telling();
    TRY_OUT(err, page_write_png(page, options->out));
    log_info("%s: %" PRId64 " image%s, %" PRId64 " × %" PRId64 " pixels", options->out, n, n == 1 ? "" : "s",
             page->width, page->height);
    if (n_bad > 0) log_warn("%" PRId64 " of them cannot be decoded", n_bad);
out:
    page_free(&page);
    mem_free(&picks);
    return err;
}

err_t show_source(const char *path, const show_options_t *options)
{
    const list_rules_t rules = list_rules(&options->list, 0);
    const source_ops_t *kind = NULL;
    source_t *source = NULL;
    survey_t survey;
    int32_t category = -1;
    err_t err;
    TRY(source_find_kind(path, &kind));
    print_out("%s: %s\n", path, kind->what);
    fflush(stdout); /* reading may take long */
    TRY_OUT(err, source_open_watched(path, &rules, NULL, &source));
    if (source->about[0]) print_out("%s\n", source->about);
    if (source->n_samples[SPLIT_TRAIN] + source->n_samples[SPLIT_VAL] == 0)
        RAISE_OUT(err, ERR_DATA, "%s holds no images", path);
    TRY_OUT(err, find_category(source, options->category, &category));
    source_warn_notes(source);
    const survey_options_t how = {options->read, tell_unreadable};
    TRY_OUT(err, survey_run(source, &how, &survey));
    end_telling();
    err = print_counts(source, &survey, options->read);
    if (err == ERR_OK) err = print_categories(source, &survey, options->top);
    survey_free(&survey);
    fflush(stdout);
    TRY_OUT(err, err);
    if (options->out) TRY_OUT(err, draw_sheet(source, category, options));
out:
    source_close(&source);
    return err;
}
