/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Sources of images: folders of classes with all that lies about in them, IDX files, and coco_tiny with
 * files that are missing, exchanged or left out. */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/idx.h"
#include "data/image/image.h"
#include "data/source/source.h"
#include "tests/folder.h"
#include "tests/tap.h"

/* A grey PNG, or a JPEG. */
static void put_image(const char *name, int width, int height)
{
    uint8_t pixels[3 * 64 * 64], *bytes = NULL;
    size_t n_bytes;
    memset(pixels, width, sizeof pixels);
    const image_t image = {width, height, pixels};
    err_t err = strstr(name, ".png") ? image_encode_png(pixels, width, height, 1, &bytes, &n_bytes)
                                     : image_encode_jpeg(&image, 90, &bytes, &n_bytes);
    if (err != ERR_OK) abort();
    folder_put(name, bytes, n_bytes);
    mem_free(&bytes);
}

/* Opening is refused as bad data, with these words; nothing leaks. */
static bool refused(const char *path, const char *words)
{
    source_t *source = NULL;
    int64_t n_live = mem_live();
    err_t err = source_open(path, &source);
    bool right = err == ERR_DATA && !source && mem_live() == n_live && SAYS(words);
    if (!right) printf("# got %d\n", err);
    source_close(&source);
    return right;
}

static uint64_t hash_of(const char *path)
{
    source_t *source = NULL;
    if (source_open(path, &source) != ERR_OK) return 0;
    uint64_t hash = source->hash;
    source_close(&source);
    return hash;
}

/* The sample as it is read is this one. */
static bool reads(const source_t *source, split_t split, int64_t index, const char *name, int32_t label,
                  int32_t width)
{
    source_buffer_t buffer = {0};
    sample_t read, described;
    bool same = source_describe(source, split, index, &buffer, &described) == ERR_OK && !described.bytes &&
                source_read(source, split, index, &buffer, &read) == ERR_OK && read.bytes &&
                strcmp(read.name, name) == 0 && read.label == label && read.width == width &&
                read.id == index && read.n_bytes == (size_t)source->entries[split][index].n_bytes &&
                read.n_bytes == described.n_bytes && source->entries[split][index].label == label;
    if (!same) printf("# %s: %s\n", name, err_message());
    source_free_buffer(source, &buffer);
    return same;
}

static void put_classes(void)
{
    folder_clear();
    put_image("train/dog/b.png", 5, 4);
    put_image("train/dog/B.PNG.png", 6, 4);
    put_image("train/dog/a.JPeG", 7, 4);
    put_image("train/Cat/z.jpg", 8, 4);
    put_image("val/dog/x.png", 9, 4);
}

static void test_folder(void)
{
    put_classes();
    folder_put("train/dog/notes.txt", "x", 1);
    folder_put("train/dog/._b.png", "x", 1);
    folder_put("train/dog/Thumbs.db", "x", 1);
    folder_put("__MACOSX/train/cow/1.png", "x", 1);
    folder_put("train/Cat/old.gif", "x", 1);
    folder_put("train/classes.csv", "x", 1);
    folder_put("train/dog/.hidden.png", "x", 1);
    folder_put("train/.cache/x.png", "x", 1);
    folder_put("README.txt", "x", 1);
    source_t *source = NULL;
    OK_CALL(source_open(folder, &source), "a folder of classes");
    if (!source) exit(1);
    OK(strcmp(source->ops->kind, "folder") == 0 && source->n_samples[SPLIT_TRAIN] == 4 &&
           source->n_samples[SPLIT_VAL] == 1 && source->n_categories == 2 && !source->has_annotations &&
           strcmp(source->categories[0].name, "Cat") == 0 && strcmp(source->categories[1].name, "dog") == 0,
       "its kind, counts and classes, by bytes");
    OK(reads(source, SPLIT_TRAIN, 0, "Cat/z.jpg", 0, 8) &&
           reads(source, SPLIT_TRAIN, 1, "dog/B.PNG.png", 1, 6) &&
           reads(source, SPLIT_TRAIN, 2, "dog/a.JPeG", 1, 7) &&
           reads(source, SPLIT_TRAIN, 3, "dog/b.png", 1, 5) && reads(source, SPLIT_VAL, 0, "dog/x.png", 1, 9),
       "its images, by bytes");
    OK(strcmp(source->notes,
              "not used: README.txt, train/classes.csv, train/Cat/old.gif and 1 more; images are .png, "
              ".jpg and .jpeg\n") == 0,
       "what is not used is counted, and the first are named");
    OK(strcmp(source->about, "training train/, validation val/") == 0 && !source->hint[0],
       "which folder is which split");

    source_buffer_t buffer = {0};
    sample_t sample;
    folder_put("train/dog/b.png", "no images.", 10);
    OK(source_read(source, SPLIT_TRAIN, 3, &buffer, &sample) == ERR_DATA &&
           SAYS("train/dog/b.png", "changed: it has 10 bytes"),
       "a file that has changed");
    unlink(folder_path("train/dog/a.JPeG"));
    OK(source_read(source, SPLIT_TRAIN, 2, &buffer, &sample) == ERR_DATA && SAYS("train/dog/a.JPeG"),
       "a file that has gone");
    OK(source_read(source, SPLIT_TRAIN, 0, &buffer, &sample) == ERR_OK && sample.width == 8,
       "others are read nevertheless, into the same buffer");
    source_free_buffer(source, &buffer);
    source_close(&source);
    OK_CALL(source_open(folder, &source), "the folder as it is now");
    OK(source_read(source, SPLIT_TRAIN, 2, &buffer, &sample) == ERR_DATA && SAYS("train/dog/b.png"),
       "a file that is no image, whatever its name");
    source_free_buffer(source, &buffer);
    source_close(&source);
}

static void test_hash(void)
{
    put_classes();
    uint64_t hash = hash_of(folder);
    OK(hash && hash == hash_of(folder), "the same folder has the same hash");
    if (rename(folder_path("train/dog/b.png"), folder_path("train/dog/c.png")) != 0) abort();
    OK(hash_of(folder) != hash, "a name changes it");
    if (rename(folder_path("train/dog/c.png"), folder_path("train/dog/b.png")) != 0) abort();
    OK(hash_of(folder) == hash, "and back");
    if (rename(folder_path("train/dog/b.png"), folder_path("train/Cat/b.png")) != 0) abort();
    OK(hash_of(folder) != hash, "a label changes it");
    put_classes();
    put_image("train/dog/b.png", 60, 60);
    OK(hash_of(folder) != hash, "a size changes it");
}

static void test_layouts(void)
{
    source_t *source = NULL;
    put_classes();
    OK(source_open(folder_path("train"), &source) == ERR_OK && source->n_samples[SPLIT_TRAIN] == 4 &&
           source->n_samples[SPLIT_VAL] == 0 && reads(source, SPLIT_TRAIN, 0, "Cat/z.jpg", 0, 8),
       "classes without train/ and val/");
    source_close(&source);
    put_classes();
    if (symlink(folder_path("train/dog"), folder_path("train/fox")) != 0 ||
        symlink("b.png", folder_path("train/dog/link.png")) != 0)
        abort();
    OK(source_open(folder, &source) == ERR_OK && source->n_categories == 3 &&
           source->n_samples[SPLIT_TRAIN] == 9 && reads(source, SPLIT_TRAIN, 4, "dog/link.png", 1, 5) &&
           reads(source, SPLIT_TRAIN, 8, "fox/link.png", 2, 5),
       "links to files and folders are followed");
    source_close(&source);
}

/* Puts an image into each folder of a list that ends with NULL; a list entry with a dot is the image. */
static void put_tree(const char *const *paths)
{
    folder_clear();
    for (int width = 5; *paths; paths++, width++) {
        char name[512];
        snprintf(name, sizeof name, strrchr(*paths, '.') ? "%s" : "%s/1.png", *paths);
        put_image(name, width, 4);
    }
}
#define TREE(...) put_tree((const char *const[]){__VA_ARGS__, NULL})

/* The folder opens with this layout, these numbers of images, and these words in its notes. */
static bool opens(const char *layout, int64_t n_train, int64_t n_val, const char *words)
{
    source_t *source = NULL;
    const err_t err = source_open(folder, &source);
    const bool right = err == ERR_OK && strcmp(source->about, layout) == 0 &&
                       source->n_samples[SPLIT_TRAIN] == n_train && source->n_samples[SPLIT_VAL] == n_val &&
                       source->n_categories == 2 &&
                       (words[0] ? strstr(source->notes, words) != NULL : !source->notes[0]);
    if (!right)
        printf("# %s; notes: %s\n", err == ERR_OK ? source->about : err_message(),
               err == ERR_OK ? source->notes : "");
    source_close(&source);
    return right;
}

static void test_splits(void)
{
    TREE("train/cat", "train/dog", "valid/cat", "test/dog");
    OK(opens("training train/, validation valid/", 2, 1, "not used: test/"), "train, valid, test");
    TREE("Training/cat", "Training/dog", "VALIDATION/cat", "VALIDATION/dog");
    OK(opens("training Training/, validation VALIDATION/", 2, 2, ""), "Training, VALIDATION");
    TREE("train/cat", "train/dog", "dev/cat", "testing/dog");
    OK(opens("training train/, validation dev/", 2, 1, "not used: testing/"), "dev before testing");
    TREE("train/cat", "train/dog", "Test/dog");
    OK(opens("training train/, validation Test/", 2, 1, ""), "a test folder alone validates");
    TREE("train/cat", "train/dog", "test/1.png");
    OK(opens("training train/, no validation folder", 2, 0,
             "test/ is not used for validation: images without"),
       "a flat test folder does not");
    TREE("train/cat", "train/dog", "test/unknown");
    OK(opens("training train/, no validation folder", 2, 0, "test/ is not used for validation: folders that"),
       "nor one of other folders");
    TREE("cat", "dog", "test/cat");
    OK(opens("training the other folders, validation test/", 2, 1, ""), "classes, and a test folder of them");
    TREE("cat", "dog", "test/1.png");
    OK(opens("", 2, 0, "test/ is not used"), "classes, and a flat test folder, which is not a class");
    TREE("training_set/cat", "training_set/dog", "TestSet/cat");
    OK(opens("training training_set/, validation TestSet/", 2, 1, ""), "training_set, TestSet");
    TREE("seg_train/cat", "seg_train/dog", "seg_test/cat");
    OK(refused(folder, "/seg_test") && SAYS("train/"), "splits under names of their own are not classes");
    TREE("rps/cat", "rps-test-set/cat");
    OK(refused(folder, "/rps-test-set"), "nor one");
    TREE("toy_train", "car/red");
    OK(opens("", 2, 0, ""), "but a class that holds images");
    TREE("cat", "dog");
    folder_put("runs/lenet5/owner.json", "x", 1);
    OK(opens("", 2, 0, "not used: runs/"), "runs of --data .");
    TREE("cat", "runs");
    OK(opens("", 2, 0, ""), "a class that is called runs");
    TREE("train/cat", "train/dog");
    if (symlink("/nowhere", folder_path("val")) != 0) abort();
    OK(opens("training train/, no validation folder", 2, 0, "not used: val (a broken link)"),
       "a broken link");
    TREE("valid/cat", "valid/dog", "test/cat");
    OK(opens("no training folder, validation valid/", 0, 2, "not used: test/"), "no training folder");
    TREE("train/valid", "train/invalid", "train/1.png");
    OK(opens("training train/, no validation folder", 2, 0, "1 image beside the folders of classes"),
       "in train/ names of splits are classes");
    TREE("train/valid", "train/test");
    OK(opens("training train/, no validation folder", 2, 0, ""), "also without others");
    TREE("train/cat", "train/dog", "val/cat");
    if (mkdir(folder_path("valid"), 0700) != 0) abort();
    OK(opens("training train/, validation val/", 2, 1, "not used: valid/"),
       "of two names the one with images");
    TREE("train/cat", "train/dog", "valid/cat", "Val/cat");
    OK(refused(folder, "Val/ and valid/"), "two validation folders");
    TREE("train/cat", "train/dog", "training/cat");
    OK(refused(folder, "train/ and training/"), "two training folders");

    source_t *source = NULL;
    TREE("train/cat", "train/dog", "valid/cat");
    OK(source_open(folder_path("train"), &source) == ERR_OK &&
           strstr(source->notes, "valid/ beside it is not used") && strstr(source->notes, folder),
       "--data one level too low names its parent");
    source_close(&source);
    put_image("test/cat/1.png", 5, 5);
    OK(source_open(folder_path("test"), &source) == ERR_OK && strstr(source->notes, "validates on valid/"),
       "and what that takes");
    source_close(&source);
    char found[FS_PATH_MAX];
    OK(source_classes(folder, SPLIT_VAL, found) == ERR_OK && strcmp(found, folder_path("valid")) == 0 &&
           source_classes(folder, SPLIT_TRAIN, found) == ERR_OK && strcmp(found, folder_path("train")) == 0,
       "the folders of classes");
}

static void test_nested(void)
{
    source_t *source = NULL;
    TREE("train/b/x/1.png", "train/a/images/deep/2.png", "train/a/images/1.png", "train/a/9.png");
    if (symlink("../..", folder_path("train/a/images/loop")) != 0 ||
        symlink(".", folder_path("train/b/self")) != 0 ||
        symlink("../a/images/deep", folder_path("train/b/link")) != 0)
        abort();
    folder_put("train/b/.ipynb_checkpoints/1.png", "x", 1);
    folder_put("train/b/__MACOSX/1.png", "x", 1);
    OK(source_open(folder, &source) == ERR_OK && source->n_samples[SPLIT_TRAIN] == 5 &&
           source->n_categories == 2 && reads(source, SPLIT_TRAIN, 0, "a/9.png", 0, 8) &&
           reads(source, SPLIT_TRAIN, 1, "a/images/1.png", 0, 7) &&
           reads(source, SPLIT_TRAIN, 2, "a/images/deep/2.png", 0, 6) &&
           reads(source, SPLIT_TRAIN, 3, "b/link/2.png", 1, 6) &&
           reads(source, SPLIT_TRAIN, 4, "b/x/1.png", 1, 5),
       "images at any depth, sorted by path; links are followed, and loops end");
    source_close(&source);
    char deep[256] = "train/a";
    while (strlen(deep) < 7 + 2 * 70) strcat(deep, "/d");
    strcat(deep, "/1.png");
    TREE("train/b", deep);
    OK(refused(folder, "nested more than"), "too deep");
    if (geteuid() == 0) {
        tap_skip("root reads every folder");
        return;
    }
    TREE("train/a/x", "train/b");
    chmod(folder_path("train/a/x"), 0);
    OK(refused(folder, "train/a/x: Permission denied"), "a folder in a class that cannot be read");
    chmod(folder_path("train/a/x"), 0700);
}

/* What looks like classes and is something else. */
static void test_no_classes(void)
{
    TREE("train/cat.0.png", "train/cat.1.png", "train/dog.2.png");
    OK(refused(folder, "train holds 3 images, such as cat.0.png") &&
           SAYS("mkdir", "train/cat && mv", "/train/cat.[0-9]*", "/train/cat/"),
       "images in train/: how to sort them");
    TREE("my cat (1).png", "my cat (2).png", "dog (1).png");
    OK(refused(folder, "3 images") && SAYS("/dog && mv", "/dog ('[0-9]*"), "at the top, with blanks");
    TREE("train/1.png", "train/2.png");
    OK(refused(folder, "2 images") && !strstr(err_message(), "mkdir"), "names that tell no class");
    TREE("1.png");
    folder_put("runs/lenet5/owner.json", "x", 1);
    OK(refused(folder, "1 image"), "also beside runs");
    TREE("train/a_1.png", "train/a_2.png");
    OK(refused(folder, "2 images") && !strstr(err_message(), "mkdir"), "or one only");
    TREE("train/n01", "train/n02", "val/ILSVRC2012_val_00000001.png", "val/ILSVRC2012_val_00000002.png");
    OK(refused(folder, "val holds 2 images") && SAYS("/train,"), "ImageNet's flat validation images");
    TREE("train/1.png", "car");
    OK(refused(folder, "train/ is the name of a split") && SAYS("car/"), "a class that is called train");
    TREE("valid/1.png", "invalid");
    OK(refused(folder, "valid/ is the name of a split") && SAYS("invalid/"), "or valid");
    TREE("train/cat.0.png", "train/dog.1.png", "test1/1.png");
    OK(refused(folder, "2 images") && SAYS("mkdir"), "names that tell classes, beside another folder");
    TREE("train/n01", "train/n02", "val/images");
    OK(refused(folder, "n01, but images") && SAYS("/train,"), "Tiny ImageNet's validation images");
    TREE("images/cat", "images/dog", "meta/1.txt");
    OK(refused(folder, "meta holds no image") && SAYS("cat, dog", "--data", "/images"), "Food-101's folders");
    TREE("train/n01", "train/n02");
    if (mkdir(folder_path("val"), 0700) != 0) abort();
    OK(refused(folder, "val holds no folders") && SAYS("/train"), "an empty validation folder");
    TREE("cats/train", "cats/val", "dogs/train");
    OK(refused(folder, "cats/train is the folder of a split") && SAYS("train/cats/"),
       "splits below the classes");
    TREE("train/train/cat", "train/val/cat");
    OK(refused(folder, "train/train is the folder of a split") && SAYS("--data", "/train"),
       "a data set in train/");
    TREE("archive/train/cat", "archive/val/cat", "docs");
    OK(refused(folder, "holds data sets, not classes") && SAYS("archive", "--data", "/archive"),
       "one level too high");
    TREE("train/images", "train/labels");
    folder_put("train/labels/1.txt", "x", 1);
    unlink(folder_path("train/labels/1.png"));
    OK(refused(folder, "train/labels holds no image") && SAYS("1.txt"), "a folder of labels");
    folder_clear();
    folder_put("train.tar", "x", 1);
    folder_put("val.tar.gz", "x", 1);
    OK(refused(folder, "2 archives, such as train.tar"), "archives");
    folder_clear();
    folder_put("train/n01.tar", "x", 1);
    OK(refused(folder, "train holds no image, but 1 archive"), "archives in train/");
    folder_clear();
    folder_put("train/n01/a.zip", "x", 1);
    folder_put("train/n02/b.zip", "x", 1);
    OK(refused(folder, "n01 and 1 more folder of classes hold no image") && SAYS("a.zip"),
       "archives in classes");
}

/* Names that would spoil a terminal or the notes. */
static void test_names(void)
{
    source_t *source = NULL;
    TREE("train/cat", "train/dog");
    folder_put("a\n\x1b[31mb.txt", "x", 1);
    OK(source_open(folder, &source) == ERR_OK && strcmp(source->notes, "not used: a??[31mb.txt\n") == 0,
       "a file that is not used may have any name");
    source_close(&source);
}

static void test_bad_folders(void)
{
    put_classes();
    OK(refused(folder_path("nothing"), "nothing: no such folder"), "a folder that is not there");
    OK(refused(folder_path("train/dog/b.png"), "b.png: not a folder"), "a file");
    OK(refused(folder_path("train/dog"), "a folder per class") && SAYS("3 images, such as B.PNG.png"),
       "images alone");
    folder_put("empty/notes.txt", "x", 1);
    OK(refused(folder_path("empty"), "a folder per class") && SAYS("instances_train", "idx3-ubyte") &&
           SAYS("such as", "notes.txt"),
       "no images: the error says what each kind is");
    put_image("val/wolf/1.png", 5, 4);
    OK(refused(folder, "val has the class wolf"), "a class of val that train has not");
    put_classes();
    folder_put("train/eel/notes.txt", "x", 1);
    OK(refused(folder, "train/eel holds no image"), "a class without images");
    folder_put("train/eel/train-images-idx3-ubyte", "x", 1);
    OK(refused(folder, "holds data sets, not classes") && SAYS("such as eel", "--data", "/train/eel"),
       "a folder of data sets");
    put_classes();
    unlink(folder_path("val/dog/x.png"));
    OK(refused(folder, "val holds no image"), "no image in val");
    rmdir(folder_path("val/dog"));
    OK(refused(folder, "val holds no folders"), "no class in val");
    put_classes();
    if (symlink("gone.png", folder_path("train/dog/link.png")) != 0) abort();
    OK(refused(folder, "train/dog/link.png is a broken link"), "a link to nothing");
    unlink(folder_path("train/dog/link.png"));
    if (mkfifo(folder_path("train/dog/pipe.png"), 0600) != 0) abort();
    OK(refused(folder, "train/dog/pipe.png is not a regular file"), "a FIFO does not block");
    unlink(folder_path("train/dog/pipe.png"));
    if (truncate(folder_path("train/dog/b.png"), (off_t)SOURCE_MAX_IMAGE + 1) != 0) abort();
    OK(refused(folder, "train/dog/b.png has 268435457 bytes"), "a file of absurd size");
    put_classes();
    folder_put("train/dog/a\nb.png", "x", 1);
    OK(refused(folder, "control characters"), "a name with a line break");
    put_classes();
    folder_put("train/dog/a\xff.png", "x", 1);
    OK(refused(folder, "UTF-8"), "a name that is no text");
    if (geteuid() == 0) {
        tap_skip("root reads every folder");
        return;
    }
    put_classes();
    chmod(folder_path("train/dog"), 0);
    OK(refused(folder, "train/dog: Permission denied"), "a folder that cannot be read");
    chmod(folder_path("train/dog"), 0700);
}

static void put_idx(const char *name, shape_t shape, const uint8_t *values)
{
    if (idx_write(folder_path(name), shape, values) != ERR_OK) abort();
}

static void test_idx(void)
{
    enum { N = 3, H = 5, W = 7 };
    uint8_t pixels[N * H * W], labels[N] = {4, 0, 9};
    source_t *source = NULL;
    source_buffer_t buffer = {0};
    sample_t sample;
    image_decoder_t *decoder = NULL;
    image_t image;
    int64_t n_same = 0;
    for (int i = 0; i < N * H * W; i++) pixels[i] = (uint8_t)(i * 53);
    folder_clear();
    put_idx("train-images-idx3-ubyte", shape_3d(N, H, W), pixels);
    put_idx("train-labels-idx1-ubyte", shape_1d(N), labels);
    put_idx("t10k-images-idx3-ubyte", shape_3d(1, H, W), pixels);
    put_idx("t10k-labels-idx1-ubyte", shape_1d(1), labels);
    OK_CALL(source_open(folder, &source), "IDX files");
    if (!source || image_decoder_new((image_limits_t){0}, &decoder) != ERR_OK) exit(1);
    OK(strcmp(source->ops->kind, "idx") == 0 && source->n_samples[SPLIT_TRAIN] == N &&
           source->n_samples[SPLIT_VAL] == 1 && source->n_categories == 10 &&
           strcmp(source->categories[9].name, "9") == 0 && source->entries[SPLIT_TRAIN][2].height == H,
       "kind, counts and classes");
    OK(reads(source, SPLIT_TRAIN, 2, "00000002.png", 9, W) &&
           reads(source, SPLIT_VAL, 0, "00000000.png", 4, W),
       "samples");
    for (int i = 0; i < N; i++) {
        if (source_read(source, SPLIT_TRAIN, i, &buffer, &sample) != ERR_OK ||
            image_decode(decoder, (image_bytes_t){sample.name, sample.bytes, sample.n_bytes}, &image) !=
                ERR_OK ||
            image.width != W || image.height != H)
            break;
        for (int k = 0; k < 3 * H * W; k++) n_same += image.rgb[k] == pixels[i * H * W + k / 3];
    }
    OK(n_same == 3 * N * H * W, "the pixels come back");
    image_decoder_free(&decoder);
    source_free_buffer(source, &buffer);
    source_close(&source);
    labels[0] = 10;
    put_idx("t10k-labels-idx1-ubyte", shape_1d(1), labels);
    OK(refused(folder, "label 10"), "a bad label");
    unlink(folder_path("t10k-labels-idx1-ubyte"));
    labels[0] = 4;
    put_idx("train-labels-idx1-ubyte", shape_1d(N), labels);
    OK(refused(folder, "t10k-labels"), "a file that is missing");
}

/* Links to coco_tiny's folders, the images of train2017 one by one. */
static void link_tiny(const char *tiny)
{
    char command[4 * FS_PATH_MAX];
    folder_clear();
    snprintf(command, sizeof command,
             "mkdir %s/train2017 && ln -s '%s'/train2017/* %s/train2017/ && ln -s '%s/val2017' "
             "'%s/annotations' %s/",
             folder, tiny, folder, tiny, tiny, folder);
    if (system(command) != 0) abort();
}

static void test_coco(const char *tiny)
{
    source_t *source = NULL;
    source_buffer_t buffer = {0};
    sample_t sample;
    OK_CALL(source_open(tiny, &source), "coco_tiny");
    if (!source) exit(1);
    int64_t n_bytes[SPLIT_COUNT] = {0}, n_annotations[SPLIT_COUNT] = {0}, n_right = 0;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        int64_t last = -1;
        for (int64_t i = 0; i < source->n_samples[split]; i++) {
            const source_entry_t *entry = &source->entries[split][i];
            if (source_read(source, split, i, &buffer, &sample) != ERR_OK) break;
            n_right += sample.id > last && sample.label == -1 && entry->label == -1 &&
                       entry->width == sample.width && entry->height == sample.height &&
                       memcmp(sample.bytes, "\xff\xd8", 2) == 0;
            last = sample.id;
            n_bytes[split] += (int64_t)sample.n_bytes;
            n_annotations[split] += sample.n_annotations;
        }
    }
    OK(n_right == 100, "its images by id: %lld are right", (long long)n_right);
    OK(strcmp(source->ops->kind, "coco") == 0 && source->has_annotations && source->n_categories == 80 &&
           n_bytes[SPLIT_TRAIN] == 7096006 && n_bytes[SPLIT_VAL] == 8258952 &&
           n_annotations[SPLIT_TRAIN] == 470 && n_annotations[SPLIT_VAL] == 382 && !source->notes[0],
       "kind, classes, bytes and annotations");
    uint64_t hash = source->hash;
    source_free_buffer(source, &buffer);
    source_close(&source);
    link_tiny(tiny);
    OK(hash_of(folder) == hash, "elsewhere it has the same hash");
}

static void test_coco_parts(const char *tiny)
{
    source_t *source = NULL;
    source_buffer_t buffer = {0};
    sample_t sample;
    link_tiny(tiny);
    unlink(folder_path("train2017/000000005802.jpg"));
    unlink(folder_path("train2017/000000012448.jpg"));
    OK(refused(folder, "2 of the 50 images") && SAYS("train2017", "the first is 000000005802.jpg"),
       "missing files");
    if (symlink(folder_path("train2017/000000051191.jpg"), folder_path("train2017/000000005802.jpg")) != 0 ||
        symlink(folder_path("train2017/000000060623.jpg"), folder_path("train2017/000000012448.jpg")) != 0)
        abort();
    OK_CALL(source_open(folder, &source), "files that are others");
    int n_wrong = 0;
    for (int64_t i = 0; source && i < 2; i++)
        n_wrong += source_read(source, SPLIT_TRAIN, i, &buffer, &sample) == ERR_DATA &&
                   SAYS("its annotations are for");
    OK(n_wrong > 0, "an image of another size than its annotations say");
    if (source) source_free_buffer(source, &buffer);
    source_close(&source);
    char command[FS_PATH_MAX];
    snprintf(command, sizeof command, "mv %s/train2017 %s.away", folder, folder);
    if (system(command) != 0) abort();
    OK(source_open(folder, &source) == ERR_OK && source->n_samples[SPLIT_TRAIN] == 0 &&
           source->n_samples[SPLIT_VAL] == 50 && source->n_categories == 80,
       "validation images alone");
    source_close(&source);
    unlink(folder_path("val2017"));
    OK(refused(folder, "none of the 50 images") && SAYS("instances_train2017.json"),
       "annotations without images");
    unlink(folder_path("annotations"));
    snprintf(command, sizeof command, "mv %s.away %s/train2017", folder, folder);
    if (system(command) != 0) abort();
    OK(refused(folder, "train2017 are missing"), "images without annotations");
}

static void test_coco_flaws(void)
{
    static const char list[] = "{\"images\":[{\"id\":7,\"file_name\":\"a.png\",\"width\":5,\"height\":4}],"
                               "\"categories\":[{\"id\":3,\"name\":\"%s\"}],\"annotations\":["
                               "{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":1,\"bbox\":[0,0,9,9]},"
                               "{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":1,\"bbox\":[0,0,9,9]}]}";
    char text[2][sizeof list + 8];
    source_t *source = NULL;
    folder_clear();
    snprintf(text[0], sizeof text[0], list, "dog");
    snprintf(text[1], sizeof text[1], list, "cat");
    put_image("train2017/a.png", 5, 4);
    folder_put("annotations/instances_train2017.json", text[0], strlen(text[0]));
    const list_rules_t half = {.max_left_out = 0.5};
    OK(source_open_watched(folder, &half, NULL, &source) == ERR_OK &&
           strstr(source->notes, "1 box exceeded its image and was clipped") &&
           strstr(source->notes, "1 annotation that is listed twice") &&
           strstr(source->notes, "(first: annotation 1)"),
       "what was mended is in the notes");
    source_close(&source);
    put_image("val2017/a.png", 5, 4);
    for (int i = 0; i < 2; i++)
        memcpy(strstr(text[i], "[0,0,9,9]},{\"id\":1") + 17, "2", 1); /* no longer twice */
    folder_put("annotations/instances_train2017.json", text[0], strlen(text[0]));
    folder_put("annotations/instances_val2017.json", text[1], strlen(text[1]));
    OK(refused(folder, "category 3 (dog)") && SAYS("3 (cat)"), "other categories in val");
    folder_put("annotations/instances_val2017.json", text[1], 40);
    OK(refused(folder, "instances_val2017.json: truncated"), "a list that is cut off");
}

/* The files of both parts, as text: "a/1 a/2 | a/3". */
static bool parted(const holdout_t *holdout, char *out, size_t n_bytes)
{
    const list_rules_t rules = {.holdout = *holdout};
    source_t *source = NULL;
    out[0] = '\0';
    if (source_open_watched(folder, &rules, NULL, &source) != ERR_OK) return false;
    bool same = strcmp(source->folders[SPLIT_VAL], source->folders[SPLIT_TRAIN]) == 0;
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++) {
            source_buffer_t buffer = {0};
            sample_t sample;
            const size_t n = strlen(out);
            same = same && source_read(source, split, i, &buffer, &sample) == ERR_OK && sample.bytes &&
                   sample.width == sample.id + 1 && sample.label == source->entries[split][i].label;
            if (same)
                snprintf(out + n, n_bytes - n, "%s%.5s", split == SPLIT_VAL && i == 0 ? "| " : "",
                         sample.name);
            source_free_buffer(source, &buffer);
        }
    source_close(&source);
    return same;
}

/* --val-split. Every image's width is its place in the list. */
static void test_holdout(void)
{
    char first[256], again[256], other[256], word[] = "a/00";
    folder_clear();
    int n = 0;
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s/%02d.png", i < 12 ? "a" : i < 19 ? "b" : "c", i);
        put_image(name, i + 1, 4);
    }
    const holdout_t quarter = {0.25, 1, true}, seed = {0.25, 2, true}, most = {0.9, 1, true};
    OK(parted(&quarter, first, sizeof first) && parted(&quarter, again, sizeof again) &&
           strcmp(first, again) == 0,
       "a seed draws the same images every time");
    const char *val = strchr(first, '|');
    int of[3] = {0};
    for (const char *at = val; at && *at; at++)
        for (int k = 0; k < 3; k++) of[k] += at[0] == "abc"[k];
    printf("# %s\n", first);
    OK(of[0] == 3 && of[1] == 2 && of[2] == 0, "a quarter of each class, rounded; a single image trains");
    for (int i = 0; i < 20; i++) {
        snprintf(word, sizeof word, "%c/%02d", i < 12 ? 'a' : i < 19 ? 'b' : 'c', i);
        const char *found = strstr(first, word);
        n += found && !strstr(found + 1, word);
    }
    OK(n == 20, "every image is in one part");
    OK(parted(&seed, other, sizeof other) && strcmp(first, other) != 0, "another seed draws others");
    OK(parted(&most, other, sizeof other) && strchr(other, 'b') < strchr(other, '|'),
       "one image of a class is left to train on");
    const list_rules_t rules = {.holdout = quarter};
    source_t *source = NULL;
    const uint64_t whole = hash_of(folder);
    OK(source_open_watched(folder, &rules, NULL, &source) == ERR_OK && source->hash != whole &&
           strstr(source->about, "5 of the 20 training images"),
       "the parts are told, and are other data than the whole");
    source_close(&source);
    put_image("val/a/x.png", 9, 4);
    OK(source_open_watched(folder, &rules, NULL, &source) == ERR_USAGE && SAYS("--val-split", "val"),
       "data with a validation part is refused");
    const list_rules_t lenient = {.holdout = {0.25, 1, false}};
    OK(source_open_watched(folder, &lenient, NULL, &source) == ERR_OK && source->n_samples[SPLIT_VAL] == 1,
       "or left as it is, where the option is a run's");
    source_close(&source);
    folder_clear();
    put_image("a/0.png", 1, 4);
    put_image("b/1.png", 2, 4);
    OK(source_open_watched(folder, &rules, NULL, &source) == ERR_DATA && SAYS("no class", "two images"),
       "one image per class");
    OK(source_open_watched(folder, &lenient, NULL, &source) == ERR_OK &&
           source->n_samples[SPLIT_TRAIN] == 2 && source->n_samples[SPLIT_VAL] == 0,
       "which is left as it is, too");
    source_close(&source);
}

int main(void)
{
    enum { N_COCO = 4 + 6 };
    char tiny[FS_PATH_MAX] = "";
    const char *data = getenv("DPTRAIN_DATA");
    if (!folder_begin()) tap_skip_all("no folder in /tmp");
    tap_plan(10 + 5 + 2 + 24 + 3 + 19 + 1 + 15 + 6 + 3 + 10 + N_COCO + 1);
    test_folder();
    test_hash();
    test_layouts();
    test_splits();
    test_nested();
    test_no_classes();
    test_names();
    test_bad_folders();
    test_idx();
    test_coco_flaws();
    test_holdout();
    if (data) snprintf(tiny, sizeof tiny, "%s/coco_tiny", data);
    if (data && fs_is_folder(tiny)) {
        test_coco(tiny);
        test_coco_parts(tiny);
    } else {
        for (int i = 0; i < N_COCO; i++) tap_skip("DPTRAIN_DATA names no folder with coco_tiny");
    }
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
