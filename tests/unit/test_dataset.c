/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Folders of IDX files good and bad, the choice of a dataset, what is measured, what is read. Real MNIST is
 * checked where $DPTRAIN_DATA/mnist is. */
#include <ftw.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/dataset.h"
#include "data/dataset/idx.h"
#include "tests/tap.h"

enum { H = 2, W = 3, N_TRAIN = 4, N_VAL = 3, MAX_SAMPLES = 16 };

static char root[] = "/tmp/dptrain-dataset-XXXXXX";
static char folder[FS_PATH_MAX];

static const char *in_folder(const char *name)
{
    static char path[FS_PATH_MAX];
    if (fs_join(path, folder, name) != ERR_OK) abort();
    return path;
}

static void put_labels(const char *name, int64_t n, uint8_t first)
{
    uint8_t values[MAX_SAMPLES];
    for (int64_t i = 0; i < n; i++) values[i] = (uint8_t)(first + i);
    if (idx_write(in_folder(name), shape_1d(n), values) != ERR_OK) abort();
}

static void put_images(const char *name, int64_t n, int64_t height, int64_t width)
{
    uint8_t values[MAX_SAMPLES * 16];
    for (int64_t i = 0; i < n * height * width; i++) values[i] = (uint8_t)(10 * i);
    if (idx_write(in_folder(name), shape_3d(n, height, width), values) != ERR_OK) abort();
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *position)
{
    (void)info, (void)kind, (void)position;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* The four files, small and right. */
static void fresh_folder(void)
{
    remove_tree(folder);
    if (fs_make_folder(folder) != ERR_OK) abort();
    put_images("train-images-idx3-ubyte", N_TRAIN, H, W);
    put_labels("train-labels-idx1-ubyte", N_TRAIN, 2);
    put_images("t10k-images-idx3-ubyte", N_VAL, H, W);
    put_labels("t10k-labels-idx1-ubyte", N_VAL, 3);
}

/* Refused as bad data, in a message with all these words; nothing leaks. */
static bool refused(const char *a, const char *b)
{
    dataset_t *dataset = NULL;
    int64_t n_live = mem_live();
    err_t err = dataset_open(folder, NULL, &dataset);
    bool right = err == ERR_DATA && !dataset && mem_live() == n_live && strstr(err_message(), a) &&
                 strstr(err_message(), b);
    if (!right) printf("# got %d: %s\n", err, err ? err_message() : "(no error)");
    if (dataset) dataset_close(&dataset);
    return right;
}

static uint64_t hash_of_folder(void)
{
    dataset_t *dataset = NULL;
    if (dataset_open(folder, NULL, &dataset) != ERR_OK) return 0;
    uint64_t hash = dataset->info.hash;
    dataset_close(&dataset);
    return hash;
}

static void test_good_folder(void)
{
    dataset_t *dataset = NULL;
    fresh_folder();
    OK_CALL(dataset_open(folder, NULL, &dataset), "a good folder");
    if (!dataset) exit(1);
    const dataset_info_t *info = &dataset->info;
    OK(strcmp(info->kind, "idx") == 0 && strcmp(info->source, folder) == 0, "kind and source");
    OK(info->n_samples[SPLIT_TRAIN] == N_TRAIN && info->n_samples[SPLIT_VAL] == N_VAL && info->height == H &&
           info->width == W && info->channels == 1 && info->n_classes == 6 && !info->class_names &&
           strstr(info->about, "labels 0, 1"),
       "sizes, classes by the labels, and those without images");
    /* Pixels 0, 10, …, 230: mean 115, variance 100 (24² − 1) / 12. */
    const pixel_norm_t *norm = &info->norm;
    OK(fabs(norm->mean[0] - 115.0 / 255) < 1e-12 &&
           fabs(norm->std[0] - sqrt(100.0 * 575 / 12) / 255) < 1e-12 && norm->mean[2] == norm->mean[0] &&
           norm->std[2] == norm->std[0],
       "mean and standard deviation, the same for every channel");

    static const int64_t index[] = {3, 0};
    static const int32_t labels[] = {5, 2};
    dataset_reader_t reader;
    bool right = dataset_reader_open(dataset, &reader) == ERR_OK;
    for (int i = 0; right && i < 2; i++) {
        int32_t label = -1;
        const dataset_request_t request = {
            .split = SPLIT_TRAIN, .index = index[i], .fields = &(field_place_t){.data = &label}};
        dataset_sample_t sample;
        right = dataset_read(&reader, &request, &sample) == ERR_OK && label == labels[i];
        for (int k = 0; k < H * W; k++) right = right && sample.bytes[k] == 60 * index[i] + 10 * k;
    }
    dataset_reader_close(&reader);
    OK(right, "samples are read by index");
    dataset_close(&dataset);
    dataset_close(&dataset);
    OK(!dataset, "closing nothing");
}

static void test_norm(void)
{
    static const pixel_norm_t norm = {{0, 0.5, 1}, {1, 0.25, 0.5}};
    static const uint8_t bytes[] = {0, 0, 0, 255, 255, 255, 51, 102, 153};
    static const double expected[] = {0, -2, -2, 1, 2, 0, 0.2, -0.4, -0.8};
    float to[9];
    pixel_table_t table;
    pixel_table_make(&norm, 3, &table);
    pixel_table_apply(&table, bytes, 3, to);
    bool right = true;
    for (int i = 0; i < 9; i++) right = right && fabs(to[i] - expected[i]) < 1e-6;
    OK(right, "each channel has its mean and standard deviation");
    pixel_table_make(&norm, 1, &table);
    pixel_table_apply(&table, bytes, 9, to);
    for (int i = 0; i < 9; i++) right = right && fabs(to[i] - bytes[i] / 255.0) < 1e-6;
    OK(right, "… of one channel, the first");
}

static void test_hash(void)
{
    fresh_folder();
    uint64_t hash = hash_of_folder();
    OK(hash != 0 && hash == hash_of_folder(), "the hash of the same data is the same");
    put_labels("t10k-labels-idx1-ubyte", N_VAL, 2);
    OK(hash != hash_of_folder(), "other labels change it");
    fresh_folder();
    put_images("train-images-idx3-ubyte", N_TRAIN, W, H);
    put_images("t10k-images-idx3-ubyte", N_VAL, W, H);
    OK(hash != hash_of_folder(), "the same bytes in another shape change it");

    dataset_t flat = {.info = {.n_samples = {1, 1}, .height = 1, .width = 2, .channels = 1, .n_classes = 10}};
    uint8_t grey[] = {9, 9}, label = 0;
    for (int s = 0; s < SPLIT_COUNT; s++) flat.pixels[s] = grey, flat.labels[s] = &label;
    dataset_measure(&flat);
    OK(flat.info.norm.std[0] == 1.0, "images of one grey have std 1, not 0");
}

static void test_names(void)
{
    fresh_folder();
    uint64_t hash = hash_of_folder();
    char dotted[FS_PATH_MAX];
    snprintf(dotted, sizeof dotted, "%s", in_folder("train-images.idx3-ubyte"));
    if (rename(in_folder("train-images-idx3-ubyte"), dotted) != 0) abort();
    snprintf(dotted, sizeof dotted, "%s", in_folder("t10k-labels.idx1-ubyte.gz"));
    if (rename(in_folder("t10k-labels-idx1-ubyte"), dotted) != 0) abort();
    OK(hash && hash == hash_of_folder(), "names with dots and .gz (plain inside) are found");
    unlink(dotted);
    OK(refused("no file t10k-labels-idx1-ubyte (or .gz)", folder), "a missing file: its name and the folder");
    OK(strstr(err_message(), "data/fetch_mnist.sh") && strstr(err_message(), "--data digits"),
       "… and what to do");
}

static void test_bad_folder(void)
{
    fresh_folder();
    put_labels("train-labels-idx1-ubyte", N_TRAIN + 1, 0);
    OK(refused("train-images-idx3-ubyte holds 4 images", "train-labels-idx1-ubyte holds 5 labels"),
       "counts that differ: both files are named");
    fresh_folder();
    put_labels("t10k-labels-idx1-ubyte", N_VAL, 4);
    OK(refused("t10k-labels-idx1-ubyte: label 6 at sample 2", "train-labels-idx1-ubyte"),
       "a validation label that training does not have");
    fresh_folder();
    put_images("t10k-images-idx3-ubyte", N_VAL, W, H);
    OK(refused("2×3", "3×2"), "splits with images of different sizes");
    fresh_folder();
    put_labels("train-images-idx3-ubyte", N_TRAIN, 0);
    OK(refused("train-images-idx3-ubyte", "0x00000801 (a file of labels)"), "labels under the images' name");
    fresh_folder();
    if (truncate(in_folder("t10k-images-idx3-ubyte"), 20) != 0) abort();
    OK(refused("t10k-images-idx3-ubyte", "truncated"), "a truncated file");
    remove_tree(folder);
    OK(refused(folder, "does not exist"), "a missing folder");
    FILE *f = fopen(folder, "w");
    if (!f || fclose(f) != 0) abort();
    OK(refused(folder, "is not a folder"), "a file in its place");
    unlink(folder);
}

/* A set of EMNIST, of which the first training image is upright in 3 × 2. */
static void put_set(const char *set, int64_t n, uint8_t first)
{
    char name[64];
    uint8_t labels[64], pixels[64 * H * W];
    for (int s = 0; s < SPLIT_COUNT; s++) {
        for (int64_t i = 0; i < n; i++) labels[i] = (uint8_t)(first + i);
        for (int64_t i = 0; i < n * H * W; i++) pixels[i] = (uint8_t)i;
        snprintf(name, sizeof name, "%s-%s-images-idx3-ubyte", set, s ? "test" : "train");
        if (idx_write(in_folder(name), shape_3d(n, H, W), pixels) != ERR_OK) abort();
        snprintf(name, sizeof name, "%s-%s-labels-idx1-ubyte", set, s ? "test" : "train");
        if (idx_write(in_folder(name), shape_1d(n), labels) != ERR_OK) abort();
    }
}

/* Opened, with this many classes, of which the last has this name (NULL: classes are numbers). */
static bool opens(const char *where, int n_classes, const char *last)
{
    dataset_t *set = NULL;
    const err_t err = dataset_open(where, NULL, &set);
    const char *const *names = set ? set->info.class_names : NULL;
    const bool right = err == ERR_OK && set->info.n_classes == n_classes &&
                       (last ? names && strcmp(names[n_classes - 1], last) == 0 : !names);
    if (!right)
        printf("# got %s; %d classes\n", err ? err_message() : "no error", set ? set->info.n_classes : 0);
    dataset_close(&set);
    return right;
}

static void test_emnist(void)
{
    static const uint8_t upright[] = {0, 3, 1, 4, 2, 5};
    char where[FS_PATH_MAX];
    dataset_t *set = NULL;
    remove_tree(folder);
    if (fs_make_folder(folder) != ERR_OK) abort();
    put_set("emnist-letters", 26, 1);
    OK(opens(folder, 26, "z"), "letters: labels 1 to 26 are classes 0 to 25");
    OK_CALL(dataset_open(folder, NULL, &set), "letters");
    OK(set && set->info.height == W && set->info.width == H && set->labels[SPLIT_TRAIN][0] == 0 &&
           set->labels[SPLIT_VAL][25] == 25 && memcmp(set->pixels[SPLIT_TRAIN], upright, sizeof upright) == 0,
       "… stored column by column");
    dataset_close(&set);
    put_set("emnist-balanced", 47, 0);
    put_set("EMNIST-byclass", 62, 0);
    OK(refused("emnist-balanced, EMNIST-byclass, emnist-letters", "--data"), "several sets are named");
    OK(opens(in_folder("emnist-balanced"), 47, "t") && opens(in_folder("emnist-byclass"), 62, "z") &&
           opens(in_folder("emnist-letters"), 26, "z"),
       "one is chosen by its name");
    char reversed[4096] = "";
    for (int k = 1; k <= 26; k++)
        snprintf(reversed + strlen(reversed), 32, "%d %d %d\n", k, 'Z' + 1 - k, 'z' + 1 - k);
    if (fs_write_text(in_folder("emnist-letters-mapping.txt"), reversed) != ERR_OK) abort();
    OK(opens(in_folder("emnist-letters"), 26, "a"), "names of the mapping");
    put_set("emnist-few", 20, 1);
    if (fs_write_text(in_folder("emnist-few-mapping.txt"), reversed) != ERR_OK) abort();
    OK(opens(in_folder("emnist-few"), 20, "g"), "… which has more classes");
    if (fs_write_text(in_folder("emnist-letters-mapping.txt"), "-9223372036854775808 65\n") != ERR_OK)
        abort();
    OK(opens(in_folder("emnist-letters"), 26, "z"), "… with a label that no number holds");
    if (fs_write_text(in_folder("emnist-letters-mapping.txt"), "<html>\n") != ERR_OK) abort();
    OK(opens(in_folder("emnist-letters"), 26, "z"), "… which does not name the classes");
    OK(dataset_choose(in_folder("emnist-x"), where, (char[128]){""}) == ERR_DATA &&
           strstr(err_message(), "emnist-letters"),
       "a set that is not there: %s", err_message());
    put_images("train-images-idx3-ubyte", N_TRAIN, H, W);
    put_labels("train-labels-idx1-ubyte", N_TRAIN, 0);
    OK(refused("several data sets", "emnist-letters"), "half a set of MNIST's own names is not preferred");
    put_images("t10k-images-idx3-ubyte", N_VAL, H, W);
    put_labels("t10k-labels-idx1-ubyte", N_VAL, 0);
    OK(opens(folder, N_TRAIN, NULL), "a whole one is");
}

/* Labels of eight 32-bit numbers. */
static void put_qmnist(const char *name, int n, int columns, int last)
{
    uint8_t values[12 + 4 * 8 * MAX_SAMPLES] = {0, 0, 12, 2, 0, 0, 0, (uint8_t)n, 0, 0, 0, (uint8_t)columns};
    for (int i = 0; i < n * columns; i++) values[12 + 4 * i + 3] = (uint8_t)(i % columns ? 99 : i / columns);
    values[12 + 4 * (n - 1) * columns + 2] = (uint8_t)(last >> 8);
    FILE *f = fopen(in_folder(name), "w");
    const size_t n_bytes = 12 + 4 * (size_t)(n * columns);
    if (!f || fwrite(values, 1, n_bytes, f) != n_bytes || fclose(f) != 0) abort();
}

static void test_relatives(void)
{
    char where[FS_PATH_MAX], from[FS_PATH_MAX];
    remove_tree(folder);
    if (fs_make_folder(folder) != ERR_OK) abort();
    put_images("qmnist-train-images-idx3-ubyte", 10, H, W);
    put_images("qmnist-test-images-idx3-ubyte", N_VAL, H, W);
    put_qmnist("qmnist-train-labels-idx2-int", 10, 8, 0);
    put_qmnist("qmnist-test-labels-idx2-int", N_VAL, 8, 0);
    OK(opens(folder, 10, NULL), "QMNIST: the first of eight numbers is the class");
    put_qmnist("qmnist-test-labels-idx2-int", N_VAL, 8, 256);
    OK(refused("qmnist-test-labels", "label 258 at sample 2"), "a label that is too large");
    put_qmnist("qmnist-test-labels-idx2-int", N_VAL, 5, 0);
    OK(refused("qmnist-test-labels", "3×5"), "labels of five numbers");

    fresh_folder();
    put_labels("train-labels-idx1-ubyte", N_TRAIN, 9);
    put_labels("t10k-labels-idx1-ubyte", N_VAL, 9);
    OK(opens(folder, 13, NULL), "labels above 9");
    put_labels("train-labels-idx1-ubyte", N_TRAIN, 1);
    put_labels("t10k-labels-idx1-ubyte", N_VAL, 1);
    OK(opens(folder, 5, NULL), "digits without a zero keep their numbers");
    fresh_folder();
    snprintf(from, sizeof from, "%s", in_folder("train-images-idx3-ubyte"));
    if (rename(from, in_folder("TRAIN-IMAGES.IDX3-UBYTE")) != 0) abort();
    OK(opens(folder, 6, NULL), "capitals");
    snprintf(where, sizeof where, "%s/set/train-images-idx3-ubyte", root);
    if (mkdir(where, 0777) != 0 ||
        rename(in_folder("TRAIN-IMAGES.IDX3-UBYTE"), strcat(where, "/train-images-idx3-ubyte")) != 0)
        abort();
    OK(opens(folder, 6, NULL), "a file in a folder of its name");
    snprintf(from, sizeof from, "%s", where);
    strcpy(strrchr(where, '/'), "/train-images.idx3-ubyte");
    if (rename(from, where) != 0) abort();
    OK(opens(folder, 6, NULL), "… with a dot");

    snprintf(where, sizeof where, "%s/above/MNIST/processed", root);
    if (fs_make_folder(where) != ERR_OK) abort();
    snprintf(where, sizeof where, "%s/above/MNIST/raw", root);
    if (rename(folder, where) != 0) abort();
    snprintf(from, sizeof from, "%s/above", root);
    OK(opens(from, 6, NULL), "folders above, as torchvision has them");
    for (int i = 0; i < 40; i++) {
        char name[FS_PATH_MAX];
        snprintf(name, sizeof name, "%s/above/mnist-%d.csv", root, i);
        if (fs_write_text(name, "") != ERR_OK) abort();
    }
    OK(opens(from, 6, NULL), "… among files with such names");
    strcat(from, "/MNIST/processed");
    dataset_t *set = NULL;
    OK(dataset_open(from, NULL, &set) == ERR_DATA && strstr(err_message(), where), "one beside them: %s",
       err_message());
    strcat(where, "/t10k-labels-idx1-ubyte");
    OK(dataset_choose(where, from, (char[128]){""}) == ERR_DATA && strstr(err_message(), "/MNIST/raw"),
       "one of the files: %s", err_message());
    snprintf(from, sizeof from, "%s/above/KMNIST/raw", root);
    snprintf(where, sizeof where, "%s/above/MNIST/raw", root);
    snprintf(folder, sizeof folder, "%s/above", root);
    char command[3 * FS_PATH_MAX];
    snprintf(command, sizeof command, "mkdir -p %s && cp -r %s/. %s", from, where, from);
    if (system(command) != 0) abort();
    OK(refused("KMNIST/raw", "/MNIST/raw"), "two folders below");
    snprintf(from, sizeof from, "%s/above/cifar10", root);
    if (fs_make_folder(from) != ERR_OK) abort();
    OK(refused("/above", "MNIST"), "… beside other folders, which may be classes of images");
    snprintf(folder, sizeof folder, "%s/set", root);
}

static bool chosen(const char *option, const char *where, const char *why)
{
    char got_where[FS_PATH_MAX], got_why[128];
    if (dataset_choose(option, got_where, got_why) != ERR_OK) return false;
    bool right = strcmp(got_where, where) == 0 && strstr(got_why, why);
    if (!right) printf("# got %s: %s\n", got_where, got_why);
    return right;
}

static void test_choose(void)
{
    char where[FS_PATH_MAX], why[128], mnist[FS_PATH_MAX];
    if (chdir(root) != 0 || fs_join(mnist, root, "mnist") != ERR_OK) abort();
    unsetenv("DPTRAIN_DATA");
    OK(chosen(NULL, "digits", "data/mnist does not exist"), "nothing there: the built-in digits");
    if (fs_make_folder("data/mnist/.part") != ERR_OK) abort();
    OK(chosen(NULL, "digits", "data/mnist holds no IDX files"), "data/mnist without data is passed over");
    if (fs_write_text("data/mnist/t10k-labels.idx1-ubyte.gz", "") != ERR_OK) abort();
    OK(chosen(NULL, "data/mnist", "default"), "data/mnist with one of the files");
    setenv("DPTRAIN_DATA", root, 1);
    OK(chosen(NULL, "data/mnist", "default"), "$DPTRAIN_DATA without mnist");
    if (fs_make_folder(mnist) != ERR_OK) abort();
    OK(chosen(NULL, "data/mnist", "$DPTRAIN_DATA/mnist holds no IDX files"),
       "$DPTRAIN_DATA/mnist without data");
    if (unlink("data/mnist/t10k-labels.idx1-ubyte.gz") != 0) abort();
    OK(chosen(NULL, "digits",
              "$DPTRAIN_DATA/mnist holds no IDX files, data/mnist holds no IDX files; data/fetch_mnist.sh"),
       "neither has data");
    OK(chosen("data/mnist", "data/mnist", "--data"), "… but the option's folder is taken as it is");
    if (fs_join(where, mnist, "train-images-idx3-ubyte") != ERR_OK || fs_write_text(where, "") != ERR_OK)
        abort();
    OK(chosen(NULL, mnist, "DPTRAIN_DATA"), "$DPTRAIN_DATA/mnist");
    OK(chosen("data", "data", "--data"), "the option wins");
    OK(chosen("synthetic", "synthetic", "--data") && chosen("digits", "digits", "--data"),
       "built-in kinds by name");
    OK(dataset_choose("no-such-folder", where, why) == ERR_DATA && strstr(err_message(), "no-such-folder"),
       "an option's folder that does not exist");
    OK(dataset_choose("./digits", where, why) == ERR_DATA, "a path is a folder even when it ends in digits");
    OK(dataset_choose("", where, why) == ERR_USAGE, "an empty option");
    OK(dataset_check_name("digits") == ERR_OK && dataset_check_name("data") == ERR_OK &&
           dataset_check_name(NULL) == ERR_OK,
       "names of one thing");
    if (fs_make_folder("digits") != ERR_OK) abort();
    OK(dataset_check_name("digits") == ERR_USAGE && strstr(err_message(), "--data digits") &&
           strstr(err_message(), "./digits"),
       "a built-in kind and a folder: %s", err_message());
    OK(dataset_check_name("./digits") == ERR_OK && chosen(NULL, mnist, "DPTRAIN_DATA"),
       "the path is the folder's");
}

/* What opens and cannot be learned from. */
static void test_training(void)
{
    uint8_t labels[N_TRAIN];
    dataset_t *a = NULL;
    memset(labels, 9, sizeof labels);
    fresh_folder();
    if (dataset_open(folder, NULL, &a) != ERR_OK) abort();
    OK(dataset_check_training(a) == ERR_OK, "several labels can be learned");
    dataset_close(&a);
    if (idx_write(in_folder("train-labels-idx1-ubyte"), shape_1d(N_TRAIN), labels) != ERR_OK) abort();
    if (dataset_open(folder, NULL, &a) != ERR_OK) abort();
    OK(dataset_check_training(a) == ERR_DATA && strstr(err_message(), "one class only, 9"),
       "one label cannot");
    dataset_close(&a);
}

static void test_built_in(void)
{
    dataset_t *a = NULL;
    OK_CALL(dataset_open("synthetic", NULL, &a), "synthetic");
    OK(a && a->info.n_samples[SPLIT_TRAIN] == 60000 && a->info.height == 28 && a->info.n_classes == 10 &&
           fabs(a->info.norm.mean[0] - 0.5) < 0.01 && fabs(a->info.norm.std[0] - 0.2887) < 0.01,
       "… is uniform noise");
    bool in_range = true;
    for (int64_t i = 0; i < 10000; i++) in_range = in_range && a->labels[SPLIT_VAL][i] < 10;
    OK(in_range, "… with labels 0..9");
    dataset_close(&a);
    dataset_reader_t reader;
    dataset_sample_t one = {0}, other = {0};
    dataset_request_t request = {.split = SPLIT_TRAIN, .index = 59999};
    OK_CALL(dataset_open("synthetic", &(transform_settings_t){.input_size = 40}, &a), "synthetic of a size");
    OK(a && a->info.height == 40 && a->info.width == 40 && a->info.channels == 3 && a->info.hash != 0,
       "… is colour images of that size");
    OK_CALL(dataset_reader_open(a, &reader), "… that are read");
    int32_t label = -1;
    request.fields = &(field_place_t){.data = &label};
    if (dataset_read(&reader, &request, &one) != ERR_OK) abort();
    request.fields = NULL;
    request.index = 0;
    if (dataset_read(&reader, &request, &other) != ERR_OK) abort();
    OK(label >= 0 && label < 10 && memcmp(one.bytes, other.bytes, 40 * 40 * 3) != 0, "… one unlike another");
    dataset_reader_close(&reader);
    dataset_close(&a);
}

static void test_mnist(const char *data)
{
    char where[FS_PATH_MAX];
    dataset_t *a = NULL;
    if (!data || fs_join(where, data, "mnist") != ERR_OK || !fs_is_folder(where)) {
        tap_skip("no $DPTRAIN_DATA/mnist");
        return;
    }
    err_t err = dataset_open(where, NULL, &a);
    /* Mean and deviation of the training pixels as widely published: 0.1307 and 0.3081. */
    OK(err == ERR_OK && a->info.n_samples[SPLIT_TRAIN] == 60000 && a->info.n_samples[SPLIT_VAL] == 10000 &&
           fabs(a->info.norm.mean[0] - 0.1307) < 5e-5 && fabs(a->info.norm.std[0] - 0.3081) < 5e-5 &&
           a->labels[SPLIT_TRAIN][0] == 5 && a->labels[SPLIT_VAL][0] == 7,
       "MNIST");
    if (err != ERR_OK) printf("# %s\n", err_message());
    dataset_close(&a);
}

int main(void)
{
    const char *data = getenv("DPTRAIN_DATA");
    char given[FS_PATH_MAX];
    if (data) data = realpath(data, given); /* test_choose changes the folder and the environment */
    if (!mkdtemp(root) || fs_join(folder, root, "set") != ERR_OK) tap_skip_all("no folder in /tmp");
    tap_plan(6 + 2 + 4 + 3 + 7 + 12 + 12 + 2 + 18 + 7 + 1 + 1);
    test_good_folder();
    test_norm();
    test_hash();
    test_names();
    test_bad_folder();
    test_emnist();
    test_relatives();
    test_training();
    test_choose();
    test_built_in();
    test_mnist(data);
    remove_tree(root);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
