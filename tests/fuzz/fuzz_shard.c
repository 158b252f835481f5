/* SPDX-License-Identifier: MIT */
/* What reads shards; the first byte chooses: a shard or an index as it is, with the seal before everything else; the table of
 * contents of one, after some data and under the right seal; blocks of memory: an index, a record's annotations. */
#include <fcntl.h>
#include <string.h>

#include "base/mem.h"
#include "data/shard/h5.h"
#include "data/shard/shard.h"
#include "tests/fuzz/fuzz.h"
#include "tests/sealed.h"

enum { N_CATEGORIES = 80 };

/* The path of a file with these bytes, or with this table. */
static const char *make_file(const char *kind, bool table, const uint8_t *data, size_t n)
{
    const char *path = table ? fuzz_file_without_table() : fuzz_file(data, n);
    if (table) sealed_end(path, kind, FUZZ_DATA_BYTES, data, n, (seal_t){.schema = SHARD_SCHEMA, .plan = 1});
    return path;
}

static void try_shard(const char *path, bool table)
{
    const seal_file_t file = {open(path, O_RDONLY | O_CLOEXEC), path, "shard"};
    h5_contents_t contents;
    shard_entry_t entries[3];
    MUST(file.fd >= 0);
    err_t err = h5_contents_open(&contents, &file, SHARD_SCHEMA, SHARD_EARLIER);
    if (err == ERR_OK) err = shard_h5_read(&contents, "/records", SHARD_ENTRIES, 3, entries);
    MUST(err == ERR_OK || err == ERR_DATA);
    SEED_MUST(err == ERR_OK || !table);
    h5_contents_close(&contents);
    close(file.fd);
}

static char folder[] = "/tmp/dptrain-fuzz-XXXXXX", link_path[sizeof folder + sizeof SHARD_INDEX_NAME];

static void remove_folder(void)
{
    unlink(link_path);
    rmdir(folder);
}

/* An index is read by its folder, which has a link to the file. */
static void try_index_file(const char *path)
{
    shard_index_t *index = NULL;
    if (!link_path[0]) {
        MUST(mkdtemp(folder) && atexit(remove_folder) == 0);
        snprintf(link_path, sizeof link_path, "%s/" SHARD_INDEX_NAME, folder);
        MUST(symlink(path, link_path) == 0);
    }
    err_t err = shard_index_read(folder, &index, NULL);
    MUST((err == ERR_OK && index) || err == ERR_DATA);
    shard_index_free(&index);
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
    const int what = data[0] % 6;
    data++, n--;
    if (what == 0 || what == 4) try_shard(make_file("shard", what == 4, data, n), what == 4);
    if (what == 1 || what == 5) try_index_file(make_file("index", what == 5, data, n));
    if (what == 2) try_index(data, n);
    if (what == 3) try_notes(data, n);
    MUST(mem_live() == 0);
    return 0;
}
