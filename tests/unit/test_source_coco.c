/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Lists of COCO's form as labelling tools write them: layouts, names that are written otherwise than the files' paths,
 * missing images, lists of which much is left out, categories of two lists; and annotations in other formats. */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/image/image.h"
#include "data/source/source.h"
#include "tests/folder.h"
#include "tests/tap.h"

#define TWO "{\"id\":1,\"name\":\"cat\"},{\"id\":2,\"name\":\"dog\"}"

/* One small PNG per name of a list with blanks. */
static void put_images(const char *names)
{
    uint8_t pixels[5 * 4] = {0}, *bytes = NULL;
    char name[256];
    size_t n_bytes;
    if (image_encode_png(pixels, 5, 4, 1, &bytes, &n_bytes) != ERR_OK) abort();
    for (int n; sscanf(names, "%255s%n", name, &n) == 1; names += n) folder_put(name, bytes, n_bytes);
    mem_free(&bytes);
}

/* A list of images, each with one object of a category. */
static void put_list_of(const char *path, const char *names, const char *categories, int category)
{
    char text[1 << 13], name[256];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"info\":{\"x\":[1]},\"images\":[");
    int id = 0;
    for (int n; sscanf(names, "%255s%n", name, &n) == 1; names += n)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"id\":%d,\"file_name\":\"%s\",\"width\":5,\"height\":4}", id ? "," : "",
                                 id + 1, name),
            id++;
    used += (size_t)snprintf(text + used, sizeof text - used, "],\"categories\":[%s],\"annotations\":[",
                             categories);
    for (int i = 1; i <= id && category >= 0; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used,
                             "%s{\"id\":%d,\"image_id\":%d,\"category_id\":%d,\"area\":4,\"bbox\":[0,0,2,2]}",
                             i > 1 ? "," : "", i, i, category);
    used += (size_t)snprintf(text + used, sizeof text - used, "]}");
    folder_put(path, text, used);
}

static void put_list(const char *path, const char *names)
{
    put_list_of(path, names, TWO, 1);
}

/* Opens `path` with so many images, reads them all, and shows these words in the header. */
static bool opens_with(const list_rules_t *rules, const char *path, int n_train, int n_val, const char *about)
{
    source_t *source = NULL;
    source_buffer_t buffer = {0};
    sample_t sample;
    err_t err = source_open_watched(path, rules, NULL, &source);
    bool right = err == ERR_OK && strcmp(source->ops->kind, "coco") == 0 &&
                 source->n_samples[SPLIT_TRAIN] == n_train && source->n_samples[SPLIT_VAL] == n_val &&
                 strstr(source->about, about);
    for (split_t split = 0; right && split < SPLIT_COUNT; split++)
        for (int64_t i = 0; right && i < source->n_samples[split]; i++)
            right = source_read(source, split, i, &buffer, &sample) == ERR_OK && sample.n_annotations == 1;
    if (!right && source)
        printf("# %d, %d: %s\n", (int)source->n_samples[0], (int)source->n_samples[1], source->about);
    if (!right) printf("# %s\n", err == ERR_OK ? "" : err_message());
    if (source) source_free_buffer(source, &buffer);
    source_close(&source);
    return right;
}

static bool opens(int n_train, int n_val, const char *about)
{
    return opens_with(NULL, folder, n_train, n_val, about);
}

static bool refused_with(const list_rules_t *rules, const char *path, const char *words)
{
    source_t *source = NULL;
    int64_t n_live = mem_live();
    err_t err = source_open_watched(path, rules, NULL, &source);
    bool right = err == ERR_DATA && !source && mem_live() == n_live && SAYS(words);
    if (!right) printf("# %d: %s\n", (int)err, source ? source->about : err_message());
    source_close(&source);
    return right;
}

static bool refused(const char *words)
{
    return refused_with(NULL, folder, words);
}

/* The notes have these words. */
static bool notes(const char *words)
{
    source_t *source = NULL;
    bool right = source_open(folder, &source) == ERR_OK && strstr(source->notes, words);
    if (!right) printf("# %s\n", source ? source->notes : err_message());
    source_close(&source);
    return right;
}

typedef struct layout {
    const char *what, *images;
    const char *lists[3][2]; /* path and names; a name of "-": without annotations */
    int n_train, n_val;
    const char *about;
} layout_t;

static const layout_t layouts[] = {
    {"a test's list does not train",
     "images/a.png images/b.png",
     {{"test-dev.json", "a.png"}, {"validation.json", "b.png"}},
     0,
     1,
     "no training list, validation images/ (validation.json)"},
    {"a word of training and another: neither",
     "images/a.png images/b.png",
     {{"train_val.json", "a.png"}, {"validation.json", "b.png"}},
     1,
     1,
     "training images/ (train_val.json), validation images/ (validation.json)"},
    {"a line break in a name",
     "images/a.png",
     {{"two\nlines.json", "a.png"}},
     1,
     0,
     "training images/ (two?lines.json), no validation list"},
    {"all names in other capitals, images in images/",
     "images/A.PNG images/B.PNG",
     {{"result.json", "/home/me/a.png b.png"}},
     2,
     0,
     "training images/ (result.json)"},
    {"all names in other capitals, images in the only other folder",
     "photos/A.PNG photos/B.PNG",
     {{"result.json", "a.png b.png"}},
     2,
     0,
     "training photos/ (result.json)"},
    {"COCO 2014",
     "train2014/a.png val2014/b.png",
     {{"annotations/instances_train2014.json", "a.png"}, {"annotations/instances_val2014.json", "b.png"}},
     1,
     1,
     "training train2014/ (annotations/instances_train2014.json), validation val2014/"},
    {"COCO's lists of other years, without their images",
     "train2017/a.png val2017/b.png",
     {{"annotations/instances_train2014.json", "x.png"},
      {"annotations/instances_train2017.json", "a.png"},
      {"annotations/instances_val2017.json", "b.png"}},
     1,
     1,
     "training train2017/ (annotations/instances_train2017.json), validation val2017/"},
    {"a split of one's own",
     "photos_train/a.png photos_val/b.png",
     {{"annotations/instances_photos_train.json", "a.png"},
      {"annotations/instances_photos_val.json", "b.png"}},
     1,
     1,
     "training photos_train/ (annotations/instances_photos_train.json)"},
    {"Roboflow",
     "train/a.png valid/b.png test/c.png",
     {{"train/_annotations.coco.json", "a.png"},
      {"valid/_annotations.coco.json", "b.png"},
      {"test/_annotations.coco.json", "c.png"}},
     1,
     1,
     "training train/ (train/_annotations.coco.json), validation valid/"},
    {"CVAT",
     "images/default/a.png",
     {{"annotations/instances_default.json", "a.png"}},
     1,
     0,
     "training images/default/ (annotations/instances_default.json), no validation list"},
    {"CVAT, flat",
     "images/a.png",
     {{"annotations/instances_default.json", "a.png"}},
     1,
     0,
     "training images/ ("},
    {"Datumaro",
     "images/train/a.png images/val/a.png",
     {{"annotations/instances_train.json", "a.png"}, {"annotations/instances_val.json", "a.png"}},
     1,
     1,
     "training images/train/ (annotations/instances_train.json), validation images/val/"},
    {"Label Studio", "images/1-a.png", {{"result.json", "images/1-a.png"}}, 1, 0, "(result.json)"},
    {"makesense",
     "a.png b.png",
     {{"labels_my-project_2026-11-28-01-02-03.json", "a.png b.png"}},
     2,
     0,
     "training ./ (labels_my-project_2026-11-28-01-02-03.json)"},
    {"VIA", "a.png", {{"via_export_coco.json", "a.png"}}, 1, 0, "(via_export_coco.json)"},
    {"labelme2coco",
     "JPEGImages/a.png",
     {{"annotations.json", "JPEGImages/a.png"}},
     1,
     0,
     "(annotations.json)"},
    {"Supervisely",
     "ds0/images/a.png",
     {{"ds0/annotations/instances.json", "a.png"}},
     1,
     0,
     "training ds0/images/ (ds0/annotations/instances.json)"},
    {"FiftyOne", "data/a.png", {{"labels.json", "a.png"}}, 1, 0, "training data/ (labels.json)"},
    {"MMDetection's balloons",
     "train/a.png val/b.png",
     {{"train/annotation_coco.json", "a.png"}, {"val/annotation_coco.json", "b.png"}},
     1,
     1,
     "training train/ (train/annotation_coco.json), validation val/"},
    {"one folder of images, two lists",
     "images/a.png images/b.png",
     {{"train.json", "a.png"}, {"val.json", "b.png"}},
     1,
     1,
     "training images/ (train.json), validation images/ (val.json)"},
    {"lists in their splits' folders, images below",
     "train/images/a.png valid/images/b.png",
     {{"train/labels.json", "a.png"}, {"valid/labels.json", "b.png"}},
     1,
     1,
     "training train/images/ (train/labels.json), validation valid/images/"},
    {"images deep below", "a/b/c/x.png", {{"list.json", "x.png"}}, 1, 0, "training a/b/c/ (list.json)"},
    {"LabelMe's files beside a list",
     "a.png b.png",
     {{"dataset.json", "a.png b.png"}, {"a.json", "-"}},
     2,
     0,
     "(dataset.json)"},
    {"a test list where there is none for validation",
     "train/a.png test/b.png",
     {{"train.json", "a.png"}, {"test.json", "b.png"}},
     1,
     1,
     "validation test/ (test.json)"},
    {"a test list without annotations",
     "train2017/a.png test2017/b.png",
     {{"annotations/instances_train2017.json", "a.png"}, {"annotations/image_info_test2017.json", "b.png"}},
     1,
     0,
     "no validation list"},
    {"a validation list alone",
     "val2017/b.png",
     {{"annotations/instances_val2017.json", "b.png"}},
     0,
     1,
     "no training list, validation val2017/"},
    {"only the images for validation",
     "val2017/b.png",
     {{"annotations/instances_train2017.json", "a.png"}, {"annotations/instances_val2017.json", "b.png"}},
     0,
     1,
     "no training list, validation val2017/"},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

static void test_layouts(void)
{
    for (int i = 0; i < N_LAYOUTS; i++) {
        const layout_t *l = &layouts[i];
        folder_clear();
        put_images(l->images);
        for (int k = 0; k < 3 && l->lists[k][0]; k++) {
            const char *names = l->lists[k][1];
            if (strcmp(names, "-") == 0)
                folder_put(l->lists[k][0], "{\"shapes\":[]}", 13);
            else
                put_list(l->lists[k][0], names);
        }
        OK(opens(l->n_train, l->n_val, l->about), "%s", l->what);
    }
}

static void test_choices(void)
{
    folder_clear();
    put_images("images/a.png images/b.png");
    put_list("annotations/instances_train2014.json", "a.png");
    put_list("annotations/instances_train2015.json", "b.png");
    OK(refused("instances_train2014.json") && SAYS("instances_train2015.json", "--data"),
       "two lists for one split");
    OK(opens_with(NULL, folder_path("annotations/instances_train2015.json"), 1, 0,
                  "instances_train2015.json"),
       "a list itself");
    char cwd[FS_PATH_MAX];
    if (!getcwd(cwd, sizeof cwd) || chdir(folder_path("annotations")) != 0) abort();
    OK(opens_with(NULL, "instances_train2015.json", 1, 0, "images/"), "from inside its folder");
    if (chdir(cwd) != 0) abort();
    put_list("annotations/instances_train2017.json", "a.png b.png");
    OK(opens(2, 0, "instances_train2017.json") && notes("not used: annotations/instances_train2014.json"),
       "several years: 2017, and the others are named");
    folder_clear();
    put_images("a.png b.png");
    put_list("first.json", "a.png");
    put_list("second.json", "b.png");
    OK(refused("first.json") && SAYS("second.json", "train.json"),
       "two lists whose names do not tell their splits");
    folder_clear();
    put_images("x/a.png y/a.png");
    put_list("list.json", "a.png");
    OK(refused("several folders") && SAYS("x", "y"), "two folders that have the images");
    put_images("x/b.png y/c.png");
    put_list("list.json", "a.png b.png c.png b.png");
    OK(refused("c.png") && SAYS("1 of the 4", "/y: move"), "an image is in another folder than the others");
    folder_clear();
    put_images("images/a.png");
    put_list("train.json", "a.png");
    if (symlink("gone.json", folder_path("val.json")) != 0) abort();
    OK(refused("val.json"), "a list for validation that cannot be read");
    folder_clear();
    put_images("ds/images/a.png");
    put_list("ds/annotations/train.json", "a.png");
    OK(refused_with(NULL, folder_path("ds/annotations"), "--data") && SAYS("ds/images"), "a folder too low");
    OK(refused_with(NULL, folder_path("ds/images"), "--data") && SAYS("/ds"), "a folder of images alone");
    put_images("ds/images/new.png ds/stuff/z.png");
    OK(opens_with(NULL, folder_path("ds"), 1, 0, "1 image in images/ is not in the list"),
       "an image without annotations");
}

static void test_names(void)
{
    static const struct {
        const char *listed, *file;
    } same[] = {
        {"./a.png", "a.png"},
        {"train2017/a.png", "a.png"},
        {"sub\\\\a.png", "sub/a.png"},
        {"C:\\\\photos\\\\a.png", "a.png"},
        {"/home/me/photos/a.png", "a.png"},
        {"../../upload/1/a.png", "a.png"},
        {"sub/../a.png", "a.png"},
        {"my%20photo.png", "my\tphoto.png"},
        {"file:///home/me/a.png", "a.png"},
        {"http://images.org/train2017/a.png", "a.png"},
        {"https://x.org/a.png?size=1#2", "a.png"},
        {"/data/local-files/?d=photos/a.png", "a.png"},
        {"A.PNG", "a.png"},
        {"a.png", "A.Png"},
        {"SUB/a.png", "sub/a.png"},
        {"caf\xC3\xA9.png", "cafe\xCC\x81.png"},
        {"cafe\xCC\x81.png", "caf\xC3\xA9.png"},
        {"\xE3\x81\x8C.png", "\xE3\x81\x8B\xE3\x82\x99.png"},
        {"\xED\x95\x9C.png", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB.png"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char file[256], *tab;
        folder_clear();
        put_images("train2017/other.png");
        snprintf(file, sizeof file, "train2017/%s", same[i].file);
        put_images("x.png");
        if ((tab = strchr(file, '\t'))) *tab = ' ';
        char path[FS_PATH_MAX];
        memcpy(path, folder_path(file), sizeof path);
        *strrchr(path, '/') = '\0';
        if (fs_make_folder(path) != ERR_OK || rename(folder_path("x.png"), folder_path(file)) != 0) abort();
        char names[300];
        snprintf(names, sizeof names, "other.png %s", same[i].listed);
        put_list("annotations/instances_train2017.json", names);
        OK(opens(2, 0, "training train2017/") && notes("1 name differs"), "%s is %s", same[i].listed, file);
    }
    static const char *const outside[] = {"../secret.png", "/secret.png", "sub/../../secret.png",
                                          "..%2fsecret.png"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        char names[300];
        folder_clear();
        put_images("train2017/other.png secret.png");
        snprintf(names, sizeof names, "other.png %s", outside[i]);
        put_list("annotations/instances_train2017.json", names);
        OK(refused("secret.png") && SAYS("1 of the 2 images"), "%s is not outside the images' folder",
           outside[i]);
    }
    folder_clear();
    put_images("train2017/a.png");
    put_list("annotations/instances_train2017.json", "x/a.png y/a.png");
    OK(refused("x/a.png") && SAYS("y/a.png", "train2017/a.png"), "two names that would be one file");
    put_images("train2017/A.png train2017/b.png");
    put_list("annotations/instances_train2017.json", "b.png a.PNG");
    OK(refused("a.PNG"), "a name that could be two files");
    put_list("annotations/instances_train2017.json", "a.png a.png");
    OK(opens(2, 0, "") && notes("1 image is listed twice"), "the same photo twice");
}

static void test_missing(void)
{
    const list_rules_t skip = {.skip_missing = true}, bad = {.max_bad = 1};
    source_t *source = NULL;
    source_buffer_t buffer = {0};
    sample_t sample;
    folder_clear();
    put_images("train2017/a.png");
    put_list("annotations/instances_train2017.json", "a.png b.png");
    OK(refused("1 of the 2 images") && SAYS("b.png", "--skip-missing", "--max-bad"), "an image is missing");
    OK(opens_with(&skip, folder, 1, 0, "1 of 2 images left out (--skip-missing)"),
       "--skip-missing leaves it out");
    OK(source_open_watched(folder, &bad, NULL, &source) == ERR_OK && source->n_samples[SPLIT_TRAIN] == 2 &&
           source_read(source, SPLIT_TRAIN, 1, &buffer, &sample) == ERR_DATA && SAYS("b.png"),
       "--max-bad leaves it in the list, and reading it fails");
    if (source) source_free_buffer(source, &buffer);
    source_close(&source);
    put_images("images/v.png images/w.png");
    put_list("annotations/instances_val.json", "u.png v.png w.png");
    put_list("annotations/instances_train2017.json", "a.png");
    OK(refused("1 of the 3 images") && SAYS("u.png"), "the first of a split is missing");
    put_list("annotations/instances_val.json", "u.png");
    OK(opens(1, 0, "no validation list") && notes("its images are not here"), "all of a split are missing");
    put_list("annotations/instances_train2017.json", "a.png ../annotations/instances_train2017.json");
    OK(source_open_watched(folder, &bad, NULL, &source) == ERR_OK &&
           source_describe(source, SPLIT_TRAIN, 1, &buffer, &sample) == ERR_OK && !strstr(sample.name, ".."),
       "nor does it lead outside");
    source_close(&source);
    put_list("annotations/instances_train2017.json", "a.png b.png c.png");
    OK(refused_with(&bad, folder, "2 of the 3 images"), "more than --max-bad allows");
    put_list("annotations/instances_train2017.json", "b.png c.png");
    OK(refused_with(&skip, folder, "none of the 2 images"), "all are missing");
    folder_clear();
    put_images("up/load/1/b.png");
    put_list("set/result.json", "../load/1/b.png");
    OK(refused_with(NULL, folder_path("set"), "/up/load/1: move"), "they are beside the folder");
}

static void test_left_out(void)
{
    enum { N = 10 };
    const list_rules_t half = {.max_left_out = 0.5}, none = {.max_left_out = -1};
    char text[4096];
    for (int n_empty = 1; n_empty <= 4; n_empty += 3) {
        size_t used =
            (size_t)snprintf(text, sizeof text,
                             "{\"images\":[{\"id\":1,\"file_name\":\"a.png\",\"width\":5,\"height\":4}],"
                             "\"categories\":[" TWO "],\"annotations\":[");
        for (int i = 0; i < N; i++)
            used += (size_t)snprintf(
                text + used, sizeof text - used,
                "%s{\"id\":%d,\"image_id\":1,\"category_id\":1,\"area\":4,\"bbox\":[0,0,%d,2]}", i ? "," : "",
                i + 1, i < n_empty ? 0 : 2);
        used += (size_t)snprintf(text + used, sizeof text - used, "]}");
        folder_clear();
        put_images("train2017/a.png");
        folder_put("annotations/instances_train2017.json", text, used);
        source_t *source = NULL;
        char words[64];
        snprintf(words, sizeof words, "%d of 10 objects left out", n_empty);
        if (n_empty > 1)
            OK(refused("4 of 10 objects") && SAYS("annotation 1", "--max-left-out 0.40"),
               "too much is left out");
        else
            OK(refused_with(&none, folder, "1 of 10 objects"), "--max-left-out 0");
        OK(source_open_watched(folder, &half, NULL, &source) == ERR_OK && strstr(source->about, words),
           "the header says what is left out");
        source_close(&source);
    }
}

/* All that may be unusual in two lists is noted. */
static void test_notes(void)
{
    static const char head[] =
        "{\"images\":[{\"id\":1,\"path\":\"/x/a.png\",\"width\":5,\"height\":4,\"neg_category_ids\":[]}],"
        "\"categories\":[{\"id\":1,\"name\":\"cat\"},{\"id\":2,\"name\":\"cat\"},{\"id\":3}],\"annotations\":[";
    static const char *const objects[] = {
        "\"area\":4,\"bbox\":[0,0,0,2]",
        "\"area\":4,\"bbox\":[2,0,-1,2]",
        "\"id\":3,\"area\":4,\"bbox\":[0,0,2,2]",
        "\"id\":3,\"area\":4,\"bbox\":[0,0,2,2]",
        "\"id\":3,\"area\":4,\"bbox\":[0,0,\"3\",2]",
        "\"ignore\":1,\"bbox\":[0,0,2,2]",
        "\"area\":4,\"bbox\":[3,0,3,2]",
        "\"segmentation\":[[0,0,2,0,2,2],[0,0,1,1]],\"bbox\":[0,0,2,2]",
        "\"segmentation\":[[0,0,2,2]],\"bbox\":[0,0,2,2]",
        "\"segmentation\":[0,0,2,0,2,2]",
    };
    static const char *const last[] = {
        "without area", "negative",    "listed twice", "ignore",         "exceeded",        "had polygons",
        "has only",     "brackets",    "of another",   "no integers as", "no area;",        "has no box",
        "as strings",   "has no name", "the name of",  "no file_name",   "neg_category_ids"};
    const list_rules_t half = {.max_left_out = 0.5};
    source_t *source = NULL;
    bool all = true;
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", head);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s{\"image_id\":1,\"category_id\":1,%s}",
                                 i ? "," : "", objects[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, "]}");
    folder_clear();
    put_images("train2017/a.png val2017/a.png");
    folder_put("annotations/instances_train2017.json", text, used);
    folder_put("annotations/instances_val2017.json", text, used);
    if (source_open_watched(folder, &half, NULL, &source) != ERR_OK) printf("# %s\n", err_message());
    const char *val = source ? strstr(source->notes, "instances_val2017.json") : NULL;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        const bool here = val && strstr(source->notes, last[i]) < val && strstr(val, last[i]);
        if (!here) printf("# not of both lists: %s\n", last[i]);
        all &= here;
    }
    OK(all, "every flaw of both lists is noted");
    source_close(&source);
}

/* Categories of a validation list; the row of its object. */
static int val_row(const char *categories, int category, const char *note)
{
    source_t *source = NULL;
    source_buffer_t buffer = {0};
    sample_t sample;
    int row = -1;
    put_list_of("annotations/instances_val2017.json", "b.png", categories, category);
    if (source_open(folder, &source) != ERR_OK) return -2;
    if (source->n_categories == 2 && strstr(source->notes, note) &&
        source_describe(source, SPLIT_VAL, 0, &buffer, &sample) == ERR_OK)
        row = sample.n_annotations > 0 ? sample.annotations[0].category : 9;
    if (row < 0) printf("# %s\n", source->notes);
    source_free_buffer(source, &buffer);
    source_close(&source);
    return row;
}

static void test_categories(void)
{
    folder_clear();
    put_images("train2017/a.png val2017/b.png");
    put_list("annotations/instances_train2017.json", "a.png");
    OK(val_row("{\"id\":2,\"name\":\"dog\"}", 2, "has 1 of the 2 categories") == 1, "fewer categories");
    OK(val_row("{\"id\":2,\"name\":\"dog\"},{\"id\":1,\"name\":\"cat\"}", 1, "") == 0, "another order");
    OK(val_row("{\"id\":1,\"name\":\"dog\"},{\"id\":2,\"name\":\"cat\"}", 1, "matched by name") == 1,
       "other ids");
    OK(val_row(TWO ",{\"id\":3,\"name\":\"cow\"}", 2, "without objects") == 1, "one more, without objects");
    OK(val_row(TWO ",{\"id\":3,\"name\":\"cow\"}", 3, "") == -2 && SAYS("cow", "category 3"),
       "one more, with objects");
    OK(val_row("{\"id\":1,\"name\":\"bird\"}", 1, "") == -2 && SAYS("category 1 (cat)", "1 (bird)"),
       "another name");
    OK(val_row("{\"id\":8,\"name\":\"cat\"},{\"id\":9,\"name\":\"cat\"}", 8, "") == -2 &&
           SAYS("cat", "several"),
       "a name twice");
    OK(val_row(TWO, 1, "") == 0, "the same");
    folder_clear();
    put_images("train/a.png valid/b.png");
#define ROOT                                                                                                 \
    "{\"id\":0,\"name\":\"pets\"},{\"id\":1,\"name\":\"cat\",\"supercategory\":\"pets\"},"                   \
    "{\"id\":2,\"name\":\"pets\",\"supercategory\":\"pets\"}"
    put_list_of("train/_annotations.coco.json", "a.png", ROOT, 2);
    put_list_of("valid/_annotations.coco.json", "b.png", ROOT, 1);
    source_t *source = NULL;
    OK(source_open(folder, &source) == ERR_OK && source->n_categories == 2 && source->categories[0].id == 1 &&
           strstr(source->notes, "category 0 (pets) is left out"),
       "Roboflow's category 0");
    source_close(&source);
    put_list_of("valid/_annotations.coco.json", "b.png", ROOT, 0);
    OK(source_open(folder, &source) == ERR_OK && source->n_categories == 3, "it has objects");
    source_close(&source);
}

static void test_formats(void)
{
    static const struct {
        const char *file, *text, *words;
    } others[] = {
        {"labels/train/a.txt", "0 0.5 0.5 0.2 0.1\n", "globox convert -f yolov5"},
        {"labels/train/a.txt", "0 0.1 0.1 0.2 0.1 0.3 0.3\n", "supervision"},
        {"data.yaml", "train: images/train\nnc: 2\nnames: [cat, dog]\n", "YOLO"},
        {"images/train/a.txt", "1 0.5 0.5 0.2 0.1\r\n", "YOLO"},
        {"Annotations/a.xml", "<?xml version='1.0'?>\n<annotation><folder>x</folder>",
         "globox convert -f pascalvoc"},
        {"annotations.xml", "<?xml version='1.0'?>\n<annotations><version>", "globox convert -f cvat"},
        {"images/train/a.json", "{\"version\":\"5\",\"shapes\":[],\"imagePath\":\"a.png\"}", "labelme2coco"},
        {"via_project.json", "{\"_via_settings\":{}}", "VIA"},
        {"via_region_data.json", "{\"a.png1\":{\"regions\":{\"0\":{\"shape_attributes\":{}}}}}", "VIA"},
        {"tasks.json", "[{\"id\":1,\"data\":{\"image\":\"x\"},\"annotations\":[{\"result\":[]}]}]",
         "Label Studio"},
        {"annotations/train.json", "{\"dm_format_version\":\"1.0\",\"categories\":{},\"items\":[]}",
         "datum convert"},
        {"images/train/_annotations.createml.json",
         "[{\"image\":\"a.png\",\"annotations\":[{\"label\":\"cat\",\"coordinates\":{}}]}]", "createml"},
        {"boxes.csv", "filename,width,height,class,xmin,ymin,xmax,ymax\n", "CSV"},
        {"boxes.csv", "a.png,1,2,3,4,cat\n", "CSV"},
        {"boxes.csv", "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax\n",
         "globox convert -f openimage"},
        {"ds0/ann/a.png.json", "{\"objects\":[{\"classTitle\":\"cat\"}]}", "Supervisely"},
        {"metadata.jsonl", "{\"file_name\": \"a.png\", \"objects\": {\"bbox\": []}}", "Hugging Face"},
        {"found.json", "[{\"image_id\":1,\"category_id\":1,\"bbox\":[0,0,1,1],\"score\":0.5}]", "results"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        folder_clear();
        put_images("images/train/a.png");
        folder_put(others[i].file, others[i].text, strlen(others[i].text));
        OK(refused(others[i].words) && SAYS("COCO"), "%s: %s", others[i].file, others[i].words);
    }
    source_t *source = NULL;
    folder_clear();
    put_images("cat/a.png dog/b.png");
    folder_put("cat/a.txt", "0 0.5 0.5 0.2 0.1\n", 18);
    folder_put("dog/b.xml", "<annotation>", 12);
    OK(source_open(folder, &source) == ERR_OK && strcmp(source->ops->kind, "folder") == 0 &&
           source->n_categories == 2,
       "files beside the images of classes stay unused");
    source_close(&source);
}

static bool opens_classes(void)
{
    source_t *source = NULL;
    bool right = source_open(folder, &source) == ERR_OK && strcmp(source->ops->kind, "folder") == 0 &&
                 source->n_categories == 2;
    if (!right) printf("# %s\n", source ? source->about : err_message());
    source_close(&source);
    return right;
}

/* Folders of classes with files that are like lists. */
static void test_classes(void)
{
    source_t *source = NULL;
    static const char plants[] = "{\"images\":[{\"id\":1,\"file_name\":\"train/cat/a.png\"}],\"categories\":"
                                 "[{\"id\":1,\"name\":\"cat\"}],\"annotations\":[{\"id\":1,"
                                 "\"image_id\":1,\"category_id\":1}]}",
                      sizes[] = "{\"images\":[60000, 10000],\"annotations\":[\"by hand\"]}",
                      names[] = "train: train\nnc: 2\nnames: [cat, dog]\n";
    folder_clear();
    put_images("cat/a.png dog/b.png");
    put_list("cat/coco.json", "a.png");
    OK(opens_classes(), "a list of one class's images");
    folder_clear();
    put_images("train/cat/a.png train/dog/b.png val/cat/a.png val/dog/b.png");
    folder_put("train.json", plants, sizeof plants - 1);
    OK(opens_classes(), "a list without boxes, as iNaturalist's");
    folder_put("train.json", sizes, sizeof sizes - 1);
    OK(opens_classes(), "no list of images");
    folder_put("data.yaml", names, sizeof names - 1);
    OK(opens_classes(), "the names of classes in YOLO's form");
    folder_put("anno_train.csv", "a.png,1,2,3,4,14\n", 17);
    folder_put("train/labels.csv", "file,xmin,ymin,xmax,ymax\n", 25);
    OK(opens_classes(), "boxes of the images");
    put_list("train.json", "cat/a.png dog/b.png");
    OK(opens(2, 0, "training train/ (train.json)"), "but a list with boxes is one");
    folder_clear();
    put_images("images/cat/a.png images/dog/b.png");
    folder_put("bounding_boxes.txt", "1 60.0 27.0 325.0 304.0\n", 24);
    OK(source_open(folder, &source) == ERR_OK && strcmp(source->ops->kind, "folder") == 0,
       "boxes of all images in a file, as CUB's, are not YOLO's labels");
    source_close(&source);
}

int main(void)
{
    if (!folder_begin()) tap_skip_all("no folder in /tmp");
    tap_plan(N_LAYOUTS + 11 + 19 + 4 + 3 + 1 + 9 + 4 + 10 + 19 + 7 + 1);
    test_layouts();
    test_choices();
    test_names();
    test_missing();
    test_left_out();
    test_notes();
    test_categories();
    test_formats();
    test_classes();
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
