/* SPDX-License-Identifier: MIT */
/* COCO's lists of objects with their images as a source, in COCO's own layout and in those of labelling tools. Which list
 * is which split is left to coco_find.c, where the images are to coco_images.c, reading to data/coco. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/coco/coco.h"
#include "data/image/image.h"
#include "data/source/parts.h"

/* FEW_IMAGES: in so few, images without annotations are looked for. */
enum { FEW_IMAGES = 4096 };

typedef struct impl {
    coco_layout_t layout;
    coco_t *coco[SPLIT_COUNT]; /* NULL: the split is absent */
    coco_names_t names[SPLIT_COUNT];
} impl_t;

/* A path as it is shown: without the data's folder. */
static const char *below_base(const impl_t *impl, const char *path)
{
    const size_t n = strlen(impl->layout.base);
    if (strncmp(path, impl->layout.base, n) != 0) return path;
    while (path[n] == '/') path++;
    return path + n;
}

static const char *list_of(const impl_t *impl, split_t split)
{
    return below_base(impl, impl->layout.list[split]);
}

typedef struct teller {
    source_t *source;
    const char *list;
    char reasons[512]; /* why objects are left out */
} teller_t;

static void tell_flaw(void *context, coco_effect_t effect, const char *line)
{
    teller_t *t = context;
    const size_t used = strlen(t->reasons), room = sizeof t->reasons - used;
    source_note(t->source, "%s: %s", t->list, line);
    if (effect == COCO_LEFT_OUT) snprintf(t->reasons + used, room, "%s%s", used ? "; " : "", line);
}

/* Says what of a list is left out, and refuses it if that is too much (--max-left-out): of the objects, or of the images
 * that have some. */
static err_t check_left_out(source_t *source, split_t split)
{
    static const list_rules_t usual = {.skip_missing = false};
    const impl_t *impl = source->impl;
    const coco_t *coco = impl->coco[split];
    const int64_t n_out = coco_left_out(&coco->flaws), n = coco->n_listed;
    const double most = list_rules_most(source->rules ? source->rules : &usual);
    int64_t n_bare = 0, n_with = 0;
    char bare[96] = "";
    teller_t teller = {source, list_of(impl, split), ""};
    coco_tell(coco, &teller, tell_flaw);
    if (n_out == 0) return ERR_OK;
    for (int64_t i = 0; i < coco->n_images; i++) {
        const coco_image_t *image = &coco->images[i];
        n_bare += image->n_annotations == 0 && image->n_truths > 0;
        n_with += image->n_annotations > 0 || image->n_truths > 0;
    }
    if (n_bare > 0)
        snprintf(bare, sizeof bare, ", and with them all of %" PRId64 " of %" PRId64 " images", n_bare,
                 n_with);
    const double share = fmax((double)n_out / (double)n, (double)n_bare / (double)n_with);
    if (share > most)
        RAISE(ERR_DATA,
              "%s: %" PRId64 " of %" PRId64
              " objects would be left out%s: %s; correct the list, or accept it with "
              "--max-left-out %.2f",
              impl->layout.list[split], n_out, n, bare, teller.reasons, ceil(100 * share) / 100);
    source_tell(source, "%s: %" PRId64 " of %" PRId64 " objects left out%s: %s", list_of(impl, split), n_out,
                n, bare, teller.reasons);
    return ERR_OK;
}

/* The folder of an image, for a message; false: none of the folders has it. */
static bool find_image(coco_roots_t *roots, const char *name, char out[FS_PATH_MAX])
{
    char file[FS_PATH_MAX];
    const char *root = coco_roots_have(roots, name, file);
    char *slash = root ? strrchr(file, '/') : NULL;
    if (slash) *slash = '\0';
    return root && fs_join(out, slash ? root : "", slash ? file : root) == ERR_OK;
}

/* Where an image is, in the data's folder or, if most are missing, beside it, for a message. */
static void find_elsewhere(const impl_t *impl, split_t split, const char *name, bool most, char *out,
                           size_t n_bytes)
{
    const char *base = impl->layout.base;
    char folder_name[FS_PATH_MAX], parent[FS_PATH_MAX], path[FS_PATH_MAX], quoted[FS_PATH_MAX];
    coco_roots_t inside = {.n = 0}, beside = {.n = 0};
    char images[FS_PATH_MAX];
    folder_list_t l = {.n_images = 0};
    out[0] = '\0';
    if (coco_roots_find(base, impl->layout.list[split], "", &inside) == ERR_OK &&
        find_image(&inside, name, path)) {
        snprintf(out, n_bytes,
                 "; it is in %.300s: move all into one folder, or write the folders into the names", path);
    } else if (most && folder_find_parent(base, folder_name, parent) &&
               folder_list(&beside.arena, parent, &l) == ERR_OK) {
        beside.far = true; /* only the folders added here */
        for (int64_t i = -1; i < l.folders.n; i++) {
            if (fs_join(path, parent, i < 0 ? "" : l.folders.names[i]) != ERR_OK) continue;
            (void)coco_roots_add(&beside, path);
            if (fs_join(images, path, "images") == ERR_OK) (void)coco_roots_add(&beside, images);
        }
        const bool found = find_image(&beside, name, path);
        fs_quote(parent, quoted, sizeof quoted);
        if (found && coco_is_list_folder(folder_name))
            snprintf(out, n_bytes, "; it is in %.300s: --data %.300s", path, quoted);
        else if (found)
            snprintf(out, n_bytes, "; it is in %.300s: move the list and the images into one folder", path);
    }
    folder_list_free(&l);
    coco_roots_free(&inside);
    coco_roots_free(&beside);
}

/* Images that are not there: left out, left in, or refused. */
static err_t settle_missing(source_t *source, split_t split, int64_t n_missing, const char *first)
{
    impl_t *impl = source->impl;
    const coco_t *coco = impl->coco[split];
    const list_rules_t *rules = source->rules;
    const char *folder = source->folders[split];
    char where[2 * FS_PATH_MAX] = "";
    if (n_missing == 0) return ERR_OK;
    find_elsewhere(impl, split, first, 2 * n_missing > coco->n_images, where, sizeof where);
    if (n_missing == coco->n_images)
        RAISE(ERR_DATA, "none of the %" PRId64 " images in %s is in %s, the first is %s%s", n_missing,
              list_of(impl, split), folder[0] ? folder : impl->layout.base, first, where);
    if (rules && rules->skip_missing) {
        int64_t n = 0;
        for (int64_t i = 0; i < coco->n_images; i++) {
            if (source->entries[split][i].n_bytes < 0) continue;
            source->samples[split][n] = source->samples[split][i];
            source->entries[split][n++] = source->entries[split][i];
        }
        source->n_samples[split] = n;
        source_tell(source,
                    "%s: %" PRId64 " of %" PRId64
                    " images left out (--skip-missing): not in %s, the first is %s",
                    list_of(impl, split), n_missing, coco->n_images, below_base(impl, folder), first);
        return ERR_OK;
    }
    if (!rules || n_missing > rules->max_bad)
        RAISE(ERR_DATA,
              "%" PRId64 " of the %" PRId64
              " images in %s %s missing from %s, the first is %s%s; add them, or "
              "--skip-missing leaves them out, and --max-bad N replaces up to N of them",
              n_missing, coco->n_images, list_of(impl, split), n_missing > 1 ? "are" : "is", folder, first,
              where);
    for (int64_t i = 0; i < coco->n_images; i++)
        if (source->entries[split][i].n_bytes < 0) source->entries[split][i].n_bytes = 0;
    return ERR_OK;
}

typedef struct measured {
    int64_t n_missing, n_renamed, n_twice;
    const char *missing; /* the first ones */
    int64_t renamed, twice;
    intern_t files;
} measured_t;

static err_t measure_file(const source_t *source, int fd, split_t split, int64_t i, measured_t *m)
{
    impl_t *impl = source->impl;
    sample_t *image = &source->samples[split][i];
    source_entry_t *entry = &source->entries[split][i];
    const char *folder = source->folders[split], *other = NULL;
    bool found = false;
    *entry = (source_entry_t){-1, image->width, image->height, -1, 0};
    if (coco_name_is_path(image->name))
        TRY(source_stat(fd, folder, image->name, &found, &entry->n_bytes, &entry->time_ns));
    if (!found) TRY(coco_names_find(&impl->names[split], image->name, &other));
    if (other) {
        if (m->n_renamed++ == 0) m->renamed = i;
        image->name = other;
        TRY(source_stat(fd, folder, other, &found, &entry->n_bytes, &entry->time_ns));
    }
    if (!found) {
        if (m->n_missing++ == 0) m->missing = image->name;
        return coco_name_is_path(image->name)
                   ? ERR_OK
                   : coco_names_missing(&impl->names[split], image->name, &image->name);
    }
    const size_t n = m->files.n;
    const char *word;
    TRY(intern_text(&m->files, image->name, &word));
    if (m->files.n > n) return ERR_OK;
    if (m->n_twice++ == 0) m->twice = i;
    if (m->n_twice > FEW_IMAGES) return ERR_OK;
    /* Two images of the list that are one file: the same photo twice, or names that have become the same. */
    const sample_t *images = source->samples[split];
    const coco_image_t *listed = impl->coco[split]->images;
    for (int64_t k = 0; k < i; k++)
        if (strcmp(images[k].name, image->name) == 0 && strcmp(listed[k].name, listed[i].name) != 0)
            RAISE(ERR_DATA,
                  "%s: images %" PRId64 " (%s) and %" PRId64
                  " (%s) would both be %s/%s; keep one of them, or "
                  "give each its file",
                  list_of(impl, split), listed[k].id, listed[k].name, listed[i].id, listed[i].name,
                  below_base(impl, folder), image->name);
    return ERR_OK;
}

static err_t measure_files(source_t *source, int fd, split_t split)
{
    impl_t *impl = source->impl;
    const coco_t *coco = impl->coco[split];
    measured_t m = {.n_missing = 0};
    err_t err = ERR_OK;
    for (int64_t i = 0; i < coco->n_images; i++) {
        TRY_OUT(err, source_alive(source));
        TRY_OUT(err, measure_file(source, fd, split, i, &m));
    }
    if (m.n_renamed > 0)
        source_note(source,
                    "%s: %" PRId64
                    " name%s differ%s from %s file's path only in how %s written; first: %s is %s",
                    list_of(impl, split), m.n_renamed, m.n_renamed > 1 ? "s" : "", m.n_renamed > 1 ? "" : "s",
                    m.n_renamed > 1 ? "their" : "its", m.n_renamed > 1 ? "they are" : "it is",
                    coco->images[m.renamed].name, source->samples[split][m.renamed].name);
    if (m.n_twice > 0)
        source_note(source,
                    "%s: %" PRId64
                    " image%s listed twice, each time with its own objects; first: %s (image %" PRId64 ")",
                    list_of(impl, split), m.n_twice, m.n_twice > 1 ? "s are" : " is",
                    coco->images[m.twice].name, coco->images[m.twice].id);
    err = settle_missing(source, split, m.n_missing, m.missing);
out:
    intern_free(&m.files);
    return err;
}

/* Ignores an error, which the next call of source_alive returns again. */
static void report_alive(void *context, int64_t n_read, int64_t n_bytes)
{
    (void)n_read, (void)n_bytes;
    (void)source_alive(context);
}

/* Finds the folder of a list's images.
 *
 *   found  whether some are there as the list names them */
static err_t find_folder(source_t *source, split_t split, bool *found)
{
    impl_t *impl = source->impl;
    const coco_layout_t *layout = &impl->layout;
    const coco_t *coco = impl->coco[split];
    coco_roots_t roots = {.n = 0};
    const char *root = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, coco_roots_find(layout->base, layout->list[split], layout->word[split], &roots));
    err = coco_roots_choose(&roots, coco->images, coco->n_images, &root);
    if (err != ERR_OK) {
        err_context(err, "%s", layout->list[split]);
        goto out;
    }
    *found = root != NULL;
    if (!root) TRY_OUT(err, coco_roots_guess(&roots, &root));
    err = fs_join(source->folders[split], "", root);
out:
    coco_roots_free(&roots);
    return err;
}

/* Only the other split's images were downloaded. */
static err_t note_absent(source_t *source, split_t split)
{
    impl_t *impl = source->impl;
    source_note(source, "%s is not used: its images are not here", list_of(impl, split));
    coco_free(&impl->coco[split]);
    source->folders[split][0] = '\0';
    return ERR_OK;
}

/* After an error, close_coco frees what was read. */
static err_t open_split(source_t *source, split_t split)
{
    impl_t *impl = source->impl;
    const char *list = impl->layout.list[split];
    bool found;
    if (!list[0]) return ERR_OK;
    if (impl->layout.absent[split] == COCO_ABSENT) return note_absent(source, split);
    TRY(coco_read(list, report_alive, source, &impl->coco[split]));
    const coco_t *coco = impl->coco[split];
    if (split == SPLIT_VAL && impl->layout.tests && coco->n_annotations == 0) {
        source_note(source, "%s is not used for validation: it has no annotations", list_of(impl, split));
        coco_free(&impl->coco[split]);
        return ERR_OK;
    }
    TRY(find_folder(source, split, &found));
    if (!found && impl->layout.absent[split] == COCO_MAY_BE_ABSENT) return note_absent(source, split);
    TRY(source_list_new(source, split, coco->n_images));
    for (int64_t i = 0; i < coco->n_images; i++) {
        const coco_image_t *image = &coco->images[i];
        source->samples[split][i] = (sample_t){.id = image->id,
                                               .name = image->name,
                                               .width = image->width,
                                               .height = image->height,
                                               .label = -1,
                                               .n_annotations = image->n_annotations,
                                               .annotations = image->annotations,
                                               .n_truths = image->n_truths,
                                               .truths = image->truths};
    }
    impl->names[split].root = source->folders[split];
    TRY(check_left_out(source, split));
    int fd = open(source->folders[split], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_DATA, "cannot open %s: %s", source->folders[split], strerror(errno));
    err_t err = measure_files(source, fd, split);
    close(fd);
    for (int64_t i = 0; i < source->n_samples[split]; i++)
        source->samples[split][i].n_bytes = (size_t)source->entries[split][i].n_bytes;
    return err;
}

/* Annotations of a list by the rows of another table; the memory of both is the list's own. */
static void renumber(coco_t *coco, const int32_t *rows)
{
    for (int64_t i = 0; i < coco->n_images; i++) {
        annotation_t *annotations = (annotation_t *)coco->images[i].annotations,
                     *truths = (annotation_t *)coco->images[i].truths;
        for (int32_t k = 0; k < coco->images[i].n_annotations; k++)
            annotations[k].category = rows[annotations[k].category];
        for (int32_t k = 0; k < coco->images[i].n_truths; k++) truths[k].category = rows[truths[k].category];
    }
}

/* The only row of a name; -1: none; -2: several. */
static int32_t find_name(const category_t *categories, int32_t n, const char *name)
{
    int32_t row = -1;
    for (int32_t i = 0; i < n; i++)
        if (strcmp(categories[i].name, name) == 0) row = row == -1 ? i : -2;
    return row;
}

static bool are_same(const category_t *a, const category_t *b)
{
    return a->id == b->id && strcmp(a->name, b->name) == 0;
}

/* Category k of the validation list has objects, and training lacks it. */
static err_t report_unknown(const source_t *source, int32_t k, int64_t n_objects)
{
    const impl_t *impl = source->impl;
    const coco_t *train = impl->coco[SPLIT_TRAIN];
    const category_t *c = &impl->coco[SPLIT_VAL]->categories[k];
    for (int32_t i = 0; i < train->n_categories; i++)
        if (train->categories[i].id == c->id)
            RAISE(ERR_DATA,
                  "%s: category %" PRId64 " (%s) of %s is %" PRId64 " (%s) in %s, with %" PRId64
                  " objects, and training has no category of this name",
                  source->path, c->id, train->categories[i].name, list_of(impl, SPLIT_TRAIN), c->id, c->name,
                  list_of(impl, SPLIT_VAL), n_objects);
    RAISE(ERR_DATA, "%s: category %" PRId64 " (%s) of %s, with %" PRId64 " objects, is not in %s",
          source->path, c->id, c->name, list_of(impl, SPLIT_VAL), n_objects, list_of(impl, SPLIT_TRAIN));
}

/* Validation's annotations get the rows of training's table. */
static err_t match_categories(source_t *source)
{
    impl_t *impl = source->impl;
    const coco_t *train = impl->coco[SPLIT_TRAIN], *val = impl->coco[SPLIT_VAL];
    int32_t *rows = NULL;   /* [val->n_categories] of training's */
    int64_t *counts = NULL; /* [val->n_categories] objects */
    const char *unknown = NULL;
    int32_t n_unknown = 0, n_moved = 0, moved = 0;
    const int32_t n = val->n_categories;
    bool same = n == train->n_categories;
    err_t err = ERR_OK;
    for (int32_t i = 0; same && i < n; i++) same = are_same(&train->categories[i], &val->categories[i]);
    if (same) return ERR_OK;
    TRY_OUT(err, mem_new_array(n, sizeof *rows, "categories", &rows));
    TRY_OUT(err, mem_new_array(n, sizeof *counts, "categories", &counts));
    for (int64_t i = 0; i < val->n_images; i++) { /* with those that are left out, and an image of one */
        const coco_image_t *image = &val->images[i];
        const annotation_t *all = image->truths ? image->truths : image->annotations;
        const int32_t n_all = image->truths ? image->n_truths : image->n_annotations;
        for (int32_t k = 0; k < n_all; k++) counts[all[k].category]++;
    }
    for (int32_t k = 0; k < val->n_categories; k++) {
        const category_t *c = &val->categories[k];
        int32_t row = 0;
        while (row < train->n_categories && !are_same(c, &train->categories[row])) row++;
        if (row == train->n_categories) {
            row = find_name(train->categories, train->n_categories, c->name);
            const bool twice =
                row == -2 || (row >= 0 && find_name(val->categories, val->n_categories, c->name) == -2);
            if (twice)
                RAISE_OUT(
                    err, ERR_DATA,
                    "%s: the lists number their categories differently, and the name %s is that of several; "
                    "give each its own name, or both lists the same ids",
                    source->path, c->name);
            if (row >= 0 && n_moved++ == 0) moved = k;
        }
        rows[k] = row;
        if (row >= 0) continue;
        if (counts[k] > 0) TRY_OUT(err, report_unknown(source, k, counts[k]));
        if (n_unknown++ == 0) unknown = c->name;
        rows[k] = 0; /* no object has it */
    }
    if (n_moved > 0)
        source_note(source,
                    "%s numbers %d categor%s otherwise than %s; they are matched by name: %s is %" PRId64
                    ", here %" PRId64,
                    list_of(impl, SPLIT_VAL), n_moved, n_moved > 1 ? "ies" : "y", list_of(impl, SPLIT_TRAIN),
                    val->categories[moved].name, train->categories[rows[moved]].id,
                    val->categories[moved].id);
    if (n_unknown > 0)
        source_note(source, "%s has %d categor%s without objects that %s lacks, such as %s",
                    list_of(impl, SPLIT_VAL), n_unknown, n_unknown > 1 ? "ies" : "y",
                    list_of(impl, SPLIT_TRAIN), unknown);
    if (val->n_categories - n_unknown < train->n_categories)
        source_note(source, "%s has %d of the %d categories of %s", list_of(impl, SPLIT_VAL),
                    val->n_categories - n_unknown, train->n_categories, list_of(impl, SPLIT_TRAIN));
    renumber(impl->coco[SPLIT_VAL], rows);
out:
    mem_free(&rows);
    mem_free(&counts);
    return err;
}

/* Roboflow's category 0: the supercategory of all others, without objects. */
static bool is_root_category(const coco_t *coco)
{
    const category_t *c = coco->categories;
    if (coco->n_categories < 2 || c[0].id != 0) return false;
    for (int32_t i = 1; i < coco->n_categories; i++)
        if (strcmp(c[i].supergroup, c[0].name) != 0) return false;
    for (int64_t i = 0; i < coco->n_images; i++) {
        const coco_image_t *image = &coco->images[i];
        for (int32_t k = 0; k < image->n_annotations; k++)
            if (image->annotations[k].category == 0) return false;
        for (int32_t k = 0; k < image->n_truths; k++)
            if (image->truths[k].category == 0) return false;
    }
    return true;
}

/* Leaves it out, so that outputs are ids and no output is without objects. */
static err_t leave_out_root(source_t *source)
{
    impl_t *impl = source->impl;
    const char *name = NULL;
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        if (impl->coco[split] && !is_root_category(impl->coco[split])) return ERR_OK;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        coco_t *coco = impl->coco[split];
        int32_t *rows = NULL;
        if (!coco) continue;
        TRY(mem_new_array(coco->n_categories, sizeof *rows, "categories", &rows));
        for (int32_t i = 1; i < coco->n_categories; i++) rows[i] = i - 1;
        renumber(coco, rows);
        mem_free(&rows);
        name = coco->categories[0].name;
        coco->categories++;
        coco->n_categories--;
    }
    source_note(source,
                "category 0 (%s) is left out: it is the supercategory of the others and has no objects",
                name);
    return ERR_OK;
}

/* Images in the folder of a list, of few, that no list names. */
static err_t note_unlisted(source_t *source, split_t split)
{
    const impl_t *impl = source->impl;
    const char *folder = source->folders[split], *first = source->samples[split][0].name,
               *slash = strrchr(first, '/');
    const int n_below = slash ? (int)(slash - first) + 1 : 0;
    char path[FS_PATH_MAX], name[FS_PATH_MAX], example[NAME_MAX + 1] = "";
    const struct dirent *entry = NULL;
    DIR *dir = NULL;
    intern_t listed = {.n = 0};
    int64_t n = 0, n_entries = 0;
    const char *word;
    err_t err = ERR_OK;
    for (split_t s = 0; s < SPLIT_COUNT; s++)
        for (int64_t i = 0;
             impl->coco[s] && strcmp(source->folders[s], folder) == 0 && i < impl->coco[s]->n_images; i++) {
            if (i == FEW_IMAGES) goto out;
            TRY_OUT(err, intern_text(&listed, source->samples[s][i].name, &word));
        }
    snprintf(name, sizeof name, "%.*s", n_below, first);
    TRY_OUT(err, fs_join(path, folder, name));
    TRY_OUT(err, folder_open(path, &dir));
    while (n_entries++ < 2 * FEW_IMAGES) {
        TRY_OUT(err, folder_next(dir, path, &entry));
        if (!entry) break;
        if (!image_is_named(entry->d_name) ||
            (size_t)snprintf(name + n_below, sizeof name - (size_t)n_below, "%s", entry->d_name) >=
                sizeof name - (size_t)n_below)
            continue;
        const size_t n_listed = listed.n;
        TRY_OUT(err, intern_text(&listed, name, &word));
        if (listed.n == n_listed) continue;
        if (n++ == 0 || strcmp(entry->d_name, example) < 0)
            snprintf(example, sizeof example, "%s", entry->d_name);
    }
    folder_mask_line(example);
    if (n > 0 && !entry)
        source_tell(source, "%" PRId64 " image%s in %s %s not in the list%s and %s not used, such as %s", n,
                    n > 1 ? "s" : "", below_base(impl, path)[0] ? below_base(impl, path) : path,
                    n > 1 ? "are" : "is", impl->coco[!split] ? "s" : "", n > 1 ? "are" : "is", example);
out:
    if (dir) closedir(dir);
    intern_free(&listed);
    return err;
}

/* "training images/ (result.json), no validation list", before what was said until now. */
static void describe_layout(source_t *source)
{
    const impl_t *impl = source->impl;
    char later[SOURCE_ABOUT_MAX];
    memcpy(later, source->about, sizeof later);
    source->about[0] = '\0';
    char text[SPLIT_COUNT][SOURCE_ABOUT_MAX / 4];
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const char *folder = below_base(impl, source->folders[split]);
        if (impl->coco[split])
            snprintf(text[split], sizeof text[split], "%s %.60s/ (%.100s)", split_words[split],
                     folder[0] ? folder : ".", list_of(impl, split));
        else
            snprintf(text[split], sizeof text[split], "no %s list", split_words[split]);
    }
    source_tell(source, "%s, %s", text[SPLIT_TRAIN], text[SPLIT_VAL]);
    const size_t used = strlen(source->about), n_later = strlen(later);
    if (n_later == 0 || used + n_later + 2 > sizeof source->about) return;
    source->about[used] = '\n';
    memcpy(source->about + used + 1, later, n_later + 1);
}

/* Whether a folder is the same as another, or above it. */
static bool is_above(const char *folder, const char *path)
{
    const size_t n = strlen(folder);
    return strncmp(folder, path, n) == 0 && (path[n] == '/' || !path[n]);
}

/* Lists and folders that serve as nothing, in one line. */
static err_t note_unused(source_t *source)
{
    impl_t *impl = source->impl;
    coco_layout_t *layout = &impl->layout;
    folder_list_t l = {.n_images = 0};
    arena_t arena = {0};
    char path[FS_PATH_MAX];
    err_t err = ERR_OK;
    if (!fs_is_folder(source->path)) goto out; /* a list was given */
    TRY_OUT(err, folder_list(&arena, layout->base, &l));
    for (int64_t i = 0; i < l.folders.n; i++) {
        const char *name = l.folders.names[i];
        bool used = coco_is_list_folder(name) || strcmp(name, "runs") == 0;
        TRY_OUT(err, fs_join(path, layout->base, name));
        for (split_t split = 0; split < SPLIT_COUNT; split++)
            used = used || (impl->coco[split] &&
                            (is_above(path, source->folders[split]) || is_above(path, layout->list[split]) ||
                             (strcmp(source->folders[split], layout->base) == 0 &&
                              source->samples[split][0].name[strcspn(source->samples[split][0].name, "/")])));
        if (!used) coco_add_unused(layout, name, "/");
    }
out:
    folder_list_free(&l);
    arena_free(&arena);
    if (err == ERR_OK && layout->n_unused > COCO_UNUSED_SHOWN)
        source_note(source, "not used: %s and %d more", layout->unused, layout->n_unused - COCO_UNUSED_SHOWN);
    else if (err == ERR_OK && layout->n_unused > 0)
        source_note(source, "not used: %s", layout->unused);
    return err;
}

static err_t open_coco(source_t *source, const char *path)
{
    impl_t *impl = NULL;
    TRY(mem_new(sizeof *impl, "a source of images", &impl));
    source->impl = impl;
    TRY(coco_find(path, &impl->layout));
    for (split_t split = 0; split < SPLIT_COUNT; split++) TRY(open_split(source, split));
    const coco_t *train = impl->coco[SPLIT_TRAIN], *val = impl->coco[SPLIT_VAL], *any = train ? train : val;
    if (!any)
        RAISE(ERR_DATA, "%s has lists of objects, such as %s, but no images of theirs", path,
              impl->layout.unused);
    TRY(leave_out_root(source));
    if (train && val) TRY(match_categories(source));
    source->n_categories = any->n_categories;
    source->categories = any->categories;
    source->has_annotations = true;
    describe_layout(source);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        if (impl->coco[split] &&
            (split == SPLIT_TRAIN || strcmp(source->folders[SPLIT_TRAIN], source->folders[split]) != 0))
            TRY(note_unlisted(source, split));
    if (!train)
        snprintf(source->hint, sizeof source->hint,
                 "%.200s serves as validation; a list for training has \"train\" in its name, such as "
                 "annotations/instances_train.json",
                 list_of(impl, SPLIT_VAL));
    TRY(note_unused(source));
    return source_look_at_boxes(source);
}

static void close_coco(source_t *source)
{
    impl_t *impl = source->impl;
    for (split_t split = 0; impl && split < SPLIT_COUNT; split++) {
        coco_free(&impl->coco[split]);
        coco_names_free(&impl->names[split]);
    }
    mem_free(&source->impl);
}

const source_ops_t source_coco = {
    .files = true,
    .kind = "coco",
    .what = "COCO, and exports of labelling tools in its form (images, and a list such as "
            "annotations/instances_train.json)",
    .is = coco_is,
    .open = open_coco,
    .close = close_coco,
};
