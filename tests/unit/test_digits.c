/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The built-in digits: the same everywhere, every sample by itself, not too easy; written as IDX. */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/idx.h"
#include "data/dataset/synth.h"
#include "tests/tap.h"

enum { N_PIXELS = DIGITS_SIDE * DIGITS_SIDE, N_FEW = 64, N_MANY = 4000 };

static uint8_t pixels[N_MANY * N_PIXELS], labels[N_MANY], few[N_FEW * N_PIXELS], few_labels[N_FEW];

static void test_deterministic(void)
{
    digits_draw(1, SPLIT_TRAIN, 0, N_MANY, pixels, labels);
    uint64_t hash = XXH3_64bits_withSeed(pixels, sizeof pixels, XXH3_64bits(labels, sizeof labels));
    OK(hash == UINT64_C(0x07fa47bad3193113), "the images are those of every other machine (hash %016llx)",
       (unsigned long long)hash);
    digits_draw(1, SPLIT_TRAIN, 1000, N_FEW, few, few_labels);
    OK(memcmp(few, pixels + 1000 * N_PIXELS, sizeof few) == 0 &&
           memcmp(few_labels, labels + 1000, N_FEW) == 0,
       "a sample does not depend on those before it");
    digits_draw(1, SPLIT_VAL, 0, N_FEW, few, few_labels);
    OK(memcmp(few, pixels, sizeof few) != 0, "the splits differ");
    digits_draw(2, SPLIT_TRAIN, 0, N_FEW, few, few_labels);
    OK(memcmp(few, pixels, sizeof few) != 0, "seeds differ");
}

/* Each class is there, each image has ink and lies inside its frame. */
static void test_plausible(void)
{
    int64_t n_class[DIGITS_CLASSES] = {0}, ink = 0, rim = 0, n_rim = 0;
    bool in_range = true, all_inked = true;
    for (int i = 0; i < N_MANY; i++) {
        in_range = in_range && labels[i] < DIGITS_CLASSES;
        n_class[labels[i] % DIGITS_CLASSES]++;
        int n_bright = 0;
        for (int k = 0; k < N_PIXELS; k++) {
            int x = k % DIGITS_SIDE, y = k / DIGITS_SIDE, value = pixels[i * N_PIXELS + k];
            bool at_rim = x == 0 || y == 0 || x == DIGITS_SIDE - 1 || y == DIGITS_SIDE - 1;
            n_bright += value > 60;
            ink += value;
            rim += at_rim ? value : 0;
            n_rim += at_rim;
        }
        all_inked = all_inked && n_bright >= 10;
    }
    OK(in_range, "labels are 0..9");
    bool balanced = true;
    for (int c = 0; c < DIGITS_CLASSES; c++)
        balanced = balanced && n_class[c] > N_MANY / 13 && n_class[c] < N_MANY / 8;
    OK(balanced, "the classes are about equally frequent");
    OK(all_inked, "every image has ink");
    double mean = (double)ink / (N_MANY * N_PIXELS), rim_mean = (double)rim / (double)n_rim;
    OK(mean > 15 && mean < 50, "a mean brightness near that of MNIST (%.1f)", mean);
    OK(rim_mean < mean / 2, "the digits lie inside the frame (rim %.1f)", rim_mean);
}

/* Nearest class mean, the simplest linear classifier: better than chance, far from good. */
static void test_linear(void)
{
    enum { N_FIT = 3000 };
    static double means[DIGITS_CLASSES][N_PIXELS];
    double n_class[DIGITS_CLASSES] = {0};
    int n_right = 0;
    for (int i = 0; i < N_FIT; i++) {
        n_class[labels[i]]++;
        for (int k = 0; k < N_PIXELS; k++) means[labels[i]][k] += pixels[i * N_PIXELS + k];
    }
    for (int c = 0; c < DIGITS_CLASSES; c++)
        for (int k = 0; k < N_PIXELS; k++) means[c][k] /= n_class[c];
    for (int i = N_FIT; i < N_MANY; i++) {
        int best = 0;
        double least = 1e300;
        for (int c = 0; c < DIGITS_CLASSES; c++) {
            double d = 0;
            for (int k = 0; k < N_PIXELS; k++)
                d += (pixels[i * N_PIXELS + k] - means[c][k]) * (pixels[i * N_PIXELS + k] - means[c][k]);
            if (d < least) least = d, best = c;
        }
        n_right += best == labels[i];
    }
    OK(n_right > 400 && n_right < 850, "the nearest class mean is right for %d of 1000", n_right);
}

static void test_write(void)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char root[] = "/tmp/dptrain-digits-XXXXXX", folder[FS_PATH_MAX], path[FS_PATH_MAX];
    if (!mkdtemp(root) || fs_join(folder, root, "a/b") != ERR_OK) abort();
    OK_CALL(digits_write(folder, 1, N_FEW, 7), "writing into a new folder");
    dataset_t *dataset = NULL;
    OK_CALL(dataset_open(folder, NULL, &dataset), "opening it");
    OK(dataset && dataset->info.n_samples[SPLIT_TRAIN] == N_FEW && dataset->info.n_samples[SPLIT_VAL] == 7 &&
           memcmp(dataset->pixels[SPLIT_TRAIN], pixels, sizeof few) == 0 &&
           memcmp(dataset->labels[SPLIT_TRAIN], labels, N_FEW) == 0,
       "the same digits come back");
    if (dataset) dataset_close(&dataset);
    OK(digits_write(folder, 1, N_FEW, 7) == ERR_USAGE && strstr(err_message(), "train-") &&
           strstr(err_message(), "exists already"),
       "nothing is overwritten");
    OK(digits_write(folder, 1, 0, 7) == ERR_USAGE &&
           digits_write(folder, 1, 1, (int64_t)1 << 40) == ERR_USAGE,
       "counts out of range");
    bool removed = true;
    for (int i = 0; i < 4; i++)
        removed = fs_join(path, folder, names[i]) == ERR_OK && unlink(path) == 0 && removed;
    OK(removed && rmdir(folder) == 0, "exactly the four files were written");
    if (fs_join(folder, root, "a") == ERR_OK) rmdir(folder);
    rmdir(root);
}

int main(void)
{
    tap_plan(4 + 5 + 1 + 6 + 1);
    test_deterministic();
    test_plausible();
    test_linear();
    test_write();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
