/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target without libFuzzer, in place of which it is linked (make mutations): NAME SEEDS N LONGEST INPUT gives it every
 * file of the folder SEEDS, then N inputs of at most LONGEST bytes, made of them by random edits, always the same.
 * INPUT holds the current input and is removed at the end, so that one which ends the process stays; NAME INPUT repeats it. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_SEEDS = 256, MAX_BYTES = 1 << 20, MAX_EDITS = 5 };

typedef struct seed {
    uint8_t *bytes;
    size_t n;
} seed_t;

static seed_t seeds[MAX_SEEDS];
static int n_seeds;

static seed_t read_seed(const char *path)
{
    /* From malloc: targets require that mem.h's counts are zero. */
    char *bytes = NULL;
    seed_t seed;
    MUST(fs_read_file(path, MAX_BYTES, &bytes, &seed.n) == ERR_OK);
    MUST((seed.bytes = malloc(seed.n + 1)) != NULL);
    memcpy(seed.bytes, bytes, seed.n);
    mem_free(&bytes);
    return seed;
}

/* Sorted by name: the same seeds make the same inputs everywhere. */
static void read_seeds(const char *folder)
{
    struct dirent **entries;
    const int n = scandir(folder, &entries, NULL, alphasort);
    MUST(n >= 0);
    for (int i = 0; i < n; i++) {
        char path[FS_PATH_MAX];
        MUST(fs_join(path, folder, entries[i]->d_name) == ERR_OK);
        if (!fs_is_folder(path)) {
            MUST(n_seeds < MAX_SEEDS);
            seeds[n_seeds++] = read_seed(path);
        }
        free(entries[i]);
    }
    free(entries);
    MUST(n_seeds > 0);
}

/* Changes bits, bytes and numbers at `at`, or removes, repeats or borrows a range there. Returns the new length. */
static size_t edit(rng_t *rng, uint8_t *bytes, size_t n, size_t longest)
{
    static const uint32_t numbers[] = {0,      1,      0x7f,       0x80,       0xff,
                                       0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    const size_t at = n ? rng_below(rng, (uint32_t)n) : 0;
    size_t range = 1 + rng_below(rng, rng_below(rng, 4) ? 8 : 1024);
    const uint32_t number = numbers[rng_below(rng, sizeof numbers / sizeof *numbers)];
    const seed_t *other = &seeds[rng_below(rng, (uint32_t)n_seeds)];
    const size_t from = other->n ? rng_below(rng, (uint32_t)other->n) : 0;
    switch (n ? rng_below(rng, 8) : 7) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << rng_below(rng, 8));
        break;
    case 1:
        bytes[at] = (uint8_t)rng_u32(rng);
        break;
    case 2:
        bytes[at] = (uint8_t)number;
        break;
    case 3: /* in either order of bytes, as HDF5's and IDX's numbers are */
        for (size_t i = 0, swap = rng_below(rng, 2); i < 4 && at + i < n; i++)
            bytes[at + i] = (uint8_t)(number >> 8 * (swap ? 3 - i : i));
        break;
    case 4:
        return at;
    case 5: /* without the range */
        if (range > n - at) range = n - at;
        memmove(bytes + at, bytes + at + range, n - at - range);
        return n - range;
    case 6: /* with the range twice */
        if (range > n - at) range = n - at;
        if (range > longest - n) range = longest - n;
        memmove(bytes + at + range, bytes + at, n - at);
        return n + range;
    default: /* a range of another seed */
        if (range > other->n - from) range = other->n - from;
        if (range > longest - at) range = longest - at;
        memcpy(bytes + at, other->bytes + from, range);
        return at + range > n ? at + range : n;
    }
    return n;
}

static void give(int fd, const uint8_t *bytes, size_t n)
{
    MUST(ftruncate(fd, 0) == 0 && fs_write_all(fd, 0, bytes, n) == 0);
    /* A block of exactly n bytes, so that the sanitizer sees what reads beyond. */
    uint8_t *block = malloc(n ? n : 1);
    MUST(block != NULL);
    memcpy(block, bytes, n);
    LLVMFuzzerTestOneInput(block, n);
    free(block);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        const seed_t input = read_seed(argv[1]);
        LLVMFuzzerTestOneInput(input.bytes, input.n);
        free(input.bytes);
        return 0;
    }
    MUST(argc == 5);
    const int n_inputs = atoi(argv[2]);
    const size_t longest = (size_t)atoi(argv[3]);
    const int fd = open(argv[4], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    uint8_t *bytes = malloc(longest);
    rng_t rng = rng_new(1, RNG_TEST, 0);
    MUST(fd >= 0 && bytes != NULL);
    read_seeds(argv[1]);
    setenv("DPTRAIN_FUZZ_SEED", "1", 1);
    for (int i = 0; i < n_seeds; i++) give(fd, seeds[i].bytes, seeds[i].n);
    unsetenv("DPTRAIN_FUZZ_SEED");
    for (int i = 0; i < n_inputs; i++) {
        const seed_t *seed = &seeds[i % n_seeds];
        size_t n = seed->n < longest ? seed->n : longest;
        memcpy(bytes, seed->bytes, n);
        for (uint32_t left = 1 + rng_below(&rng, MAX_EDITS); left > 0; left--)
            n = edit(&rng, bytes, n, longest);
        give(fd, bytes, n);
    }
    printf("%d seeds, %d mutations\n", n_seeds, n_inputs);
    free(bytes);
    for (int i = 0; i < n_seeds; i++) free(seeds[i].bytes);
    close(fd);
    return unlink(argv[4]);
}
