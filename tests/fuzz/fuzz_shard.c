/* SPDX-License-Identifier: MIT */
/* What reads shards; the first byte chooses. Files as they are, shard or index: the seal stands before
 * everything else. With DPTRAIN_FUZZ_HDF5 set the checksums of HDF5's metadata are mended and the right seal is
 * written around them, so that all bytes reach the reader. Then blocks of memory: an index, a record's annotations. */
#include <fcntl.h>
#include <string.h>

#include "base/mem.h"
#include "data/shard/h5.h"
#include "data/shard/shard.h"
#include "store/h5/seal.h"
#include "tests/fuzz/fuzz.h"

enum { N_CATEGORIES = 80 };

/* The plan that the seal says, which the content repeats. */
static uint64_t plan_inside(const uint8_t *data, size_t n)
{
    const char *at = n > SEAL_BYTES ? memmem(data, SEAL_BYTES - 16, "plan ", 5) : NULL;
    char digits[17] = "1";
    if (at) memcpy(digits, at + 5, 16);
    uint64_t plan = strtoull(digits, NULL, 16);
    return plan ? plan : 1;
}

static void try_file(const char *kind, const uint8_t *data, size_t n)
{
    const char *path = fuzz_file(data, n);
    const seal_file_t file = {open(path, O_RDWR | O_CLOEXEC), path, kind};
    h5_tree_t tree;
    seal_t seal = {.schema = SHARD_SCHEMA, .plan = plan_inside(data, n)};
    shard_entry_t entries[4];
    MUST(file.fd >= 0);
    if (getenv("DPTRAIN_FUZZ_HDF5") && n > SEAL_BYTES) {
        (void)h5_tree_mend(&file, (int64_t)n);
        MUST(seal_write(&file, NULL, 0, &seal) == ERR_OK);
    }
    err_t err = shard_h5_open(&tree, &file, &seal);
    if (err == ERR_OK) err = shard_h5_read(&tree, "/records", SHARD_ENTRIES, 4, entries);
    MUST(err == ERR_OK || err == ERR_DATA);
    h5_tree_close(&tree);
    close(file.fd);
}

/* As it comes, and with its own length in its head, without which nothing more is looked at. */
static void try_index(const uint8_t *data, size_t n)
{
    shard_index_t *index = NULL;
    shard_head_t head;
    MUST(shard_index_unpack(data, (int64_t)n, &index) == ERR_DATA || index);
    shard_index_free(&index);
    if (n < sizeof head) return;
    char *copy = malloc(n);
    MUST(copy);
    memcpy(copy, data, n);
    memcpy(&head, data, sizeof head);
    head.n_block = (int64_t)n;
    memcpy(copy, &head, sizeof head);
    if (shard_index_unpack(copy, (int64_t)n, &index) == ERR_OK) {
        const seal_t seal = {.schema = SHARD_SCHEMA};
        MUST(shard_manifest_check(index, &seal, "/nonexistent") == ERR_DATA);
    }
    shard_index_free(&index);
    free(copy);
}

static void try_notes(const uint8_t *data, size_t n)
{
    /* Exactly as many bytes as there are: a sanitizer sees each one beyond. */
    char *copy = malloc(n);
    size_t most = shard_notes_most(n);
    annotation_t *annotations = malloc(most * sizeof *annotations);
    sample_t sample;
    MUST((copy || n == 0) && (annotations || most == 0));
    if (n > 0) memcpy(copy, data, n);
    if (shard_notes_read(copy, n, N_CATEGORIES, annotations, &sample) == ERR_OK) {
        shard_notes_t notes = {0};
        MUST(shard_notes_add(&notes, &sample) == ERR_OK && notes.n_bytes == n);
        mem_free(&notes.block);
    }
    free(annotations);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    switch (data[0] % 4) {
    case 0:
        try_file("shard", data + 1, n - 1);
        break;
    case 1:
        try_file("index", data + 1, n - 1);
        break;
    case 2:
        try_index(data + 1, n - 1);
        break;
    default:
        try_notes(data + 1, n - 1);
    }
    MUST(mem_live() == 0);
    return 0;
}
