/* SPDX-License-Identifier: MIT */
/* `dptrain checkpoint show`: prints the attributes, and each array with its shape and root mean square. */
#include "store/checkpoint/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/opt.h"
#include "base/print.h"
#include "base/table.h"
#include "store/checkpoint/file.h"

/* Attributes that show_summary prints. */
static const char *const summarized[] = {"schema",      "model",     "height",  "width",        "channels",
                                         "n_classes",   "step",      "epoch",   "batch",        "data",
                                         "data_source", "data_xxh3", "n_ranks", "global_batch", NULL};

/* The value of an integer attribute; -1 if absent. */
static int64_t int_attr(const checkpoint_t *c, const char *name)
{
    const ckpt_attr_t *attr = checkpoint_find_attr(c, name);
    return attr && attr->type == CKPT_INT ? attr->integer : -1;
}

static const char *text_attr(const checkpoint_t *c, const char *name)
{
    const ckpt_attr_t *attr = checkpoint_find_attr(c, name);
    return attr && attr->type == CKPT_TEXT ? attr->text : "(unknown)";
}

static void show_summary(const checkpoint_t *c, table_t *t)
{
    table_cell(t, "file");
    table_cell(t, "%s", checkpoint_path(c));
    table_cell(t, "size");
    table_cell(t, "%lld bytes; every byte matches the checksum", (long long)checkpoint_bytes(c));
    table_cell(t, "schema");
    table_cell(t, "%lld", (long long)int_attr(c, "schema"));
    if (checkpoint_find_attr(c, "model")) {
        table_cell(t, "model");
        table_cell(
            t, "%s for images of %s in %lld classes", text_attr(c, "model"),
            shape_format(shape_3d(int_attr(c, "height"), int_attr(c, "width"), int_attr(c, "channels"))).text,
            (long long)int_attr(c, "n_classes"));
    }
    if (checkpoint_find_attr(c, "step")) {
        table_cell(t, "position");
        table_cell(t, "%lld step%s done; next is batch %lld of epoch %lld", (long long)int_attr(c, "step"),
                   int_attr(c, "step") == 1 ? "" : "s", (long long)int_attr(c, "batch") + 1,
                   (long long)int_attr(c, "epoch") + 1);
    }
    if (checkpoint_find_attr(c, "data_source")) {
        table_cell(t, "data");
        table_cell(t, "%s, xxh3 %s", text_attr(c, "data_source"), text_attr(c, "data_xxh3"));
    }
    if (checkpoint_find_attr(c, "n_ranks")) {
        table_cell(t, "ranks");
        table_cell(t, "%lld, %lld sample%s a step", (long long)int_attr(c, "n_ranks"),
                   (long long)int_attr(c, "global_batch"), int_attr(c, "global_batch") == 1 ? "" : "s");
    }
}

static void show_attr(const ckpt_attr_t *attr, table_t *t)
{
    table_cell(t, "%s", attr->name);
    if (attr->type == CKPT_INT) table_cell(t, "%" PRId64, attr->integer);
    if (attr->type == CKPT_REAL) table_cell(t, "%.9g", attr->real);
    if (attr->type == CKPT_TEXT) table_cell(t, "%s", attr->text);
}

/* Text of several lines, indented below its name. */
static void show_text(const ckpt_attr_t *attr)
{
    print_out("%s\n", attr->name);
    int n;
    for (const char *rest = attr->text, *line; (line = print_next_line(&rest, &n));)
        print_out("  %.*s\n", n, line);
}

static err_t show_attrs(const checkpoint_t *c)
{
    table_t table = {.columns = {{NULL, true, .min_width = 16}, {NULL, true}}, .n_columns = 2};
    err_t err = ERR_OK;
    show_summary(c, &table);
    for (int several = 0; several < 2 && err == ERR_OK; several++) {
        for (int i = 0; i < checkpoint_attr_count(c); i++) {
            const ckpt_attr_t *attr = checkpoint_attr(c, i);
            int lines = attr->type == CKPT_TEXT && strchr(attr->text, '\n');
            if (opt_listed(summarized, attr->name) || lines != several) continue;
            if (several)
                show_text(attr);
            else
                show_attr(attr, &table);
        }
        if (!several) err = table_print(&table, stdout);
    }
    table_free(&table);
    return err;
}

/* Root mean square; NaN in the data gives NaN. */
static double root_mean_square(const ckpt_array_t *array, const void *data)
{
    int64_t n = shape_count(array->shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = array->dtype == DTYPE_F32   ? (double)((const float *)data)[i]
                   : array->dtype == DTYPE_F64 ? ((const double *)data)[i]
                   : array->dtype == DTYPE_I32 ? ((const int32_t *)data)[i]
                   : array->dtype == DTYPE_I64 ? (double)((const int64_t *)data)[i]
                                               : ((const uint8_t *)data)[i];
        sum += x * x;
    }
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

static err_t show_arrays(checkpoint_t *c)
{
    int n = checkpoint_array_count(c);
    int64_t total = 0, n_bytes;
    table_t t = {
        .columns = {{"array", true}, {"type", true}, {"shape", true}, {"meaning", true}, {"bytes"}, {"rms"}},
        .n_columns = 6};
    err_t err = ERR_OK;
    for (int i = 0; i < n; i++) {
        const ckpt_array_t *array = checkpoint_array(c, i);
        void *data;
        TRY_OUT(err, checkpoint_read_new(c, array, &n_bytes, &data));
        table_cell(&t, "%s", array->name);
        table_cell(&t, "%s", dtype_name(array->dtype));
        table_cell(&t, "%s", array->shape.n_dims ? shape_format(array->shape).text : "scalar");
        table_cell(&t, "%s", array->meaning ? array->meaning : "");
        table_cell(&t, "%lld", (long long)n_bytes);
        table_cell(&t, "%.6g", root_mean_square(array, data));
        total += n_bytes;
        mem_free(&data);
    }
    for (int column = 0; column < t.n_columns; column++)
        if (column == 4)
            table_cell(&t, "%lld", (long long)total);
        else
            table_cell(&t, "%s", column == 0 ? "total" : "");
    print_out("\n");
    TRY_OUT(err, table_print(&t, stdout));
out:
    table_free(&t);
    return err;
}

err_t checkpoint_show(const char *path)
{
    checkpoint_t *c;
    TRY(checkpoint_open(path, &c));
    err_t err = show_attrs(c);
    if (err == ERR_OK) err = show_arrays(c);
    checkpoint_close(&c);
    return err;
}
