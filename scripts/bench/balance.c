/* SPDX-License-Identifier: MIT */
/* How busy ranks are in detection training: replays the images of recorded steps (records of `dptrain train`) for many
 * numbers of ranks with the program's own sampler, and fits how costs follow from canvases and objects. Prints
 * Markdown: balance FILE.jsonl... */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset/sampler.h"
#include "data/load/samples.h"
#include "text/json.h"

enum { N_BATCHES = 200, MAX_RANKS = 64, SEED = 1, UNKNOWNS = 3, MOST_POSITIVES = 128 };

/* An image in a recorded step. */
typedef struct seen {
    map_size_t canvas;
    int group;
    int64_t objects, positives, rank, step;
    double sec;
} seen_t;

static struct {
    seen_t *image;
    int64_t n, room, n_steps;
    map_size_t canvas[BALANCE_GROUPS];
    int n_canvases;
    int64_t most_positives;
} pool;

static int group_of(map_size_t canvas)
{
    for (int i = 0; i < pool.n_canvases; i++)
        if (pool.canvas[i].height == canvas.height && pool.canvas[i].width == canvas.width) return i;
    if (pool.n_canvases == BALANCE_GROUPS) return -1;
    pool.canvas[pool.n_canvases] = canvas;
    return pool.n_canvases++;
}

static bool read_image(const json_value_t *value, seen_t *out)
{
    const char *canvas;
    *out = (seen_t){.step = pool.n_steps};
    if (!json_get_text(value, "canvas", &canvas) ||
        sscanf(canvas, "%" SCNd64 "x%" SCNd64, &out->canvas.height, &out->canvas.width) != 2 ||
        !json_get_int(value, "objects", &out->objects) ||
        !json_get_int(value, "positives", &out->positives) || !json_get_int(value, "rank", &out->rank) ||
        !json_get_real(value, "sec", &out->sec) || out->rank < 0 || out->sec <= 0)
        return false;
    out->group = group_of(out->canvas);
    return out->group >= 0;
}

static err_t add(const seen_t *image)
{
    if (pool.n == pool.room) {
        seen_t *larger;
        pool.room = 2 * pool.room + 1024;
        TRY(mem_new_array(pool.room, sizeof *larger, "recorded images", &larger));
        if (pool.n > 0) memcpy(larger, pool.image, (size_t)pool.n * sizeof *larger);
        mem_free(&pool.image);
        pool.image = larger;
    }
    if (image->positives > pool.most_positives) pool.most_positives = image->positives;
    pool.image[pool.n++] = *image;
    return ERR_OK;
}

static err_t read_line(json_reader_t *reader, const char *path, int64_t number, const char *line, size_t n)
{
    const json_value_t *record, *images;
    const char *kind;
    json_reader_reset(reader);
    err_t err = json_read(reader, line, n, &record);
    if (err != ERR_OK) return err_context(err, "%s, line %" PRId64, path, number);
    images = json_get(record, "images");
    if (!json_get_text(record, "record", &kind) || strcmp(kind, "step") != 0 || !images) return ERR_OK;
    for (const json_value_t *v = images->first; v; v = v->next) {
        seen_t image;
        if (!read_image(v, &image))
            RAISE(ERR_DATA,
                  "%s, line %" PRId64 ": invalid `images`: expected canvas, objects, positives, sec and rank",
                  path, number);
        TRY(add(&image));
    }
    pool.n_steps++;
    return ERR_OK;
}

static err_t read_records(const char *path)
{
    FILE *file = fopen(path, "re");
    json_reader_t reader = {.arena = {0}};
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    err_t err = ERR_OK;
    if (!file) RAISE(ERR_DATA, "cannot read %s", path);
    for (int64_t k = 1; err == ERR_OK && (n = getline(&line, &room, file)) > 0; k++)
        err = read_line(&reader, path, k, line, (size_t)n);
    free(line);
    json_reader_free(&reader);
    fclose(file);
    return err;
}

/* Ways to make and deal a batch. */
typedef enum way { AS_THEY_COME, DEALT, ONE_CANVAS, BY_SECONDS, N_WAYS } way_t;
static const char *const way_names[N_WAYS] = {"as they come", "dealt by estimated cost within the batch",
                                              "one canvas a batch, dealt by estimated cost",
                                              "one canvas a batch, dealt by the recorded seconds"};

/* The recorded image that stands for a sample. */
static const seen_t *image_of(int64_t index)
{
    rng_t rng = rng_new(SEED, RNG_TEST, (uint64_t)index);
    return &pool.image[rng_below(&rng, (uint32_t)pool.n)];
}

static void weigh(const void *weigher, int64_t epoch, int64_t index, sampler_weight_t *out)
{
    const way_t way = *(const way_t *)weigher;
    const seen_t *image = image_of(index);
    (void)epoch;
    out->group = way == DEALT ? 0 : image->group;
    out->cost = way == BY_SECONDS ? image->sec : detection_cost(image->canvas, image->objects);
}

/* Mean over the slowest rank, of all batches. */
static err_t replay(way_t way, int ranks, int64_t each, double *share)
{
    sampler_t *sampler = NULL;
    const sampler_options_t options = {.n_samples = N_BATCHES * ranks * each,
                                       .global_batch = ranks * each,
                                       .n_shards = ranks,
                                       .seed = SEED,
                                       .weigh = way == AS_THEY_COME ? NULL : weigh,
                                       .weigher = &way};
    double mean = 0, slowest = 0;
    TRY(sampler_new(&options, &sampler));
    for (int64_t b = 0; b < N_BATCHES; b++) {
        /* The whole batch in the order in which its shards have it, a shard a rank. */
        const sampler_slice_t slice = sampler_at(sampler, 0, b, 0, 1);
        double most = 0;
        for (int rank = 0; rank < ranks; rank++) {
            int64_t first;
            const int64_t n = sampler_shard(sampler, slice.n_global, rank, 1, &first);
            double sec = 0;
            for (int64_t i = first; i < first + n; i++) sec += image_of(slice.index[i])->sec;
            mean += sec / ranks;
            if (sec > most) most = sec;
        }
        slowest += most;
    }
    sampler_free(&sampler);
    *share = mean / slowest;
    return ERR_OK;
}

static err_t print_replays(void)
{
    static const int ranks[] = {2, 8, 32, MAX_RANKS}, each[] = {1, 2, 4};
    enum { N_RANKS = sizeof ranks / sizeof *ranks, N_EACH = sizeof each / sizeof *each };
    printf("| ranks × images a rank |");
    for (int i = 0; i < N_RANKS * N_EACH; i++) printf(" %d×%d |", ranks[i % N_RANKS], each[i / N_RANKS]);
    printf("\n|---|");
    for (int i = 0; i < N_RANKS * N_EACH; i++) printf("---:|");
    printf("\n");
    for (way_t way = 0; way < N_WAYS; way++) {
        printf("| %s |", way_names[way]);
        for (int i = 0; i < N_RANKS * N_EACH; i++) {
            double share;
            TRY(replay(way, ranks[i % N_RANKS], each[i / N_RANKS], &share));
            printf(" %.3f |", share);
        }
        printf("\n");
    }
    return ERR_OK;
}

/* The recorded steps as they were. */
static void print_recorded(void)
{
    double mean = 0, slowest = 0;
    int64_t n_ranks = 1;
    for (int64_t i = 0; i < pool.n; i++)
        if (pool.image[i].rank >= n_ranks) n_ranks = pool.image[i].rank + 1;
    for (int64_t first = 0, next; first < pool.n; first = next) {
        double most = 0;
        for (next = first; next < pool.n && pool.image[next].step == pool.image[first].step;) next++;
        for (int64_t rank = 0; rank < n_ranks; rank++) {
            double sec = 0;
            for (int64_t i = first; i < next; i++)
                if (pool.image[i].rank == rank) sec += pool.image[i].sec;
            mean += sec / (double)n_ranks;
            if (sec > most) most = sec;
        }
        slowest += most;
    }
    printf("- Recorded: %" PRId64 " images of %" PRId64 " steps on %" PRId64
           " ranks, %d canvases, up to %" PRId64 " positives. Mean over the slowest rank: %.3f.\n",
           pool.n, pool.n_steps, n_ranks, pool.n_canvases, pool.most_positives, mean / slowest);
}

/* Sums of a linear least-squares fit. */
typedef struct fit {
    double a[UNKNOWNS][UNKNOWNS], b[UNKNOWNS];
    int n_unknowns;
} fit_t;

static void fit_add(fit_t *f, const double *x, double y)
{
    for (int i = 0; i < f->n_unknowns; i++) {
        for (int k = 0; k < f->n_unknowns; k++) f->a[i][k] += x[i] * x[k];
        f->b[i] += x[i] * y;
    }
}

/* By Gauss; false if the data do not determine it. */
static bool fit_solve(fit_t *f, double *out)
{
    const int n = f->n_unknowns;
    for (int i = 0; i < n; i++) {
        int pivot = i;
        for (int k = i + 1; k < n; k++)
            if (fabs(f->a[k][i]) > fabs(f->a[pivot][i])) pivot = k;
        for (int c = 0; c < n; c++) {
            const double t = f->a[i][c];
            f->a[i][c] = f->a[pivot][c], f->a[pivot][c] = t;
        }
        const double t = f->b[i];
        f->b[i] = f->b[pivot], f->b[pivot] = t;
        if (fabs(f->a[i][i]) < 1e-9 * (1 + fabs(f->b[i]))) return false;
        for (int k = i + 1; k < n; k++) {
            const double part = f->a[k][i] / f->a[i][i];
            for (int c = i; c < n; c++) f->a[k][c] -= part * f->a[i][c];
            f->b[k] -= part * f->b[i];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        out[i] = f->b[i];
        for (int c = i + 1; c < n; c++) out[i] -= f->a[i][c] * out[c];
        out[i] /= f->a[i][i];
    }
    return true;
}

/* Share of the seconds' variance that a value of each image explains, linearly. */
static double explained(double (*value)(const seen_t *image))
{
    double n = (double)pool.n, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
    for (int64_t i = 0; i < pool.n; i++) {
        const double v = value(&pool.image[i]), sec = pool.image[i].sec;
        x += v / n, y += sec / n;
    }
    for (int64_t i = 0; i < pool.n; i++) {
        const double v = value(&pool.image[i]) - x, sec = pool.image[i].sec - y;
        xx += v * v, xy += v * sec, yy += sec * sec;
    }
    return xx > 0 && yy > 0 ? xy * xy / (xx * yy) : NAN;
}

static double estimate_of(const seen_t *image)
{
    return detection_cost(image->canvas, image->objects);
}

static double area_of(const seen_t *image)
{
    return (double)(image->canvas.height * image->canvas.width) / (800 * 1088);
}

/* Positives of n objects as most · n / (n + half), which detection_cost assumes: the best `half` by trying, and the root of
 * the mean square of what is left. */
static double fit_half(double *rest)
{
    double best = 0;
    *rest = INFINITY;
    for (double half = 0.5; half <= 200; half += 0.5) {
        double sum = 0;
        for (int64_t i = 0; i < pool.n; i++) {
            const double n = (double)pool.image[i].objects;
            const double off = MOST_POSITIVES * n / (n + half) - (double)pool.image[i].positives;
            sum += off * off / (double)pool.n;
        }
        if (sum < *rest * *rest) best = half, *rest = sqrt(sum);
    }
    return best;
}

static void print_fits(void)
{
    double c[3], rest;
    fit_t fit = {.n_unknowns = 3};
    for (int64_t i = 0; i < pool.n; i++)
        fit_add(&fit,
                (double[]){1, area_of(&pool.image[i]), (double)pool.image[i].positives / MOST_POSITIVES},
                pool.image[i].sec);
    const double half = fit_half(&rest);
    printf("- Positives of an image with n objects: %d · n / (n + %.1f), off by %.0f (root mean square).\n",
           MOST_POSITIVES, half, rest);
    if (fit_solve(&fit, c))
        printf("- Seconds of an image: %.3f, %.3f for a canvas of 800×1088 and %.3f for 128 positives.\n",
               c[0], c[1], c[2]);
    printf("- Of the variance of seconds, the canvas's area explains %.0f %%, the estimate %.0f %%.\n",
           100 * explained(area_of), 100 * explained(estimate_of));
}

int main(int argc, char **argv)
{
    err_t err = ERR_OK;
    if (argc < 2) {
        fprintf(stderr, "usage: balance FILE.jsonl...\n");
        return ERR_USAGE;
    }
    for (int i = 1; err == ERR_OK && i < argc; i++) err = read_records(argv[i]);
    if (err == ERR_OK && pool.n == 0)
        err = err_raise(ERR_DATA, __FILE__, __LINE__,
                        "no step of %s has `images`; expected the records of detection "
                        "training",
                        argv[1]);
    if (err == ERR_OK) err = print_replays();
    if (err == ERR_OK) {
        printf("\n");
        print_recorded();
        print_fits();
    } else {
        fprintf(stderr, "%s\n", err_message());
    }
    mem_free(&pool.image);
    return (int)err;
}
