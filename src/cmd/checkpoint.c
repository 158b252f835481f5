/* What is in a checkpoint, and whether it is whole. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/store.h"
#include "cmd/cmd.h"
#include "train/model_file.h"
#include "train/weights.h"

static const char usage[] =
    "usage: dptrain checkpoint show CHECKPOINT|FOLDER     what is in it; of a folder, its newest\n"
    "       dptrain checkpoint verify CHECKPOINT|FOLDER…  exit code 3 when one is damaged\n"
    "       dptrain checkpoint export CHECKPOINT|FOLDER --out FILE.npz|FILE.h5 [--names TABLE]\n"
    "                                                     its weights, for other programs\n";

typedef struct export_options {
    const char *out, *names;
} export_options_t;

#define FIELD(name) offsetof(export_options_t, name)
static const opt_t table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE", "what export writes", false},
    {"names", OPT_STRING, FIELD(names), "torchvision", 0, 0, NULL, "TABLE",
     "what export calls the weights, and how it lays them out: torchvision, detectron2, huggingface, "
     "dptrain, or a "
     "file of rules",
     false},
};

static const char *const verbs[] = {"show", "verify", "export"};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

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

/* Reads an array, which checks it against its own checksum. *data: mem_free. */
static err_t read_array(checkpoint_t *c, const ckpt_array_t *array, int64_t *n_bytes, void **data)
{
    *n_bytes = shape_count(array->shape) * (int64_t)dtype_size(array->dtype);
    TRY(mem_new((size_t)*n_bytes, "an array of the checkpoint", data));
    err_t err = checkpoint_read(c, array->name, array->dtype, array->shape, *data);
    if (err != ERR_OK) mem_free(data);
    return err;
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
        TRY(read_array(c, array, &n_bytes, &data));
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

static err_t show(const char *where)
{
    char path[FS_PATH_MAX];
    checkpoint_t *c;
    TRY(model_file_locate(where, path, NULL));
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

typedef struct tally {
    int n, n_damaged, n_unknown; /* unknown: the system refused, which says nothing about the file */
} tally_t;

/* The whole-file checksum, then each array's own. */
static err_t verify_arrays(const char *path, int64_t *n_bytes)
{
    checkpoint_t *c;
    TRY(checkpoint_open(path, &c));
    err_t err = ERR_OK;
    *n_bytes = checkpoint_bytes(c);
    for (int i = 0; err == ERR_OK && i < checkpoint_array_count(c); i++) {
        void *data = NULL;
        int64_t n;
        err = read_array(c, checkpoint_array(c, i), &n, &data);
        mem_free(&data);
    }
    checkpoint_close(&c);
    return err;
}

static void count(tally_t *tally, err_t err, const char *path, int64_t n_bytes)
{
    tally->n++;
    tally->n_damaged += err == ERR_DATA;
    tally->n_unknown += err != ERR_OK && err != ERR_DATA;
    if (err == ERR_OK)
        printf("ok      %s (%lld bytes)\n", path, (long long)n_bytes);
    else
        printf("%s %s\n", err == ERR_DATA ? "not ok " : "unknown", err_message());
    fflush(stdout);
}

static void verify(const char *where, tally_t *tally)
{
    char path[FS_PATH_MAX];
    int64_t *steps = NULL, n_bytes = 0;
    int n = 0;
    err_t err = ERR_OK;
    if (!fs_is_folder(where)) {
        err = verify_arrays(where, &n_bytes);
        count(tally, err, where, n_bytes);
        return;
    }
    err = checkpoint_store_list(where, &steps, &n);
    if (err == ERR_OK && n == 0)
        err = err_raise(ERR_DATA, __FILE__, __LINE__, "there is no checkpoint in the folder %s", where);
    if (err != ERR_OK) count(tally, err, where, 0);
    for (int i = 0; i < n; i++) {
        err = checkpoint_store_path(where, steps[i], path);
        if (err == ERR_OK) err = verify_arrays(path, &n_bytes);
        count(tally, err, path, n_bytes);
    }
    mem_free(&steps);
}

static err_t judge(const tally_t *tally)
{
    if (tally->n_unknown > 0)
        RAISE(ERR_SYSTEM, "%d of %d could not be looked at; try again", tally->n_unknown, tally->n);
    if (tally->n_damaged > 0)
        RAISE(ERR_DATA, "%d of %d cannot be used; --resume auto passes over what is damaged",
              tally->n_damaged, tally->n);
    return ERR_OK;
}

/* Of a checkpoint that is written over only the weights would be left. */
static err_t check_apart(const char *from, const char *to)
{
    struct stat a, b;
    if (stat(from, &a) == 0 && stat(to, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        RAISE(ERR_USAGE, "--out %s is the checkpoint itself; give the weights another name", to);
    return ERR_OK;
}

/* Of a folder its newest; the moving average of the weights where there is one. */
static err_t export_weights(const char *where, const export_options_t *options)
{
    char path[FS_PATH_MAX];
    checkpoint_t *c = NULL;
    graph_t *g = NULL;
    float *params = NULL, *states = NULL;
    pixel_norm_t norm;
    bool averaged = false;
    err_t err = ERR_OK;
    TRY(model_file_locate(where, path, NULL));
    TRY(check_apart(path, options->out));
    TRY_OUT(err, checkpoint_open(path, &c));
    TRY_OUT(err, model_file_graph(c, &g, &norm));
    TRY_OUT(err, mem_new_array(g->n_flat_params, sizeof *params, "weights", &params));
    TRY_OUT(err, mem_new_array(g->n_flat_states, sizeof *states, "running statistics", &states));
    TRY_OUT(err, model_file_read(c, g, params, states, NULL, &averaged));
    TRY_OUT(err, weights_export(options->out, options->names, g, params, states));
    log_info("%s: %d arrays of %s by the names of %s%s", options->out, g->n_params + g->n_states, g->model,
             options->names, averaged ? " (the moving average of its weights)" : "");
    for (int k = 0; k < (int)g->sample.dim[3]; k++)
        log_info("pictures were read as (value / 255 - %.6g) / %.6g%s", norm.mean[k], norm.std[k],
                 g->sample.dim[3] == 1 ? "" : k == 0 ? " in the first channel" : " in the next");
out:
    mem_free(&params);
    mem_free(&states);
    graph_free(&g);
    checkpoint_close(&c);
    return err;
}

static err_t run(const char *const *args, int n, const export_options_t *options, bool export_given)
{
    const char *verb = n > 0 ? args[0] : "", *nearest = opt_nearest(verb, verbs, N_VERBS);
    tally_t tally = {0};
    if (strcmp(verb, "export") == 0) {
        if (n != 2 || !options->out)
            RAISE(
                ERR_USAGE,
                "dptrain checkpoint export wants one checkpoint, or the folder of a run, and --out FILE.npz");
        return export_weights(args[1], options);
    }
    if (export_given) RAISE(ERR_USAGE, "--out and --names are options of dptrain checkpoint export");
    if (strcmp(verb, "show") == 0) {
        if (n != 2) RAISE(ERR_USAGE, "dptrain checkpoint show wants one checkpoint, or the folder of a run");
        return show(args[1]);
    }
    if (strcmp(verb, "verify") == 0) {
        if (n < 2) RAISE(ERR_USAGE, "dptrain checkpoint verify wants checkpoints, or folders of runs");
        for (int i = 1; i < n; i++) verify(args[i], &tally);
        return judge(&tally);
    }
    if (n == 0) RAISE(ERR_USAGE, "dptrain checkpoint wants a verb: show, verify or export");
    RAISE(ERR_USAGE, "dptrain checkpoint has no verb '%s'; %s%s%s", verb,
          nearest ? "did you mean '" : "it has show, verify and export", nearest ? nearest : "",
          nearest ? "'?" : "");
}

err_t cmd_checkpoint(const cmd_context_t *context)
{
    const char **args = NULL;
    int n = 0;
    export_options_t options = {NULL, NULL};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    err_t err = opt_defaults(&group, 1);
    for (int i = 0; i < N_VERBS; i++) cmd_tell_word(context, "word", verbs[i], "");
    if (cmd_wants_help(context, usage, &group, 1)) return ERR_OK;
    if (err == ERR_OK)
        err = mem_new_array(context->argc + 1, sizeof *args, "words of the command line", &args);
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, args, context->argc, &n);
    if (err == ERR_OK && log_speaks()) err = run(args, n, &options, group.given != 0);
    mem_free(&args);
    return cmd_fail(err);
}
