/* SPDX-License-Identifier: MIT */
/* What reads shards; the first byte chooses. Files as they are, shard or index: the seal stands before HDF5.
 * With DPTRAIN_FUZZ_HDF5 set the right seal is written around them, so that HDF5 sees the bytes: what that
 * finds is libhdf5's. Then blocks of memory: an index, a record's annotations. */
#include <fcntl.h>
#include <string.h>

#include "base/mem.h"
#include "data/shard/h5.h"
#include "data/shard/index.h"
#include "data/shard/notes.h"
#include "store/h5/seal.h"
#include "tests/fuzz/fuzz.h"

enum { N_CATEGORIES = 80 };

static void try_file(const char *kind, const uint8_t *data, size_t n)
{
    const char *path = fuzz_file(data, n);
    h5_file_t file;
    seal_t seal = {.schema = SHARD_SCHEMA, .plan = 1};
    shard_entry_t entries[4];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    MUST(fd >= 0);
    if (getenv("DPTRAIN_FUZZ_HDF5") && n > SEAL_BYTES)
        MUST(seal_write(&(seal_file_t){fd, path, kind}, NULL, 0, &seal) == ERR_OK);
    err_t err = shard_h5_open(&file, kind, path, fd, &seal);
    if (err == ERR_OK) err = shard_h5_read(&file, "records", SHARD_ENTRIES, 4, entries);
    err = h5_file_close(&file, err);
    MUST(err == ERR_OK || err == ERR_DATA || err == ERR_SYSTEM);
    close(fd);
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
