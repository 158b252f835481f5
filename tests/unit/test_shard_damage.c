/* SPDX-License-Identifier: MIT */
/* No damaged, foreign or hostile shard, index, manifest or record is taken for a whole one, none crashes a
 * reader, and damage in a record is told with the record's number. RUN np=0 */
#include "base/rng.h"
#include "data/shard/reader.h"
#include "data/shard/shard.h"
#include "store/h5/file.h"
#include "store/h5/seal.h"
#include "tests/sealed.h"
#include "tests/unit/shard_sample.h"

/* Every byte; with sanitizers some of them, and all of those in records. */
enum { STEP = UNDER_SANITIZER ? 11 : 1, N_NOISE = UNDER_SANITIZER ? 2000 : 20000, SEED = 20261121 };

static const char shard0[] = "train-00000-of-00002.h5", shard1[] = "train-00001-of-00002.h5";

/* What a verification told. */
typedef struct told {
    int n;
    char text[4096];
} told_t;

static void tell(void *context, const char *what)
{
    told_t *told = context;
    size_t n = strlen(told->text);
    told->n++;
    snprintf(told->text + n, sizeof told->text - n, "%s\n", what);
}

static told_t verify(const shard_index_t *index, int64_t number)
{
    told_t told = {0};
    const shard_report_t report = {tell, &told};
    err_t err = shard_verify(sample_folder, index, SPLIT_TRAIN, number, &report);
    if (err != ERR_OK) snprintf(told.text, sizeof told.text, "error %d: %s", err, err_message());
    return told;
}

/* Another value for one byte, in place. */
static void put_byte(const char *name, size_t at, unsigned char byte)
{
    char path[FS_PATH_MAX];
    sample_path(path, name);
    int fd = open(path, O_WRONLY);
    ASSERT(fd >= 0 && pwrite(fd, &byte, 1, (off_t)at) == 1 && close(fd) == 0);
}

/* The record of the first shard that a byte of the file belongs to; -1: none. */
static int record_of(const shard_index_t *index, size_t at)
{
    for (int i = 0; i < PER_SHARD; i++) {
        const shard_entry_t *e = &index->entries[SPLIT_TRAIN][i];
        if ((int64_t)at >= e->offset && (int64_t)at < e->offset + e->n_bytes) return i;
        if ((int64_t)at >= e->notes_offset && (int64_t)at < e->notes_offset + e->notes_bytes) return i;
    }
    return -1;
}

/* Reading a record whose byte was changed fails and names it. */
static bool read_refuses(const shard_index_t *index, int record)
{
    shard_reader_t *reader = NULL;
    shard_buffer_t buffer = {0};
    sample_t sample;
    char words[32];
    snprintf(words, sizeof words, "record %d ", record);
    ASSERT(shard_reader_open(sample_folder, index, &reader) == ERR_OK);
    bool refused =
        shard_read(reader, SPLIT_TRAIN, record, &buffer, &sample) == ERR_DATA && SAYS(shard0, words);
    mem_free(&buffer.block);
    shard_reader_close(&reader);
    return refused;
}

static void test_flips(const shard_index_t *index)
{
    size_t n;
    unsigned char *data = sample_slurp(shard0, &n);
    int n_missed = 0, n_unnamed = 0, n_in_records = 0, n_read = 0, n_parsed = 0;
    for (size_t at = 0; at < n; at++) {
        int record = record_of(index, at);
        if (record < 0 && at % STEP != 0) continue;
        put_byte(shard0, at, (unsigned char)(data[at] ^ 1 << at % 8));
        told_t told = verify(index, 0);
        char words[32];
        snprintf(words, sizeof words, "record %d (", record);
        n_missed += told.n == 0;
        n_in_records += record >= 0;
        n_unnamed +=
            record >= 0 ? !strstr(told.text, words) : !strstr(told.text, "all its records are intact");
        n_read += record >= 0 && !read_refuses(index, record);
        n_parsed += strstr(told.text, "table of contents") != NULL;
        if (n_missed + n_unnamed + n_read == 1) printf("# byte %zu, record %d: %s\n", at, record, told.text);
        put_byte(shard0, at, data[at]);
    }
    printf("# %zu bytes, %d of them in records\n", n, n_in_records);
    OK(n_missed == 0, "a bit flipped in any of the %zu bytes of a shard is told", n);
    OK(n_unnamed == 0 && n_in_records > 0,
       "with the record's number where it is in a record, and else that all are whole");
    OK(n_read == 0, "and such a record is not read");
    OK(n_parsed == 0, "each of them is found before the content is parsed");
    OK(verify(index, 0).n == 0, "nothing is told of the shard as it was");
    put_byte(shard0, (size_t)index->entries[SPLIT_TRAIN][0].offset,
             (unsigned char)~data[index->entries[SPLIT_TRAIN][0].offset]);
    told_t told = verify(index, 0);
    OK(strstr(told.text, "\"000000000009.jpg\", id 9): its image is damaged"),
       "the image's own name and id are told");
    sample_spit(shard0, data, n);
    free(data);
}

static void test_truncation(const shard_index_t *index)
{
    size_t n;
    unsigned char *data = sample_slurp(shard0, &n);
    int n_missed = 0, n_tried = 0;
    for (size_t length = 0; length < n; length += 64, n_tried++) {
        sample_spit(shard0, data, length);
        told_t told = verify(index, 0);
        n_missed += told.n == 0;
        shard_reader_t *reader = NULL;
        shard_buffer_t buffer = {0};
        sample_t sample;
        ASSERT(shard_reader_open(sample_folder, index, &reader) == ERR_OK);
        n_missed += shard_read(reader, SPLIT_TRAIN, 0, &buffer, &sample) != ERR_DATA;
        mem_free(&buffer.block);
        shard_reader_close(&reader);
    }
    OK(n_missed == 0, "a shard cut to any of %d lengths is told, and not read", n_tried);
    char path[FS_PATH_MAX];
    sample_path(path, shard0);
    unlink(path);
    told_t told = verify(index, 0);
    OK(told.n == 1 && strstr(told.text, "No such file"), "a shard that is gone is told");
    ASSERT(mkdir(path, 0777) == 0);
    OK(strstr(verify(index, 0).text, "is a folder"), "and a folder in its place");
    ASSERT(rmdir(path) == 0 && mkfifo(path, 0666) == 0);
    OK(strstr(verify(index, 0).text, "not a regular file"), "and a pipe, which is not waited for");
    sample_spit(shard0, data, n);
    free(data);
}

/* The index and the manifest, byte by byte. */
static void test_flips_beside(const shard_index_t *index, const seal_t *seal)
{
    size_t n;
    unsigned char *data = sample_slurp(SHARD_INDEX_NAME, &n);
    int n_missed = 0, n_parsed = 0;
    for (size_t at = 0; at < n; at += STEP) {
        shard_index_t *read = NULL;
        put_byte(SHARD_INDEX_NAME, at, (unsigned char)(data[at] ^ 1 << at % 8));
        n_missed += shard_index_read(sample_folder, &read, NULL) != ERR_DATA || read;
        shard_index_free(&read);
        put_byte(SHARD_INDEX_NAME, at, data[at]);
        n_parsed += strstr(err_message(), "table of contents") != NULL;
    }
    OK(n_parsed == 0, "an index is proven whole before its content is parsed");
    OK(n_missed == 0, "an index with a bit flipped in any of its %zu bytes is refused", n);
    free(data);
    data = sample_slurp(SHARD_MANIFEST_NAME, &n);
    n_missed = 0;
    for (size_t at = 0; at < n; at += STEP) {
        put_byte(SHARD_MANIFEST_NAME, at, (unsigned char)(data[at] ^ 1 << at % 8));
        n_missed += shard_manifest_check(index, seal, sample_folder) != ERR_DATA;
        put_byte(SHARD_MANIFEST_NAME, at, data[at]);
    }
    sample_spit(SHARD_MANIFEST_NAME, data, n - 1);
    n_missed += shard_manifest_check(index, seal, sample_folder) != ERR_DATA;
    OK(n_missed == 0,
       "a manifest with a bit flipped in any of its %zu bytes is told, and one that is cut off", n);
    sample_spit(SHARD_MANIFEST_NAME, data, n);
    free(data);
}

/* A file of that kind with the seal of a schema and plan 7, and others inside. */
static void make_odd(const char *name, const char *kind, int64_t outside, int64_t inside,
                     uint64_t plan_inside)
{
    char path[FS_PATH_MAX], table[200], zeros[1000] = "";
    sample_spit(name, zeros, sizeof zeros);
    sample_path(path, name);
    int n = snprintf(table, sizeof table,
                     "\n{\"attributes\":{\"schema\":%lld,\"plan\":\"%016llx\"},\"arrays\":[]}\n",
                     (long long)inside, (unsigned long long)plan_inside);
    sealed_end(path, kind, sizeof zeros, table, (size_t)n, (seal_t){.schema = outside, .plan = 7});
}

static bool index_refused(const char *words)
{
    shard_index_t *index = NULL;
    return shard_index_read(sample_folder, &index, NULL) == ERR_DATA && !index &&
           SAYS(SHARD_INDEX_NAME, words);
}

static void test_schema(const shard_index_t *index)
{
    static const char newer[] = "was written by a newer dptrain (schema 9; this one reads 3)";
    size_t n, n_index;
    unsigned char *data = sample_slurp(shard0, &n), *whole = sample_slurp(SHARD_INDEX_NAME, &n_index);
    make_odd(shard0, "shard", 9, 9, 7);
    OK(strstr(verify(index, 0).text, newer), "a shard of a newer schema is told as that");
    shard_plan_t plan = sample_plan(SPLIT_TRAIN, 0, 7);
    OK(!shard_is_done(&plan), "and not taken for done");
    sample_spit(shard0, data, n);
    make_odd(SHARD_INDEX_NAME, "index", 9, 9, 7);
    OK(index_refused(newer), "an index of a newer schema is told as that");
    make_odd(SHARD_INDEX_NAME, "index", 3, 9, 7);
    OK(index_refused("its first bytes say schema 3, its content 9"), "two schemas are refused");
    make_odd(SHARD_INDEX_NAME, "index", 3, 3, 8);
    OK(index_refused("its first bytes say plan 0000000000000007, its content 0000000000000008"),
       "and two plans");
    make_odd(SHARD_INDEX_NAME, "index", 3, 3, 7);
    OK(index_refused("has no attribute"), "an index without its numbers is refused");
    make_odd(SHARD_INDEX_NAME, "index", 2, 2, 7);
    OK(index_refused("(schema 2; this one reads 3)") && SAYS("earlier", "--force"),
       "an index of an earlier schema is refused with what to do");
    sample_spit(SHARD_INDEX_NAME, data, n);
    OK(index_refused("is not a dptrain index"), "a shard is no index");
    sample_spit(SHARD_INDEX_NAME, "text", 4);
    OK(index_refused("is not a dptrain index"), "nor is a text");
    char path[FS_PATH_MAX];
    sample_path(path, SHARD_INDEX_NAME);
    unlink(path);
    OK(index_refused("packing was not finished"), "a folder without an index is told what to do");
    sample_spit(SHARD_INDEX_NAME, whole, n_index);
    free(whole);
    free(data);
}

/* Whole shards in the wrong place. */
static void test_plans(const shard_index_t *index)
{
    size_t n, n_other;
    unsigned char *data = sample_slurp(shard0, &n), *other = sample_slurp(shard1, &n_other);
    shard_file_t file;
    shard_entry_t entries[PER_SHARD];
    shard_plan_t plan = sample_plan(SPLIT_TRAIN, 0, 7);
    OK(shard_is_done(&plan) && shard_load(&plan, &file, entries) == ERR_OK &&
           memcmp(&file, &index->files[SPLIT_TRAIN][0], sizeof file) == 0 &&
           memcmp(entries, index->entries[SPLIT_TRAIN], sizeof entries) == 0,
       "a shard that is there says of itself what the index says");
    plan.plan = 8;
    OK(!shard_is_done(&plan) && shard_load(&plan, &file, entries) == ERR_DATA &&
           SAYS(shard0, "belongs to another plan"),
       "for another plan it is not done");
    plan.plan = 7;
    sample_spit(shard0, other, n_other);
    OK(shard_load(&plan, &file, entries) == ERR_DATA && SAYS(shard0, "number 1; expected 0"),
       "a shard under another's name is refused");
    told_t told = verify(index, 0);
    OK(told.n == 1 + PER_SHARD && strstr(told.text, "is intact, but not the one"),
       "and told, as is every record of it");
    char path[FS_PATH_MAX];
    sample_path(path, shard0);
    unlink(path);
    shard_index_t *scratch = NULL;
    ASSERT(shard_index_new(index->head, &scratch) == ERR_OK);
    plan.plan = 8;
    sample_write_shard(&plan, sample_of_table, scratch);
    shard_index_free(&scratch);
    told = verify(index, 0);
    OK(strstr(told.text, "is intact, but belongs to another plan"), "a shard of another packing is told");
    sample_spit(shard0, data, n);
    free(data);
    free(other);
}

/* ---- Hostile blocks of memory ---- */
static bool block_refused(const shard_index_t *index, size_t at, int64_t value, size_t n_bytes)
{
    shard_index_t *read = NULL;
    size_t n = (size_t)index->head->n_block;
    char *copy = malloc(n);
    ASSERT(copy && at + n_bytes <= n);
    memcpy(copy, shard_index_pack(index), n);
    memcpy(copy + at, &value, n_bytes);
    err_t err = shard_index_unpack(copy, (int64_t)n, &read);
    free(copy);
    if (err == ERR_OK) printf("# accepted: %lld at byte %zu\n", (long long)value, at);
    shard_index_free(&read);
    return err == ERR_DATA;
}

static void test_hostile_index(const shard_index_t *index)
{
    const char *block = shard_index_pack(index);
    const shard_entry_t *e = &index->entries[SPLIT_TRAIN][1];
    const shard_file_t *file = &index->files[SPLIT_TRAIN][1];
#define AT(field) ((size_t)((const char *)&(field)-block))
    bool refused = true;
    static const int64_t numbers[] = {-1, INT64_MIN, INT64_MAX, 0, (int64_t)1 << 40};
    for (int i = 0; i < 5; i++) {
        refused = block_refused(index, AT(e->offset), numbers[i], 8) && refused;
        refused = block_refused(index, AT(e->n_bytes), numbers[i], 8) && refused;
        refused = block_refused(index, AT(e->notes_offset), numbers[i], 8) && refused;
        refused = block_refused(index, AT(e->notes_bytes), numbers[i], 8) && refused;
        refused = block_refused(index, AT(file->n_samples), numbers[i], 8) && refused;
        refused = block_refused(index, AT(file->first), numbers[i], 8) && refused;
        refused = block_refused(index, AT(index->head->n_samples[0]), numbers[i], 8) && refused;
        refused = block_refused(index, AT(index->head->n_shards[1]), numbers[i], 8) && refused;
        refused = block_refused(index, AT(index->head->n_categories), numbers[i], 8) && refused;
        refused = block_refused(index, AT(index->head->n_block), numbers[i], 8) && refused;
    }
    refused = block_refused(index, AT(file->n_bytes), 600, 8) && refused;
    refused = block_refused(index, AT(e->shard), 1, 4) && refused;
    refused = block_refused(index, AT(e->shard), -1, 4) && refused;
    refused = block_refused(index, AT(e->label), N_CATEGORIES, 4) && refused;
    refused = block_refused(index, AT(e->label), -2, 4) && refused;
    refused = block_refused(index, AT(e->width), 0, 4) && refused;
    refused = block_refused(index, AT(file->name[0]), '/', 1) && refused;
    refused = block_refused(index, AT(index->head->plan), 0, 8) && refused;
    OK(refused, "numbers that lead out of the files, or out of memory, are refused");
    shard_index_t *read = NULL;
    char *copy = malloc((size_t)index->head->n_block);
    ASSERT(copy);
    memcpy(copy, block, (size_t)index->head->n_block);
    memset(copy + AT(index->categories[1].name[0]), 'x', SHARD_TEXT_MAX);
    OK(shard_index_unpack(copy, index->head->n_block, &read) == ERR_DATA && SAYS("category 1"),
       "a name without an end is refused");
    bool all = true;
    for (int64_t n = 0; n < index->head->n_block; n += 97)
        all = all && shard_index_unpack(block, n, &read) == ERR_DATA && !read;
    OK(all, "a block that is cut off is refused");
    free(copy);
#undef AT
}

static void test_hostile_notes(void)
{
    shard_notes_t notes = {0};
    sample_t sample = sample_make(3), out;
    annotation_t annotations[64];
    ASSERT(shard_notes_add(&notes, &sample) == ERR_OK && shard_notes_most(notes.n_bytes) <= 64);
    bool refused = true;
    for (size_t n = 0; n < notes.n_bytes; n++)
        refused = refused && shard_notes_read(notes.block, n, N_CATEGORIES, annotations, &out) == ERR_DATA;
    OK(refused, "a record's annotations that are cut off anywhere are refused");
    rng_t rng = rng_new(SEED, RNG_TEST, 1);
    char *copy = NULL;
    ASSERT(mem_new(notes.n_bytes, "a copy", &copy) == ERR_OK);
    int n_refused = 0;
    for (int i = 0; i < N_NOISE; i++) {
        memcpy(copy, notes.block, notes.n_bytes);
        for (int k = 0; k <= i % 4; k++)
            copy[rng_below(&rng, (uint32_t)notes.n_bytes)] = (char)(i % 3   ? rng_u32(&rng)
                                                                    : i % 2 ? 0xFF
                                                                            : 0x7F);
        err_t err = shard_notes_read(copy, notes.n_bytes, N_CATEGORIES, annotations, &out);
        n_refused += err == ERR_DATA;
        if (err == ERR_OK) ASSERT(strlen(out.name) < notes.n_bytes && out.n_annotations <= 64);
    }
    OK(n_refused > 0, "%d with noise in them: %d refused, and nothing was read beyond their end (seed %d)",
       N_NOISE, n_refused, SEED);
    mem_free(&copy);
    mem_free(&notes.block);
}

int main(void)
{
    seal_t seal;
    sample_begin();
    tap_plan(6 + 4 + 3 + 10 + 5 + 3 + 2 + 1);
    shard_index_t *index = sample_pack(7, &seal);
    test_flips(index);
    test_truncation(index);
    test_flips_beside(index, &seal);
    test_schema(index);
    test_plans(index);
    test_hostile_index(index);
    test_hostile_notes();
    shard_index_free(&index);
    OK(sample_balanced(), "after all this nothing is left open or allocated");
    sample_clear();
    rmdir(sample_folder);
    return tap_done();
}
