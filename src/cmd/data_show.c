/* SPDX-License-Identifier: MIT */
/* `dptrain data show`: statistics and a contact sheet of a source of images. Runs without MPI, in one
 * process; the work is done by data/show. */
#include <stddef.h>

#include "base/fs.h"
#include "base/log.h"
#include "cmd/data.h"
#include "data/image/png_file.h"
#include "data/show/sheet.h"
#include "data/show/show.h"

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

#define FIELD(name) offsetof(show_options_t, name)
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

static err_t check_options(const show_options_t *options, const opt_group_t *group, int n_words)
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

err_t cmd_data_show(const cmd_context_t *context)
{
    show_options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    const char *words[2];
    int n_words = 0;
    if (cmd_wants_help(context, usage, &group, 1)) return ERR_OK;
    err_t err = opt_defaults(&group, 1);
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, words, 2, &n_words);
    if (err == ERR_OK) err = check_options(&options, &group, n_words);
    if (err == ERR_OK && log_speaks()) err = show_source(words[0], &options);
    return cmd_fail(err);
}
