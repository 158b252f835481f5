/* SPDX-License-Identifier: MIT */
/* `dptrain data show`: statistics and a contact sheet of a source of images. Runs without MPI, in one
 * process; the work is done by data/show. */
#include <stddef.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/progress.h"
#include "cmd/data.h"
#include "data/image/image.h"
#include "data/show/sheet.h"
#include "data/show/show.h"

static const char usage[] =
    "usage: dptrain data show SRC [options]\n"
    "\n"
    "Prints the contents of SRC: images, formats and sizes, objects, crowds,\n"
    "categories. SRC is a folder with one folder of images per class, COCO, IDX\n"
    "files, or shards. Reads the headers of every image; unreadable images are\n"
    "counted and named in warnings (use dptrain data verify to fail on them).\n"
    "--no-read prints only what the index or the annotations contain.\n"
    "\f\n"
    "Widths, heights and bytes refer to the images as stored. Objects are annotations\n"
    "other than crowds: small below an area of 32² pixels, large from 96², as in\n"
    "COCO's evaluation.\n"
    "\n"
    "--out FILE.png draws a contact sheet of --count images chosen by --seed, with\n"
    "EXIF orientation applied, boxes and masks in one color per category (crowds\n"
    "hatched, with dashed boxes), or the class below the image. Images that cannot be\n"
    "decoded get a placeholder. Images appear as stored; dptrain train --preview FILE.png\n"
    "draws them as the model gets them.\n"
    "\n"
    "Exit codes: 2 usage, or no image has --category; 3 SRC is missing, damaged or\n"
    "empty; 4 --out cannot be written, or a file could not be read, but trying again\n"
    "may help.\n";

#define FIELD(name) offsetof(show_options_t, name)
static const opt_t table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE", "write a contact sheet, a PNG, to FILE",
     OPT_COMMON},
    {"count", OPT_INT, FIELD(count), "24", 1, SHEET_MAX_IMAGES, NULL, "N", "number of images on the sheet",
     OPT_COMMON},
    {"tile", OPT_INT, FIELD(tile), "240", SHEET_MIN_TILE, SHEET_MAX_TILE, NULL, "PIXELS",
     "width of a tile of the sheet", OPT_COMMON},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N", "random seed for choosing images", OPT_COMMON},
    {"category", OPT_STRING, FIELD(category), NULL, 0, 0, NULL, "NAME",
     "draw only images of this class or with an object of it", OPT_COMMON},
    {"top", OPT_INT, FIELD(top), "20", 1, 1e9, NULL, "N", "number of categories in the table", OPT_COMMON},
    {"read", OPT_FLAG, FIELD(read), "true", 0, 0, NULL, NULL, "read every image's headers", OPT_COMMON},
    LIST_RULE_ROWS(FIELD(list)),
};

static err_t check_options(const show_options_t *options, const opt_group_t *group, int n_words)
{
    static const char *const of_sheets[] = {"count", "tile", "seed", "category"};
    if (n_words != 1) RAISE(ERR_USAGE, "dptrain data show: expected one folder");
    for (size_t i = 0; !options->out && i < sizeof of_sheets / sizeof *of_sheets; i++)
        if (opt_given(group, 1, of_sheets[i]))
            RAISE(ERR_USAGE, "--%s requires --out FILE.png, the contact sheet", of_sheets[i]);
    if (!options->out) return ERR_OK;
    TRY(sheet_check(options->count, options->tile));
    return fs_check_target(options->out);
}

err_t cmd_data_show(const cmd_context_t *context)
{
    show_options_t options = {0};
    console_options_t console;
    opt_group_t groups[] = {{"Options", table, sizeof table / sizeof table[0], &options, 0},
                            {"Output", console_option_table, n_console_options, &console, 0}};
    const char *words[2];
    int n_words = 0;
    err_t err = opt_defaults(groups, 2);
    if (cmd_wants_help(context, usage, groups, 2, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, 2, context->argc, context->argv, words, 2, &n_words);
    if (err == ERR_OK) err = console_apply(&console);
    if (err == ERR_OK) err = check_options(&options, groups, n_words);
    if (err == ERR_OK && log_speaks() && !cmd_only_checks()) err = show_source(words[0], &options);
    return cmd_fail(err);
}
