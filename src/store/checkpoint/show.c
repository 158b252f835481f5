/* SPDX-License-Identifier: MIT */
/* `dptrain checkpoint show`: prints the attributes, and each array with its shape and root mean square. */
#include "store/checkpoint/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/opt.h"
#include "base/utf8.h"
#include "store/checkpoint/file.h"

/* Shown in lines of their own. */
static const char *const summarized[] = {"schema",      "model",     "height",  "width",        "channels",
                                         "n_classes",   "step",      "epoch",   "batch",        "data",
                                         "data_source", "data_xxh3", "n_ranks", "global_batch", NULL};

/* The value of an integer attribute; -1 where there is none. */
static int64_t number(const checkpoint_t *c, const char *name)
{
    const ckpt_attr_t *attr = checkpoint_find_attr(c, name);
    return attr && attr->type == CKPT_INT ? attr->integer : -1;
}

static const char *words(const checkpoint_t *c, const char *name)
{
    const ckpt_attr_t *attr = checkpoint_find_attr(c, name);
    return attr && attr->type == CKPT_TEXT ? attr->text : "(not said)";
}

static void print_summary(const checkpoint_t *c)
{
    printf("%-17s %s\n", "file", checkpoint_path(c));
    printf("%-17s %lld bytes, whole: every byte matches the checksum\n", "size",
           (long long)checkpoint_bytes(c));
    printf("%-17s %lld\n", "schema", (long long)number(c, "schema"));
    if (checkpoint_find_attr(c, "model"))
        printf("%-17s %s for pictures of %s in %lld classes\n", "model", words(c, "model"),
               shape_format(shape_3d(number(c, "height"), number(c, "width"), number(c, "channels"))).text,
               (long long)number(c, "n_classes"));
    if (checkpoint_find_attr(c, "step"))
        printf("%-17s %lld steps done; next is batch %lld of epoch %lld (both from 0)\n", "position",
               (long long)number(c, "step"), (long long)number(c, "batch"), (long long)number(c, "epoch"));
    if (checkpoint_find_attr(c, "data_source"))
        printf("%-17s %s, xxh3 %s\n", "data", words(c, "data_source"), words(c, "data_xxh3"));
    if (checkpoint_find_attr(c, "n_ranks"))
        printf("%-17s %lld, %lld samples a step\n", "ranks", (long long)number(c, "n_ranks"),
               (long long)number(c, "global_batch"));
}

/* Text of several lines is set in from the left, under its name. */
static void print_attr(const ckpt_attr_t *attr)
{
    if (attr->type == CKPT_INT) printf("%-17s %" PRId64 "\n", attr->name, attr->integer);
    if (attr->type == CKPT_REAL) printf("%-17s %.9g\n", attr->name, attr->real);
    if (attr->type != CKPT_TEXT) return;
    if (!strchr(attr->text, '\n')) {
        printf("%-17s %s\n", attr->name, attr->text);
        return;
    }
    printf("%s\n", attr->name);
    for (const char *line = attr->text; *line;) {
        int n = (int)strcspn(line, "\n");
        printf("  %.*s\n", n, line);
        line += n + (line[n] != '\0');
    }
}

/* Root of the mean of squares; of what is no number it is none either. */
static double root_mean_square(const ckpt_array_t *array, const void *data)
{
    int64_t n = shape_count(array->shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = 0;
        switch (array->dtype) {
        case DTYPE_F32:
            x = ((const float *)data)[i];
            break;
        case DTYPE_F64:
            x = ((const double *)data)[i];
            break;
        case DTYPE_I32:
            x = ((const int32_t *)data)[i];
            break;
        case DTYPE_I64:
            x = (double)((const int64_t *)data)[i];
            break;
        case DTYPE_U8:
            x = ((const uint8_t *)data)[i];
            break;
        case DTYPE_BF16:
        case DTYPE_TF32:
        case DTYPE_COUNT:
            break;
        }
        sum += x * x;
    }
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

/* Fills a column on the screen: × is two bytes wide there, but one character. */
static void print_padded(const char *text, int width)
{
    int shown = utf8_count(text);
    printf("%s%*s", text, shown < width ? width - shown : 0, "");
}

static err_t print_arrays(checkpoint_t *c)
{
    int n = checkpoint_array_count(c), width = 5;
    int64_t total = 0, n_bytes;
    for (int i = 0; i < n; i++) {
        int length = (int)strlen(checkpoint_array(c, i)->name);
        if (length > width) width = length;
    }
    printf("\n%-*s  %-8s %-16s %-8s %12s %12s\n", width, "array", "type", "shape", "meaning", "bytes", "rms");
    for (int i = 0; i < n; i++) {
        const ckpt_array_t *array = checkpoint_array(c, i);
        void *data;
        TRY(checkpoint_read_new(c, array, &n_bytes, &data));
        printf("%-*s  %-8s ", width, array->name, dtype_name(array->dtype));
        print_padded(array->shape.n_dims ? shape_format(array->shape).text : "one number", 16);
        printf(" %-8s %12lld %12.6g\n", array->meaning ? array->meaning : "", (long long)n_bytes,
               root_mean_square(array, data));
        total += n_bytes;
        mem_free(&data);
    }
    printf("%-*s  %-8s %-16s %-8s %12lld\n", width, "total", "", "", "", (long long)total);
    return ERR_OK;
}

err_t checkpoint_show(const char *path)
{
    checkpoint_t *c;
    TRY(checkpoint_open(path, &c));
    print_summary(c);
    for (int several = 0; several < 2; several++)
        for (int i = 0; i < checkpoint_attr_count(c); i++) {
            const ckpt_attr_t *attr = checkpoint_attr(c, i);
            int lines = attr->type == CKPT_TEXT && strchr(attr->text, '\n');
            if (!opt_listed(summarized, attr->name) && lines == several) print_attr(attr);
        }
    err_t err = print_arrays(c);
    checkpoint_close(&c);
    return err;
}
