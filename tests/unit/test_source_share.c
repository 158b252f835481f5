/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * A source as bytes: what is restored is what was opened, to the last annotation, for every kind; bytes that
 * are not whole and files that are not here are refused; restoring looks at few files. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/dataset/idx.h"
#include "data/image/image.h"
#include "data/source/source.h"
#include "tests/folder.h"
#include "tests/sample_same.h"
#include "tests/tap.h"
#include "tools/pack/pack.h"

static void put_image(const char *name, int width)
{
    uint8_t pixels[64 * 64], *png = NULL;
    size_t n_bytes;
    memset(pixels, width, sizeof pixels);
    if (image_encode_png(pixels, width, 9, 1, &png, &n_bytes) != ERR_OK) abort();
    folder_put(name, png, n_bytes);
    mem_free(&png);
}

static bool same_split(const source_t *a, const source_t *b, split_t split)
{
    source_buffer_t one = {0}, two = {0};
    sample_t x, y;
    bool same = a->n_samples[split] == b->n_samples[split];
    for (int64_t i = 0; same && i < a->n_samples[split]; i++) {
        const source_entry_t *e = &a->entries[split][i], *f = &b->entries[split][i];
        same = e->n_bytes == f->n_bytes && e->width == f->width && e->height == f->height &&
               e->label == f->label && source_describe(a, split, i, &one, &x) == ERR_OK &&
               source_describe(b, split, i, &two, &y) == ERR_OK && same_sample(&x, &y) &&
               source_read(a, split, i, &one, &x) == ERR_OK && source_read(b, split, i, &two, &y) == ERR_OK &&
               same_sample(&x, &y);
    }
    source_free_buffer(a, &one);
    source_free_buffer(b, &two);
    return same;
}

static bool same_source(const source_t *a, const source_t *b)
{
    bool same = strcmp(a->ops->kind, b->ops->kind) == 0 && strcmp(a->path, b->path) == 0 &&
                a->n_categories == b->n_categories && a->has_annotations == b->has_annotations &&
                a->hash == b->hash && strcmp(a->notes, b->notes) == 0;
    for (int32_t i = 0; same && i < a->n_categories; i++)
        same = a->categories[i].id == b->categories[i].id &&
               strcmp(a->categories[i].name, b->categories[i].name) == 0 &&
               strcmp(a->categories[i].supergroup, b->categories[i].supergroup) == 0;
    for (split_t split = 0; same && split < SPLIT_COUNT; split++) same = same_split(a, b, split);
    return same;
}

/* Of put_coco's list, a third is left out. */
static const list_rules_t half = {.max_left_out = 0.5};

/* Opened, restored, and that restored again: all three are the same. */
static void check_kind(const char *path, const char *kind)
{
    source_t *opened = NULL, *restored = NULL, *again = NULL;
    void *bytes = NULL;
    int64_t n_bytes = 0;
    int64_t n_live = mem_live();
    bool fine = source_open_watched(path, &half, NULL, &opened) == ERR_OK &&
                source_save(opened, &bytes, &n_bytes) == ERR_OK &&
                source_restore(&bytes, n_bytes, &restored) == ERR_OK && !bytes;
    OK(fine && strcmp(opened->ops->kind, kind) == 0 && same_source(opened, restored),
       "%s: what is restored from %lld bytes is what was opened%s", kind, (long long)n_bytes,
       fine ? "" : err_message());
    fine = fine && source_save(restored, &bytes, &n_bytes) == ERR_OK &&
           source_restore(&bytes, n_bytes, &again) == ERR_OK && same_source(opened, again);
    OK(fine, "%s: and can itself be saved", kind);
    source_close(&opened);
    source_close(&restored);
    source_close(&again);
    mem_free(&bytes);
    OK(mem_live() == n_live, "%s: every block was freed", kind);
}

static void put_classes(void)
{
    folder_clear();
    put_image("train/dog/b.png", 5);
    put_image("train/dog/c.png", 6);
    put_image("train/cat/a.png", 7);
    folder_put("train/cat/notes.txt", "x", 1);
    put_image("val/dog/x.png", 8);
}

static void put_idx(void)
{
    enum { N = 5, H = 4, W = 6 };
    uint8_t pixels[N * H * W], labels[N] = {1, 2, 0, 9, 9};
    for (int i = 0; i < N * H * W; i++) pixels[i] = (uint8_t)(i * 53);
    folder_clear();
    if (idx_write(folder_path("train-images-idx3-ubyte"), shape_3d(N, H, W), pixels) != ERR_OK ||
        idx_write(folder_path("train-labels-idx1-ubyte"), shape_1d(N), labels) != ERR_OK ||
        idx_write(folder_path("t10k-images-idx3-ubyte"), shape_3d(2, H, W), pixels) != ERR_OK ||
        idx_write(folder_path("t10k-labels-idx1-ubyte"), shape_1d(2), labels) != ERR_OK)
        abort();
}

/* COCO with annotations that are mended, and points that a float does not tell. */
static void put_coco(void)
{
    static const char list[] =
        "{\"images\":[{\"id\":7,\"file_name\":\"a.png\",\"width\":5,\"height\":9},"
        "{\"id\":8,\"file_name\":\"b.png\",\"width\":6,\"height\":9}],"
        "\"categories\":[{\"id\":3,\"name\":\"dog\"}],\"annotations\":["
        "{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":1,\"bbox\":[0,0,9,9],"
        "\"segmentation\":[[0,0,5,0.123456789,5,9],[1,1,2,2,3,3,1,4]]},"
        "{\"id\":2,\"image_id\":7,\"category_id\":3,\"area\":1,\"bbox\":[8,8,9,9],\"iscrowd\":1,"
        "\"segmentation\":{\"size\":[9,5],\"counts\":[3,42]}},"
        "{\"id\":3,\"image_id\":8,\"category_id\":3,\"area\":1,\"bbox\":[1,1,2,2],"
        "\"segmentation\":[[0,0,5,0.123456789,5,9]]}]}";
    folder_clear();
    put_image("val2017/a.png", 5);
    put_image("val2017/b.png", 6);
    folder_put("annotations/instances_val2017.json", list, strlen(list));
}

/* Packs into folder/shards. */
static bool make_shards(const char *from)
{
    comm_t *comm = NULL;
    source_t *source = NULL;
    pack_result_t result;
    char out[FS_PATH_MAX];
    if (fs_join(out, folder, "shards") != ERR_OK) abort();
    const pack_options_t options = {.out = out, .shard_bytes = 1 << 21};
    bool fine = comm_alone(&comm) == ERR_OK && source_open_watched(from, &half, NULL, &source) == ERR_OK &&
                pack_run(comm, source, &options, &result) == ERR_OK;
    if (!fine) printf("# %s\n", err_message());
    source_close(&source);
    comm_close(&comm);
    return fine;
}

/* Saves what is at the path; *copy can be changed and restored from. */
static void save(const char *path, void **bytes, int64_t *n_bytes)
{
    source_t *source = NULL;
    if (source_open_watched(path, &half, NULL, &source) != ERR_OK ||
        source_save(source, bytes, n_bytes) != ERR_OK)
        abort();
    source_close(&source);
}

static err_t restore_copy(const void *bytes, int64_t n_bytes)
{
    source_t *source = NULL;
    void *copy = NULL;
    if (mem_new((size_t)n_bytes, "a copy", &copy) != ERR_OK) abort();
    if (n_bytes) memcpy(copy, bytes, (size_t)n_bytes);
    err_t err = source_restore(&copy, n_bytes, &source);
    source_close(&source);
    mem_free(&copy);
    return err;
}

/* Every length that is too short, also where the frame says that it is right; then any word that is another.
 */
static void test_broken(const char *path, const char *kind)
{
    char *bytes = NULL;
    int64_t n_bytes = 0, n_live, n_refused = 0, n_tried = 0, n_other = 0, n_words = 0;
    save(path, (void **)&bytes, &n_bytes);
    n_live = mem_live();
    for (int64_t n = 0; n < n_bytes; n += n_bytes / 97 + 1, n_tried++) {
        n_refused += restore_copy(bytes, n) == ERR_DATA;
        if (n < (int64_t)sizeof n) continue;
        memcpy(bytes, &n, sizeof n);
        n_refused += restore_copy(bytes, n) == ERR_DATA;
        n_tried++;
        memcpy(bytes, &n_bytes, sizeof n_bytes);
    }
    OK(n_refused == n_tried, "%s: bytes that are cut off are refused", kind);
    for (int64_t i = 0; i + 8 <= n_bytes; i += 8) {
        static const int64_t others[] = {-1, INT64_MAX, INT64_MIN, 1, (int64_t)1 << 33};
        int64_t word;
        bool zeros = i >= 8 && memcmp(bytes + i - 8, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16) == 0;
        memcpy(&word, bytes + i, sizeof word);
        if (zeros && i % 64) continue; /* behind the end of paths and notes */
        memcpy(bytes + i, &others[n_words++ % 5], sizeof word);
        err_t err = restore_copy(bytes, n_bytes);
        n_other += err != ERR_OK && err != ERR_DATA;
        memcpy(bytes + i, &word, sizeof word);
    }
    OK(n_other == 0 && n_words > 100 && mem_live() == n_live && restore_copy(bytes, n_bytes) == ERR_OK,
       "%s: %lld words that are others are refused, or do no harm", kind, (long long)n_words);
    mem_free(&bytes);
}

/* What was found is not there, as on a host with another folder at that path. */
static void test_absent(void)
{
    void *bytes = NULL;
    int64_t n_bytes = 0;
    put_classes();
    save(folder, &bytes, &n_bytes);
    unlink(folder_path("train/dog/b.png")); /* neither the first nor the last */
    OK(restore_copy(bytes, n_bytes) == ERR_OK, "restoring does not look for every image");
    put_image("train/dog/c.png", 60);
    OK(restore_copy(bytes, n_bytes) == ERR_DATA && SAYS("train/dog/c.png has", "every host needs the same"),
       "the last has another size: %s", err_message());
    unlink(folder_path("val/dog/x.png"));
    put_image("train/dog/c.png", 6);
    OK(restore_copy(bytes, n_bytes) == ERR_DATA && SAYS("cannot access", "val/dog/x.png on this host"),
       "val's only one is not there: %s", err_message());
    mem_free(&bytes);

    put_classes();
    if (!make_shards(folder)) abort();
    save(folder_path("shards"), &bytes, &n_bytes);
    if (truncate(folder_path("shards/val-00000-of-00001.h5"), 9000) != 0) abort();
    OK(restore_copy(bytes, n_bytes) == ERR_DATA && SAYS("val-00000-of-00001.h5 has 9000 bytes on this host"),
       "a shard of another size: %s", err_message());
    mem_free(&bytes);
}

static err_t count_call(void *context)
{
    int *left = context;
    if (--*left == 0) RAISE(ERR_PEER, "that is enough");
    return ERR_OK;
}

static void test_watch(void)
{
    source_t *source = NULL;
    int left = 1000;
    const open_watch_t watch = {count_call, &left};
    put_classes();
    OK(source_open_watched(folder, NULL, &watch, &source) == ERR_OK && left <= 1000 - 4 && !source->watch,
       "who waits for an opening hears of every image");
    source_close(&source);
    left = 2;
    int64_t n_live = mem_live();
    OK(source_open_watched(folder, NULL, &watch, &source) == ERR_PEER && !source && SAYS("that is enough") &&
           mem_live() == n_live,
       "and may end it");
}

/* The objects of a dataset of crops come along. */
static void test_crops(const char *path, const char *kind)
{
    dataset_t *opened = NULL, *restored = NULL;
    dataset_reader_t readers[2] = {{0}};
    void *bytes = NULL;
    int64_t n_bytes = 0, n_same = 0, n_broken = 0;
    transform_settings_t settings = {.task = TASK_CROPS, .input_size = 16};
    bool fine = dataset_is_shared(path) && dataset_open(path, &settings, &opened) == ERR_OK &&
                dataset_save(opened, &bytes, &n_bytes) == ERR_OK;
    for (int64_t n = 0; fine && n < n_bytes; n += n_bytes / 31 + 1) {
        void *cut = NULL;
        if (mem_new((size_t)n, "a copy", &cut) != ERR_OK) abort();
        if (n) memcpy(cut, bytes, (size_t)n);
        n_broken += dataset_restore(&settings, &cut, n, &restored) != ERR_DATA;
        mem_free(&cut);
    }
    fine = fine && dataset_restore(&settings, &bytes, n_bytes, &restored) == ERR_OK && !bytes &&
           dataset_reader_open(opened, &readers[0]) == ERR_OK &&
           dataset_reader_open(restored, &readers[1]) == ERR_OK;
    const int64_t *n = fine ? opened->info.n_samples : NULL;
    for (split_t split = 0; fine && split < SPLIT_COUNT; split++) {
        fine = n[split] > 0 && restored->info.n_samples[split] == n[split] &&
               restored->info.block[split] == opened->info.block[split] && opened->info.block[split] > 1;
        for (int64_t i = 0; fine && i < n[split]; i += 20) {
            int32_t labels[2] = {-2, -3};
            const field_place_t places[] = {{.data = &labels[0]}, {.data = &labels[1]}};
            dataset_request_t request = {.split = split, .index = i, .fields = &places[0]};
            dataset_sample_t a, b;
            fine = dataset_read(&readers[0], &request, &a) == ERR_OK;
            request.fields = &places[1];
            fine = fine && dataset_read(&readers[1], &request, &b) == ERR_OK && labels[0] == labels[1] &&
                   memcmp(a.bytes, b.bytes, 3 * 16 * 16) == 0;
            n_same++;
        }
    }
    OK(fine && n_same > 10 && n_broken == 0 && opened->info.hash == restored->info.hash &&
           strcmp(opened->info.transform, restored->info.transform) == 0 &&
           strcmp(opened->info.source, restored->info.source) == 0,
       "%s: a restored dataset of crops has the same samples", kind);
    dataset_reader_close(&readers[0]);
    dataset_reader_close(&readers[1]);
    dataset_close(&opened);
    dataset_close(&restored);
    mem_free(&bytes);
}

/* Shards keep the file's annotations beside the mended ones. */
static void test_packed_truths(void)
{
    source_t *opened = NULL, *packed = NULL;
    source_buffer_t buffer = {0};
    sample_t sample;
    if (!make_shards(folder) || source_open_watched(folder, &half, NULL, &opened) != ERR_OK ||
        source_open_watched(folder_path("shards"), &half, NULL, &packed) != ERR_OK)
        abort();
    OK(same_split(opened, packed, SPLIT_VAL) &&
           source_describe(packed, SPLIT_VAL, 0, &buffer, &sample) == ERR_OK && sample.n_annotations == 1 &&
           sample.annotations[0].box[2] == 5 && sample.n_truths == 2 && sample.truths[0].box[2] == 9 &&
           sample.truths[0].exact && sample.truths[1].crowd,
       "a folder and its shards have the same truths");
    source_free_buffer(packed, &buffer);
    source_close(&opened);
    source_close(&packed);
}

int main(void)
{
    enum { N_TINY = 3 + 3 + 2 };
    char tiny[FS_PATH_MAX] = "";
    const char *data = getenv("DPTRAIN_DATA");
    if (!folder_begin()) tap_skip_all("no folder in /tmp");
    tap_plan(3 + 2 + 3 + 2 + 3 + 2 + 3 + 2 + 1 + 4 + 2 + N_TINY + 2);
    put_classes();
    check_kind(folder, "folder");
    test_broken(folder, "folder");
    if (!make_shards(folder)) abort();
    check_kind(folder_path("shards"), "shards");
    test_broken(folder_path("shards"), "shards");
    put_idx();
    check_kind(folder, "idx");
    test_broken(folder, "idx");
    put_coco();
    check_kind(folder, "coco");
    test_broken(folder, "coco");
    test_packed_truths();
    test_absent();
    test_watch();
    if (data) snprintf(tiny, sizeof tiny, "%s/coco_tiny", data);
    if (data && fs_is_folder(tiny)) {
        folder_clear();
        if (!make_shards(tiny)) abort();
        check_kind(tiny, "coco");
        check_kind(folder_path("shards"), "shards");
        test_crops(tiny, "coco");
        test_crops(folder_path("shards"), "shards");
    } else {
        for (int i = 0; i < N_TINY; i++) tap_skip("DPTRAIN_DATA names no folder with coco_tiny");
    }
    folder_clear();
    rmdir(folder);
    OK(!dataset_is_shared("digits") && !dataset_is_shared("synthetic"), "what is made is not shared");
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
