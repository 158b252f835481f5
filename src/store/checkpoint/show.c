/* SPDX-License-Identifier: MIT */
/* `dptrain checkpoint show`: prints the attributes, and each array with its shape and root mean square. `verify`: the seal
 * of each file, then the checksum of each array, and a verdict over all of them. `compare`: the arrays in which two
 * checkpoints differ most. */
#include "store/checkpoint/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/checkpoint/file.h"
#include "store/checkpoint/store.h"
#include "text/opt.h"
#include "text/table.h"

/* ---- Showing ---- */
/* Attributes that show_summary prints. */
static const char *const summarized[] = {"schema",      "model",     "height",  "width",        "channels",
                                         "n_classes",   "step",      "epoch",   "batch",        "data",
                                         "data_source", "data_xxh3", "n_ranks", "global_batch", NULL};

/* The value of an integer attribute; -1 if absent. */
static int64_t int_attr(const checkpoint_t *c, const char *name)
{
    const h5_attr_t *attr = checkpoint_find_attr(c, name);
    return attr && attr->type == H5_INT ? attr->integer : -1;
}

static const char *text_attr(const checkpoint_t *c, const char *name)
{
    const h5_attr_t *attr = checkpoint_find_attr(c, name);
    return attr && attr->type == H5_TEXT ? attr->text : "(unknown)";
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

static err_t show_attrs(const checkpoint_t *c)
{
    table_t table = {.columns = {{NULL, true, .min_width = 16}, {NULL, true}}, .n_columns = 2};
    err_t err = ERR_OK;
    show_summary(c, &table);
    for (int several = 0; several < 2 && err == ERR_OK; several++) {
        for (int i = 0; i < checkpoint_attr_count(c); i++) {
            const h5_attr_t *attr = checkpoint_attr(c, i);
            int lines = attr->type == H5_TEXT && strchr(attr->text, '\n');
            if (opt_listed(summarized, attr->name) || lines != several) continue;
            if (several) { /* indented below its name */
                int n_line;
                print_out("%s\n", attr->name);
                for (const char *rest = attr->text, *line; (line = print_next_line(&rest, &n_line));)
                    print_out("  %.*s\n", n_line, line);
                continue;
            }
            table_cell(&table, "%s", attr->name);
            if (attr->type == H5_INT) table_cell(&table, "%" PRId64, attr->integer);
            if (attr->type == H5_REAL) table_cell(&table, "%.9g", attr->real);
            if (attr->type == H5_TEXT) table_cell(&table, "%s", attr->text);
        }
        if (!several) err = table_print(&table, stdout);
    }
    table_free(&table);
    return err;
}

static double element(const ckpt_array_t *array, const void *data, int64_t i)
{
    return array->dtype == DTYPE_F32   ? (double)((const float *)data)[i]
           : array->dtype == DTYPE_F64 ? ((const double *)data)[i]
           : array->dtype == DTYPE_I32 ? ((const int32_t *)data)[i]
           : array->dtype == DTYPE_I64 ? (double)((const int64_t *)data)[i]
                                       : ((const uint8_t *)data)[i];
}

/* Root mean square; NaN in the data gives NaN. */
static double root_mean_square(const ckpt_array_t *array, const void *data)
{
    int64_t n = shape_count(array->shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = element(array, data, i);
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

/* ---- Verifying ---- */
typedef struct tally {
    int n, n_damaged, n_unknown; /* unknown: a read failed for another reason than damage */
    int n_empty;                 /* folders without checkpoints */
} tally_t;

/* The whole-file checksum, the name, then each array's checksum. */
static err_t verify_arrays(const char *path, int64_t *n_bytes)
{
    checkpoint_t *c;
    TRY(checkpoint_open(path, &c));
    err_t err = checkpoint_store_check_name(c);
    *n_bytes = checkpoint_bytes(c);
    for (int i = 0; err == ERR_OK && i < checkpoint_array_count(c); i++) {
        void *data = NULL;
        int64_t n;
        err = checkpoint_read_new(c, checkpoint_array(c, i), &n, &data);
        mem_free(&data);
    }
    checkpoint_close(&c);
    return err;
}

static void tally_add(tally_t *tally, err_t err, const char *path, int64_t n_bytes)
{
    tally->n++;
    tally->n_damaged += err == ERR_DATA;
    tally->n_unknown += err != ERR_OK && err != ERR_DATA;
    if (err == ERR_OK)
        print_out("ok      %s (%lld bytes)\n", path, (long long)n_bytes);
    else
        print_out("%s %s\n", err == ERR_DATA ? "not ok " : "unknown", err_message());
    fflush(stdout);
}

static void verify_path(const char *where, tally_t *tally)
{
    char path[FS_PATH_MAX];
    int64_t *steps = NULL, n_bytes = 0;
    int n = 0;
    err_t err = ERR_OK;
    if (!fs_is_folder(where)) {
        err = verify_arrays(where, &n_bytes);
        tally_add(tally, err, where, n_bytes);
        return;
    }
    err = checkpoint_store_list(where, &steps, &n);
    if (err != ERR_OK) tally_add(tally, err, where, 0);
    if (err == ERR_OK && n == 0) {
        tally->n_empty++;
        print_out("not ok  no checkpoint in the folder %s\n", where);
        fflush(stdout);
    }
    for (int i = 0; i < n; i++) {
        err = checkpoint_store_path(where, steps[i], path);
        if (err == ERR_OK) err = verify_arrays(path, &n_bytes);
        tally_add(tally, err, path, n_bytes);
    }
    mem_free(&steps);
}

err_t checkpoint_verify_all(const char *const *wheres, int n)
{
    tally_t tally = {0};
    for (int i = 0; i < n; i++) verify_path(wheres[i], &tally);
    if (tally.n_unknown > 0)
        RAISE(ERR_SYSTEM, "%d of %d checkpoint%s could not be read; try again", tally.n_unknown, tally.n,
              tally.n == 1 ? "" : "s");
    if (tally.n_damaged > 0)
        RAISE(ERR_DATA, "%d of %d checkpoint%s cannot be used; --resume auto skips them", tally.n_damaged,
              tally.n, tally.n == 1 ? "" : "s");
    if (tally.n_empty > 0)
        RAISE(ERR_DATA, "%d folder%s no checkpoint, see above", tally.n_empty,
              tally.n_empty == 1 ? " holds" : "s hold");
    return ERR_OK;
}

/* ---- Comparing ---- */
enum { SHOWN_DIFFERENCES = 8 };

typedef struct difference {
    const char *name;
    double most, scale; /* largest |a - b|; largest finite element of both */
    double relative;
    int64_t at, n; /* index of the largest; number of elements that differ */
} difference_t;

/* Raises ERR_DATA unless both have the same model, step and arrays. */
static err_t check_comparable(const checkpoint_t *a, const checkpoint_t *b)
{
    const char *in_a = text_attr(a, "model"), *in_b = text_attr(b, "model");
    if (strcmp(in_a, in_b) != 0)
        RAISE(ERR_DATA, "the checkpoints cannot be compared: %s has model %s, %s has %s", checkpoint_path(a),
              in_a, checkpoint_path(b), in_b);
    if (int_attr(a, "step") != int_attr(b, "step"))
        RAISE(ERR_DATA, "the checkpoints cannot be compared: %s is of step %lld, %s of step %lld",
              checkpoint_path(a), (long long)int_attr(a, "step"), checkpoint_path(b),
              (long long)int_attr(b, "step"));
    for (int swap = 0; swap < 2; swap++) {
        const checkpoint_t *has = swap ? b : a, *lacks = swap ? a : b;
        for (int i = 0; i < checkpoint_array_count(has); i++) {
            const ckpt_array_t *x = checkpoint_array(has, i), *y = checkpoint_find(lacks, x->name);
            if (!y)
                RAISE(ERR_DATA, "the checkpoints cannot be compared: %s has %s, %s does not",
                      checkpoint_path(has), x->name, checkpoint_path(lacks));
            if (x->dtype != y->dtype || !shape_equal(x->shape, y->shape))
                RAISE(ERR_DATA,
                      "the checkpoints cannot be compared: %s is %s of %s in %s, and %s of %s in %s", x->name,
                      dtype_name(x->dtype), shape_format(x->shape).text, checkpoint_path(has),
                      dtype_name(y->dtype), shape_format(y->shape).text, checkpoint_path(lacks));
        }
    }
    return ERR_OK;
}

static difference_t difference_of(const ckpt_array_t *array, const void *a, const void *b)
{
    difference_t d = {.name = array->name};
    for (int64_t i = 0; i < shape_count(array->shape); i++) {
        const double x = element(array, a, i), y = element(array, b, i);
        if (isfinite(x)) d.scale = fmax(d.scale, fabs(x));
        if (isfinite(y)) d.scale = fmax(d.scale, fabs(y));
        if (x == y) continue; /* NaN differs from itself */
        const double far = isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
        d.n++;
        if (far > d.most) d.most = far, d.at = i;
    }
    d.relative = d.most > 0 ? isinf(d.most) ? INFINITY : d.most / d.scale : 0;
    return d;
}

static int by_relative(const void *a, const void *b)
{
    const difference_t *x = a, *y = b;
    return x->relative != y->relative ? x->relative < y->relative ? 1 : -1 : strcmp(x->name, y->name);
}

static err_t compare_arrays(checkpoint_t *a, checkpoint_t *b, double within)
{
    const int n = checkpoint_array_count(a);
    int n_differ = 0, n_beyond = 0;
    int64_t n_bytes;
    void *in_a = NULL, *in_b = NULL;
    difference_t *d = NULL;
    table_t t = {.columns = {{"array", true}, {"differs"}, {"in"}, {"largest"}, {"by"}, {"relative"}},
                 .n_columns = 6};
    err_t err;
    TRY_OUT(err, mem_new_array(n, sizeof *d, "a comparison of checkpoints", &d));
    for (int i = 0; i < n; i++) {
        const ckpt_array_t *array = checkpoint_array(a, i);
        TRY_OUT(err, checkpoint_read_new(a, array, &n_bytes, &in_a));
        TRY_OUT(err, checkpoint_read_new(b, checkpoint_find(b, array->name), &n_bytes, &in_b));
        d[i] = difference_of(array, in_a, in_b);
        n_differ += d[i].n > 0;
        n_beyond += d[i].relative > within;
        mem_free(&in_a);
        mem_free(&in_b);
    }
    if (n > 0) qsort(d, (size_t)n, sizeof *d, by_relative);
    for (int i = 0; i < n && i < SHOWN_DIFFERENCES && d[i].relative > 0; i++) {
        table_cell(&t, "%s", d[i].name);
        table_cell(&t, "%lld", (long long)d[i].n);
        table_cell(&t, "%lld", (long long)d[i].at);
        table_cell(&t, "%.6g", d[i].scale);
        table_cell(&t, "%.3g", d[i].most);
        table_cell(&t, "%.3g", d[i].relative);
    }
    if (t.n_cells > 0) TRY_OUT(err, table_print(&t, stdout));
    print_out("%d array%s", n, n == 1 ? "" : "s");
    if (checkpoint_find_attr(a, "step")) print_out(" of step %lld", (long long)int_attr(a, "step"));
    print_out(": %d equal, %d differ; largest relative difference %.3g\n", n - n_differ, n_differ,
              n > 0 ? d[0].relative : 0);
    fflush(stdout); /* before the error */
    if (n_beyond > 0)
        RAISE_OUT(err, ERR_GATE,
                  "%s and %s differ: %d of %d arrays by more than %g of their largest element, %s by %.3g",
                  checkpoint_path(a), checkpoint_path(b), n_beyond, n, within, d[0].name, d[0].relative);
out:
    mem_free(&in_a);
    mem_free(&in_b);
    table_free(&t);
    mem_free(&d);
    return err;
}

err_t checkpoint_compare(const char *path_a, const char *path_b, double within)
{
    checkpoint_t *a = NULL, *b = NULL;
    err_t err;
    TRY_OUT(err, checkpoint_open(path_a, &a));
    TRY_OUT(err, checkpoint_open(path_b, &b));
    TRY_OUT(err, check_comparable(a, b));
    TRY_OUT(err, compare_arrays(a, b, within));
out:
    checkpoint_close(&a);
    checkpoint_close(&b);
    return err;
}
