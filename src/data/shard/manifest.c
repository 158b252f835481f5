/* SPDX-License-Identifier: MIT */
/* Writes manifest.json, the human-readable description of the index, and compares it with the index byte for
 * byte. Its text must not change. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "data/shard/index.h"

static void put_hash(json_t *j, const char *key, uint64_t value)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    json_string(j, key, text);
}

static void put_file(json_t *j, const char *name, int64_t n_bytes, uint64_t digest_high, uint64_t digest_low)
{
    char digest[33];
    snprintf(digest, sizeof digest, "%016" PRIx64 "%016" PRIx64, digest_high, digest_low);
    json_string(j, "name", name);
    json_int(j, "n_bytes", n_bytes);
    json_string(j, "xxh3_128", digest);
}

static void put_split(json_t *j, const shard_index_t *index, split_t split)
{
    const shard_head_t *head = index->head;
    int64_t n_annotations = 0, n_crowds = 0;
    for (int64_t k = 0; k < head->n_shards[split]; k++) {
        n_annotations += index->files[split][k].n_annotations;
        n_crowds += index->files[split][k].n_crowds;
    }
    json_object_begin(j, split_names[split]);
    json_int(j, "samples", head->n_samples[split]);
    json_int(j, "picture_bytes", shard_index_bytes(index, split));
    json_int(j, "annotations", n_annotations);
    json_int(j, "crowds", n_crowds);
    json_array_begin(j, "shards");
    for (int64_t k = 0; k < head->n_shards[split]; k++) {
        const shard_file_t *file = &index->files[split][k];
        json_object_begin(j, NULL);
        put_file(j, file->name, file->n_bytes, file->digest_high, file->digest_low);
        json_int(j, "samples", file->n_samples);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void put_images(json_t *j, const shard_head_t *head)
{
    json_object_begin(j, "pictures");
    json_string(j, "bytes",
                head->resize ? "re-encoded where the shorter side was longer; others as they were"
                             : "as they were");
    if (head->resize) {
        json_int(j, "shorter_side", head->resize);
        json_int(j, "jpeg_quality", head->quality);
        json_string(j, "annotations",
                    "boxes, areas and polygons scaled; runs sampled anew at the nearest pixel");
    }
    json_object_end(j);
}

static err_t format_manifest(const shard_index_t *index, const seal_t *seal, json_t *j)
{
    const shard_head_t *head = index->head;
    json_object_begin(j, NULL);
    json_string(j, "format", "dptrain shards");
    json_int(j, "schema", SHARD_SCHEMA);
    put_hash(j, "plan", head->plan);
    json_object_begin(j, "source");
    json_string(j, "kind", head->source_kind);
    json_string(j, "path", head->source_path);
    json_object_end(j);
    put_hash(j, "data_xxh3", head->data_hash);
    put_images(j, head);
    json_int(j, "shard_size", head->shard_bytes);
    json_object_begin(j, "index");
    put_file(j, SHARD_INDEX_NAME, seal->n_bytes, seal->digest_high, seal->digest_low);
    json_object_end(j);
    json_object_begin(j, "splits");
    for (int s = 0; s < SPLIT_COUNT; s++) put_split(j, index, (split_t)s);
    json_object_end(j);
    json_array_begin(j, "categories");
    for (int64_t c = 0; c < head->n_categories; c++) {
        json_object_begin(j, NULL);
        json_int(j, "id", index->categories[c].id);
        json_string(j, "name", index->categories[c].name);
        json_string(j, "supergroup", index->categories[c].supergroup);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
    return j->status;
}

err_t shard_manifest_write(const shard_index_t *index, const seal_t *seal, const char *folder)
{
    fs_temp_t temp;
    char path[FS_PATH_MAX];
    json_t j = {0};
    err_t err;
    TRY(fs_join(path, folder, SHARD_MANIFEST_NAME));
    TRY_OUT(err, fs_temp_open(&temp, "manifest", path));
    TRY_OUT(err, format_manifest(index, seal, &j));
    TRY_OUT(err, fs_temp_write(&temp, 0, j.text, j.n_bytes));
    TRY_OUT(err, fs_temp_write(&temp, (int64_t)j.n_bytes, "\n", 1));
    err = fs_temp_commit(&temp);
out:
    fs_temp_discard(&temp);
    json_free(&j);
    return err;
}

/* The open file must hold exactly the JSON and a newline. */
static err_t compare_manifest(int fd, const char *path, const json_t *j)
{
    char *text = NULL;
    size_t n_read = 0, most = j->n_bytes + 2;
    TRY(mem_new(most, "a manifest", &text));
    err_t err = ERR_OK;
    int reason = fs_read_all(fd, 0, text, most, &n_read);
    if (reason)
        RAISE_OUT(err, seal_errno_code(reason), "cannot read the manifest %s: %s", path, strerror(reason));
    if (n_read != j->n_bytes + 1 || memcmp(text, j->text, j->n_bytes) != 0 || text[j->n_bytes] != '\n')
        RAISE_OUT(err, ERR_DATA, "the manifest %s was altered: it does not match " SHARD_INDEX_NAME, path);
out:
    mem_free(&text);
    return err;
}

err_t shard_manifest_check(const shard_index_t *index, const seal_t *seal, const char *folder)
{
    char path[FS_PATH_MAX];
    json_t j = {0};
    err_t err;
    TRY(fs_join(path, folder, SHARD_MANIFEST_NAME));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) RAISE(seal_errno_code(errno), "cannot open the manifest %s: %s", path, strerror(errno));
    err = format_manifest(index, seal, &j);
    if (err == ERR_OK) err = compare_manifest(fd, path, &j);
    json_free(&j);
    close(fd);
    return err;
}
