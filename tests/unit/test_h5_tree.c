/* SPDX-License-Identifier: MIT */
/* The reader of HDF5: what dptrain writes is read without the library, crafted files with right checksums and
 * seals are refused by name, and no change of bytes crashes it.
 * RUN np=0 */
#include "base/rng.h"
#include "store/h5/walk.h"
#include "tests/h5_craft.h"
#include "tests/tap.h"
#include "tests/unit/checkpoint_sample.h"

/* N_TEXT: beyond what a heap's blocks hold; N_MANY: a heap and a B-tree of several levels. */
enum {
    N_RANDOM = 2000,
    N_RANDOM_SLOW = 100000,
    N_MANY = 3000,
    N_ATTRS = 1000,
    N_TEXT = 200000,
    SEED = 20261122
};

static char path[FS_PATH_MAX];

static void test_checksum(void)
{
    static const char text[] = "Four score and seven years ago";
    OK(h5_checksum("", 0) == 0xdeadbeef && h5_checksum(text, sizeof text - 1) == 0x17770551,
       "the checksum is lookup3's");
}

static bool refused(const char *words)
{
    checkpoint_t *c = NULL;
    err_t err = checkpoint_open(path, &c);
    checkpoint_close(&c);
    return err == ERR_DATA && strstr(err_message(), path) ? sample_says(words) : false;
}

static void test_crafted(const char *data, size_t n)
{
    for (int i = 0; i < N_CRAFTS; i++) {
        sample_spit(path, data, n);
        bool found = craft_patch(path, &crafts[i]);
        craft_seal(path, "checkpoint", 0);
        OK(found && refused(crafts[i].words), "%s is refused by name", crafts[i].name);
    }
    OK(sample_balanced(), "and nothing is left open or allocated");
}

/* The link "fc" is made to lead where "conv1" leads. */
static void test_shared_object(const char *data, size_t n)
{
    const char *first = memmem(data, n, "\5conv1", 6), *second = memmem(data, n, "\2fc", 3);
    char *copy = malloc(n);
    ASSERT(copy && first && second);
    memcpy(copy, data, n);
    memcpy(copy + (second - data) + 3, first + 6, 8);
    sample_spit(path, copy, n);
    free(copy);
    craft_seal(path, "checkpoint", 0);
    OK(refused("structures overlap"), "an object under two names is refused");
}

static bool same_content(checkpoint_t *c, const ckpt_content_t *content)
{
    bool same =
        checkpoint_array_count(c) == content->n_arrays && checkpoint_attr_count(c) == content->n_attrs + 1;
    for (int i = 0; same && i < content->n_arrays; i++) {
        const ckpt_array_t *array = &content->arrays[i];
        int32_t value = -1;
        same = checkpoint_read(c, array->name, DTYPE_I32, array->shape, &value) == ERR_OK &&
               value == *(const int32_t *)array->data;
    }
    for (int i = 0; same && i < content->n_attrs; i++) {
        const ckpt_attr_t *found = checkpoint_find_attr(c, content->attrs[i].name);
        same = found && found->type == content->attrs[i].type &&
               (found->type == CKPT_TEXT ? strcmp(found->text, content->attrs[i].text) == 0
                                         : found->integer == content->attrs[i].integer);
    }
    return same;
}

static void test_many(void)
{
    static ckpt_array_t arrays[N_MANY];
    static ckpt_attr_t attrs[N_ATTRS];
    static char names[N_MANY][96], texts[2][N_TEXT + 1];
    static int32_t values[N_MANY];
    checkpoint_t *c = NULL;
    memset(texts[0], 'x', N_TEXT);
    memset(texts[1], 'y', N_TEXT / 2);
    for (int i = 0; i < N_MANY; i++) {
        snprintf(names[i], sizeof names[i], "/group/array %0*d", 8 + i % 60, i);
        values[i] = i * 7919;
        arrays[i] = (ckpt_array_t){.name = names[i], .dtype = DTYPE_I32, .data = &values[i], .meaning = "O"};
    }
    for (int i = 0; i < N_ATTRS; i++)
        attrs[i] = i < 2 ? ckpt_text(names[i] + 7, texts[i]) : ckpt_int(names[i] + 7, values[i]);
    const ckpt_content_t content = {arrays, N_MANY, attrs, N_ATTRS};
    ASSERT(checkpoint_write(path, &content) == ERR_OK);
    OK_CALL(checkpoint_open(path, &c), "%d arrays in a group, %d attributes, texts of %d bytes are read",
            N_MANY, N_ATTRS, N_TEXT);
    OK(c && same_content(c, &content), "as they were written");
    checkpoint_close(&c);
}

/* A few bytes at a time, mostly in the first part, which holds most structures. */
static void test_random(const char *data, size_t n)
{
    rng_t rng = rng_new(SEED, RNG_TEST, 0);
    int n_accepted = 0, n_refused = 0, n_random = getenv("DPTRAIN_TEST_SLOW") ? N_RANDOM_SLOW : N_RANDOM;
    char *copy = malloc(n);
    ASSERT(copy);
    for (int i = 0; i < n_random; i++) {
        checkpoint_t *c = NULL;
        memcpy(copy, data, n);
        for (uint32_t k = 1 + rng_below(&rng, 4); k > 0; k--) {
            size_t at = SEAL_BYTES + rng_below(&rng, (uint32_t)(n - SEAL_BYTES) / (k > 1 ? 4 : 1));
            copy[at] = k % 2 ? (char)rng_u32(&rng) : (char)(copy[at] ^ 1 << rng_below(&rng, 8));
        }
        sample_spit(path, copy, n);
        craft_seal(path, "checkpoint", 0);
        err_t err = checkpoint_open(path, &c);
        n_accepted += err == ERR_OK;
        n_refused += err == ERR_DATA;
        for (int k = 0; c && k < checkpoint_array_count(c); k++) {
            void *values = NULL;
            int64_t n_bytes;
            err = checkpoint_read_new(c, checkpoint_array(c, k), &n_bytes, &values);
            ASSERT(err == ERR_OK || err == ERR_DATA);
            mem_free(&values);
        }
        checkpoint_close(&c);
    }
    free(copy);
    OK(n_accepted + n_refused == n_random && n_refused > n_random / 20 && mem_live() == 0,
       "%d random changes with mended checksums: %d accepted, %d refused (seed %d)", n_random, n_accepted,
       n_refused, SEED);
}

int main(void)
{
    sample_t s;
    size_t n;
    sample_begin();
    sample_path(path, "a.h5");
    h5_quiet();
    tap_plan(1 + N_CRAFTS + 1 + 1 + 2 + 1 + 1);
    test_checksum();
    sample_fill(&s, false);
    ASSERT(checkpoint_write(path, &s.content) == ERR_OK);
    char *data = sample_slurp(path, &n);
    test_crafted(data, n);
    test_shared_object(data, n);
    test_many();
    test_random(data, n);
    free(data);
    OK(sample_balanced(), "after all this nothing is left open or allocated");
    sample_remove(sample_folder);
    return tap_done();
}
