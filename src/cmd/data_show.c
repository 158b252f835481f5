/* What a source of pictures holds: statistics, a contact sheet. No MPI: one process does it, whatever the
 * number of ranks. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cmd/data.h"
#include "image/png_file.h"
#include "pack/work.h"
#include "picture/sheet.h"

static const char usage[] =
    "usage: dptrain data show SRC [options]\n\n"
    "Prints what is in SRC: pictures, their formats and sizes, objects, crowds, categories. SRC is a\n"
    "folder with a folder of pictures for each class, COCO, IDX files, or shards of any of them.\n"
    "Reads every picture's headers; those that cannot be read are counted, and named as warnings\n"
    "(dptrain data verify is what fails on them). With --no-read only what is known beforehand is\n"
    "said, which of shards takes one small read for each picture.\n\n"
    "Widths, heights and bytes are of pictures as stored. Objects are annotations that are not crowds;\n"
    "small ones have an area below 32², large ones one from 96² pixels on, as in COCO's evaluation.\n\n"
    "--out FILE.png draws a contact sheet: --count pictures, chosen by --seed, each as EXIF turns it,\n"
    "with boxes and masks in a colour for each category (crowds hatched, their boxes dashed), or with\n"
    "its class below it. A picture that cannot be decoded has a tile that says so.\n\n"
    "Exit codes: 2 options, or no picture has --category; 3 SRC is missing or damaged as a whole, or\n"
    "holds no pictures; 4 --out cannot be written, or something could not be read now.\n";

enum { MOST_TOLD = 20, BAR = 30 };

typedef struct options {
    const char *out, *category;
    int64_t count, tile, seed, top;
    bool read;
} options_t;

#define FIELD(name) offsetof(options_t, name)
static const opt_t table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE", "draw a contact sheet, a PNG", false},
    {"count", OPT_INT, FIELD(count), "24", 1, SHEET_MAX_PICTURES, NULL, "N", "pictures on the sheet", false},
    {"tile", OPT_INT, FIELD(tile), "240", SHEET_MIN_TILE, SHEET_MAX_TILE, NULL, "PIXELS", "width of a tile",
     false},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N", "of the choice of pictures", false},
    {"category", OPT_STRING, FIELD(category), NULL, 0, 0, NULL, "NAME",
     "choose pictures of this class, or with an object of it", false},
    {"top", OPT_INT, FIELD(top), "20", 1, 1e9, NULL, "N", "categories in the table", false},
    {"read", OPT_FLAG, FIELD(read), "true", 0, 0, NULL, NULL, "read every picture's headers", false},
};

static int64_t n_told;

static void tell_unreadable(const char *message)
{
    if (n_told++ < MOST_TOLD) log_warn("unreadable: %s", message);
}

static void tell_not_drawn(const char *message)
{
    if (n_told++ < MOST_TOLD) log_warn("not drawn as it should be: %s", message);
}

static void end_telling(void)
{
    if (n_told > MOST_TOLD) log_warn("%" PRId64 " more of these are not listed", n_told - MOST_TOLD);
    n_told = 0;
}

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
    static const char *const splits[SPLIT_COUNT] = {"train", "val"};
    printf("%-28s", "");
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (source->n_samples[s] > 0) printf(" %24s", splits[s]);
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

/* The categories with the most objects, or pictures. */
static err_t print_categories(const source_t *source, const survey_t *survey, int64_t top)
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

static err_t print_survey(const source_t *source, const options_t *options)
{
    const survey_options_t how = {options->read, tell_unreadable};
    survey_t survey;
    TRY(survey_run(source, &how, &survey));
    end_telling();
    print_pictures(source, &survey, options->read);
    if (source->has_annotations) print_objects(source, &survey);
    err_t err = print_categories(source, &survey, options->top);
    survey_free(&survey);
    fflush(stdout);
    return err;
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
          nearest ? nearest : "", nearest ? "'?" : "; without --category all are shown");
}

static err_t draw(const source_t *source, int32_t category, const options_t *options)
{
    pick_t *picks = NULL;
    page_t *page = NULL;
    int64_t n = 0, n_bad = 0;
    err_t err;
    TRY(mem_new_array(options->count, sizeof *picks, "pictures of the sheet", &picks));
    TRY_OUT(err, pick_pictures(source, category, (uint64_t)options->seed, options->count, picks, &n));
    if (n == 0)
        RAISE_OUT(err, ERR_USAGE, "no picture of %s has the category %s", source->path, options->category);
    const sheet_t sheet = {source, picks, n, options->tile, tell_not_drawn};
    TRY_OUT(err, sheet_draw(&sheet, &n_bad, &page));
    end_telling();
    const image_t image = {page->width, page->height, page->rgb};
    TRY_OUT(err, png_file_write(options->out, &image));
    log_info("%s: %" PRId64 " picture%s, %" PRId64 " × %" PRId64 " pixels", options->out, n,
             n == 1 ? "" : "s", page->width, page->height);
    if (n_bad > 0) log_warn("%" PRId64 " of them cannot be decoded", n_bad);
out:
    page_free(&page);
    mem_free(&picks);
    return err;
}

static err_t check_options(const options_t *options, const opt_group_t *group, int n_words)
{
    static const char *const of_sheets[] = {"count", "tile", "seed", "category"};
    if (n_words != 1) RAISE(ERR_USAGE, "dptrain data show wants one folder");
    for (size_t i = 0; !options->out && i < sizeof of_sheets / sizeof *of_sheets; i++)
        if (opt_given(group, 1, of_sheets[i]))
            RAISE(ERR_USAGE, "--%s is of the contact sheet; give --out FILE.png, too", of_sheets[i]);
    if (!options->out) return ERR_OK;
    TRY(sheet_check(options->count, options->tile));
    return fs_check_target(options->out);
}

static err_t show(const char *path, const options_t *options)
{
    source_t *source = NULL;
    int32_t category = -1;
    err_t err;
    TRY_OUT(err, source_open(path, &source));
    if (source->n_samples[SPLIT_TRAIN] + source->n_samples[SPLIT_VAL] == 0)
        RAISE_OUT(err, ERR_DATA, "%s holds no pictures", path);
    TRY_OUT(err, find_category(source, options->category, &category));
    pack_say(source->notes);
    printf("%s: %s\n", path, source->ops->what);
    TRY_OUT(err, print_survey(source, options));
    if (options->out) TRY_OUT(err, draw(source, category, options));
out:
    source_close(&source);
    return err;
}

err_t cmd_data_show(const cmd_context_t *context)
{
    options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    const char *words[2];
    int n_words = 0;
    if (cmd_wants_help(context, usage, &group, 1)) return ERR_OK;
    err_t err = opt_defaults(&group, 1);
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, words, 2, &n_words);
    if (err == ERR_OK) err = check_options(&options, &group, n_words);
    if (err == ERR_OK && log_speaks()) err = show(words[0], &options);
    return cmd_fail(err);
}
