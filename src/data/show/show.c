/* SPDX-License-Identifier: MIT */
/* `dptrain data show`: survey, tables and contact sheet in sequence, with a limit on warnings. Parsing its
 * options is left to cmd/data_show.c. */
#include "data/show/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "data/show/sheet.h"
#include "data/show/survey_table.h"

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

static err_t print_survey(const source_t *source, const show_options_t *options)
{
    const survey_options_t how = {options->read, tell_unreadable};
    survey_t survey;
    TRY(survey_run(source, &how, &survey));
    end_telling();
    err_t err = survey_print(source, &survey, options->read);
    if (err == ERR_OK) err = survey_print_categories(source, &survey, options->top);
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
    TRY_OUT(err, print_survey(source, options));
    if (options->out) TRY_OUT(err, draw_sheet(source, category, options));
out:
    source_close(&source);
    return err;
}
