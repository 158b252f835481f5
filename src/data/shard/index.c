/* SPDX-License-Identifier: MIT */
/* The index of a folder of shards: its block in memory and the check that offsets, counts and names are consistent;
 * index.h5; manifest.json, which is compared byte for byte, so that its text must not change; names of shards. */
#include "data/shard/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/shard/h5.h"
#include "text/json.h"

void shard_name(split_t split, int64_t number, int64_t n_shards, char out[SHARD_NAME_MAX])
{
    snprintf(out, SHARD_NAME_MAX, "%s-%05" PRId64 "-of-%05" PRId64 ".h5", split_names[split], number,
             n_shards);
}

/* The length of the shard's name at the start of `name`, or 0. */
static size_t name_length(const char *name)
{
    for (int split = 0; split < SPLIT_COUNT; split++) {
        int64_t number, n_shards;
        int n_read = 0;
        char again[SHARD_NAME_MAX], format[64];
        snprintf(format, sizeof format, "%s-%%9" SCNd64 "-of-%%9" SCNd64 ".h5%%n", split_names[split]);
        if (sscanf(name, format, &number, &n_shards, &n_read) != 2 || n_read == 0) continue;
        if (number < 0 || number >= n_shards) return 0;
        shard_name((split_t)split, number, n_shards, again);
        return strncmp(name, again, strlen(again)) == 0 ? strlen(again) : 0;
    }
    return 0;
}

bool shard_is_name(const char *name)
{
    size_t n = name_length(name);
    return n > 0 && name[n] == '\0';
}

bool shard_is_leftover(const char *name)
{
    if (name[0] != '.') return false;
    size_t n = name_length(name + 1);
    if (strncmp(name + 1, SHARD_INDEX_NAME, strlen(SHARD_INDEX_NAME)) == 0) n = strlen(SHARD_INDEX_NAME);
    if (strncmp(name + 1, SHARD_MANIFEST_NAME, strlen(SHARD_MANIFEST_NAME)) == 0)
        n = strlen(SHARD_MANIFEST_NAME);
    return n > 0 && fs_is_temp_suffix(name + 1 + n);
}

/* Sums of such counts cannot overflow; the largest published data set has 6e9 images. */
static const int64_t max_count = (int64_t)1 << 40;

static bool is_count(int64_t n)
{
    return n >= 0 && n <= max_count;
}

/* The block's size for a head's counts; -1 if they are invalid. */
static int64_t block_bytes(const shard_head_t *head)
{
    int64_t n = (int64_t)sizeof *head;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        if (!is_count(head->n_samples[s]) || !is_count(head->n_shards[s])) return -1;
        n += head->n_shards[s] * (int64_t)sizeof(shard_file_t) +
             head->n_samples[s] * (int64_t)sizeof(shard_entry_t);
    }
    if (!is_count(head->n_categories)) return -1;
    return n + head->n_categories * (int64_t)sizeof(shard_category_t);
}

/* Sets the pointers to the parts of a block. */
static void set_block(shard_index_t *index, void *block)
{
    char *at = block;
    const shard_head_t *head = block;
    index->head = block;
    at += sizeof *head;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        index->files[s] = (shard_file_t *)(void *)at;
        at += head->n_shards[s] * (int64_t)sizeof(shard_file_t);
    }
    for (int s = 0; s < SPLIT_COUNT; s++) {
        index->entries[s] = (shard_entry_t *)(void *)at;
        at += head->n_samples[s] * (int64_t)sizeof(shard_entry_t);
    }
    index->categories = (shard_category_t *)(void *)at;
}

_Static_assert(sizeof(shard_head_t) % 8 == 0 && sizeof(shard_file_t) % 8 == 0 &&
                   sizeof(shard_entry_t) % 8 == 0,
               "aligns the parts of a block");

static err_t new_block(int64_t n_block, shard_index_t **out, void *block_out)
{
    shard_index_t *index;
    char *block;
    TRY(mem_new(sizeof *index, "an index of shards", &index));
    err_t err = mem_new((size_t)n_block, "an index of shards", &block);
    if (err == ERR_OK) {
        *out = index;
        memcpy(block_out, &block, sizeof block);
    } else {
        mem_free(&index);
    }
    return err;
}

err_t shard_index_new(const shard_head_t *head, shard_index_t **out)
{
    int64_t n_block = block_bytes(head);
    if (n_block < 0) RAISE(ERR_DATA, "an index of shards with invalid counts");
    shard_index_t *index;
    shard_head_t *block = NULL;
    TRY(new_block(n_block, &index, &block));
    *block = *head;
    block->n_block = n_block;
    set_block(index, block);
    *out = index;
    return ERR_OK;
}

void shard_index_free(shard_index_t **index)
{
    if (!*index) return;
    mem_free(&(*index)->head);
    mem_free(index);
}

const void *shard_index_pack(const shard_index_t *index)
{
    return index->head;
}

err_t shard_index_unpack(const void *block, int64_t n_block, shard_index_t **out)
{
    shard_head_t head;
    if (n_block < (int64_t)sizeof head)
        RAISE(ERR_DATA, "an index of shards is truncated: %lld bytes", (long long)n_block);
    memcpy(&head, block, sizeof head);
    if (head.n_block != n_block || block_bytes(&head) != n_block)
        RAISE(ERR_DATA, "an index of shards has %lld bytes, which do not match its counts",
              (long long)n_block);
    shard_index_t *index;
    char *copy = NULL;
    TRY(new_block(n_block, &index, &copy));
    memcpy(copy, block, (size_t)n_block);
    set_block(index, copy);
    err_t err = shard_index_check(index, "an index in memory");
    if (err == ERR_OK)
        *out = index;
    else
        shard_index_free(&index);
    return err;
}

typedef struct cursor {
    int64_t next, next_notes; /* offsets required of the next record; 0: any */
} cursor_t;

static bool is_in_file(int64_t offset, int64_t n_bytes, int64_t next, const shard_file_t *file)
{
    return n_bytes > 0 && n_bytes <= SHARD_MAX_RECORD && offset >= SEAL_BYTES &&
           offset <= file->n_bytes - n_bytes && (next == 0 || offset == next);
}

static err_t check_entry(const shard_index_t *index, const shard_file_t *file, const shard_entry_t *e,
                         cursor_t *at)
{
    const char *why = NULL;
    if (!is_in_file(e->offset, e->n_bytes, at->next, file)) why = "invalid offset or size of its image";
    if (!is_in_file(e->notes_offset, e->notes_bytes, at->next_notes, file))
        why = "invalid offset or size of its annotations";
    if (e->width < 1 || e->height < 1) why = "invalid width or height";
    if (e->label < -1 || e->label >= index->head->n_categories) why = "invalid label";
    if (why) RAISE(ERR_DATA, "%s", why);
    at->next = e->offset + e->n_bytes;
    at->next_notes = e->notes_offset + e->notes_bytes;
    return ERR_OK;
}

static err_t check_file(const shard_index_t *index, split_t split, int64_t k, int64_t first)
{
    const shard_file_t *file = &index->files[split][k];
    const shard_head_t *head = index->head;
    char name[SHARD_NAME_MAX];
    cursor_t at = {0};
    shard_name(split, k, head->n_shards[split], name);
    if (strncmp(file->name, name, sizeof name) != 0)
        RAISE(ERR_DATA, "shard %lld is not named %s", (long long)k, name);
    if (file->first != first || file->n_samples < 1 || file->n_samples > head->n_samples[split] - first ||
        file->n_bytes < SEAL_BYTES || file->n_annotations < 0 || file->n_crowds < 0)
        RAISE(ERR_DATA, "invalid counts or size of %s", name);
    for (int64_t i = first; i < first + file->n_samples; i++) {
        const shard_entry_t *entry = &index->entries[split][i];
        err_t err = entry->shard == k
                        ? check_entry(index, file, entry, &at)
                        : err_raise(ERR_DATA, __FILE__, __LINE__, "it is listed in another shard");
        if (err != ERR_OK) return err_context(err, "%s, record %lld", name, (long long)(i - first));
    }
    return ERR_OK;
}

static bool is_text(const char *text, size_t n_bytes)
{
    return memchr(text, '\0', n_bytes) != NULL;
}

static err_t check_parts(const shard_index_t *index)
{
    const shard_head_t *head = index->head;
    if (head->plan == 0 || !is_text(head->source_kind, sizeof head->source_kind) ||
        !is_text(head->source_path, sizeof head->source_path) || head->resize < 0 ||
        head->resize > INT32_MAX || head->quality < 0 || head->quality > 100 ||
        head->n_categories > INT32_MAX || head->n_shards[0] > INT32_MAX || head->n_shards[1] > INT32_MAX)
        RAISE(ERR_DATA, "invalid head");
    for (int64_t c = 0; c < head->n_categories; c++)
        if (!is_text(index->categories[c].name, SHARD_TEXT_MAX) ||
            !is_text(index->categories[c].supergroup, SHARD_TEXT_MAX))
            RAISE(ERR_DATA, "the name of category %lld is not terminated", (long long)c);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        int64_t first = 0;
        for (int64_t k = 0; k < head->n_shards[s]; k++) {
            TRY(check_file(index, (split_t)s, k, first));
            first += index->files[s][k].n_samples;
        }
        if (first != head->n_samples[s])
            RAISE(ERR_DATA, "the shards of %s hold %lld samples, not %lld", split_names[s], (long long)first,
                  (long long)head->n_samples[s]);
    }
    return ERR_OK;
}

err_t shard_index_check(const shard_index_t *index, const char *path)
{
    err_t err = check_parts(index);
    return err == ERR_OK ? err : err_context(err, "cannot use the index %s", path);
}

/* ---- Arrays ---- */
#define MEMBER(struct, field, type)                                                                          \
    {                                                                                                        \
#field, offsetof(struct, field), type                                                                \
    }
static const h5_member_t entry_members[] = {
    MEMBER(shard_entry_t, shard, "i4"),       MEMBER(shard_entry_t, label, "i4"),
    MEMBER(shard_entry_t, offset, "i8"),      MEMBER(shard_entry_t, n_bytes, "i8"),
    MEMBER(shard_entry_t, hash, "u8"),        MEMBER(shard_entry_t, notes_offset, "i8"),
    MEMBER(shard_entry_t, notes_bytes, "i8"), MEMBER(shard_entry_t, notes_hash, "u8"),
    MEMBER(shard_entry_t, width, "i4"),       MEMBER(shard_entry_t, height, "i4"),
    MEMBER(shard_entry_t, id, "i8"),          {NULL, 0, NULL},
};
static const h5_member_t file_members[] = {
    MEMBER(shard_file_t, name, "t64"),
    MEMBER(shard_file_t, first, "i8"),
    MEMBER(shard_file_t, n_samples, "i8"),
    MEMBER(shard_file_t, n_bytes, "i8"),
    MEMBER(shard_file_t, n_annotations, "i8"),
    MEMBER(shard_file_t, n_crowds, "i8"),
    MEMBER(shard_file_t, digest_high, "u8"),
    MEMBER(shard_file_t, digest_low, "u8"),
    {NULL, 0, NULL},
};
static const h5_member_t category_members[] = {
    MEMBER(shard_category_t, id, "i8"),
    MEMBER(shard_category_t, name, "t256"),
    MEMBER(shard_category_t, supergroup, "t256"),
    {NULL, 0, NULL},
};
#undef MEMBER

static const struct {
    const char *name;
    const h5_member_t *members;
} types[] = {
    [SHARD_BYTES] = {"u1", NULL},
    [SHARD_ENTRIES] = {"struct72", entry_members},
    [SHARD_FILES] = {"struct120", file_members},
    [SHARD_CATEGORIES] = {"struct520", category_members},
};
_Static_assert(sizeof(shard_entry_t) == 72 && sizeof(shard_file_t) == 120 &&
                   sizeof(shard_category_t) == 520 && SHARD_NAME_MAX == 64 && SHARD_TEXT_MAX == 256,
               "elements have no padding");

err_t shard_h5_make(h5_file_t *file, const char *name, shard_type_t type, int64_t count, const void *data,
                    int64_t *offset)
{
    h5_array_t array = {.name = name,
                        .type = types[type].name,
                        .n_dims = 1,
                        .dims = {count},
                        .members = types[type].members,
                        .data = data};
    TRY(h5_file_put_array(file, &array));
    if (offset) *offset = array.offset;
    return ERR_OK;
}

err_t shard_h5_read(const h5_contents_t *contents, const char *name, shard_type_t type, int64_t count,
                    void *out)
{
    const char *kind = contents->file.kind, *path = contents->file.path;
    const h5_array_t *array = h5_contents_array(contents, name);
    if (!array) RAISE(ERR_DATA, "the %s %s has no array %s", kind, path, name);
    if (strcmp(array->type, types[type].name) != 0 || array->n_dims != 1 || array->dims[0] != count)
        RAISE(ERR_DATA,
              "the %s %s: the array %s differs in type or length from what dptrain writes (%" PRId64
              " elements)",
              kind, path, name, count);
    return h5_contents_read(contents, array, out);
}

/* ---- The file ---- */
/* The head's numbers, as attributes. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"n_train", offsetof(shard_head_t, n_samples[SPLIT_TRAIN])},
    {"n_val", offsetof(shard_head_t, n_samples[SPLIT_VAL])},
    {"n_train_shards", offsetof(shard_head_t, n_shards[SPLIT_TRAIN])},
    {"n_val_shards", offsetof(shard_head_t, n_shards[SPLIT_VAL])},
    {"n_categories", offsetof(shard_head_t, n_categories)},
    {"has_annotations", offsetof(shard_head_t, has_annotations)},
    {"shard_bytes", offsetof(shard_head_t, shard_bytes)},
    {"resize", offsetof(shard_head_t, resize)},
    {"quality", offsetof(shard_head_t, quality)},
};
enum { N_NUMBERS = sizeof numbers / sizeof numbers[0] };

static const char *const
    shards_names[SPLIT_COUNT] = {[SPLIT_TRAIN] = "/train/shards", [SPLIT_VAL] = "/val/shards"},
    *const records_names[SPLIT_COUNT] = {[SPLIT_TRAIN] = "/train/records", [SPLIT_VAL] = "/val/records"};

err_t shard_index_write(const shard_index_t *index, const char *folder, seal_t *seal)
{
    const shard_head_t *head = index->head;
    fs_temp_t temp;
    h5_file_t *f = NULL;
    char path[FS_PATH_MAX], hash[17];
    err_t err;
    *seal = (seal_t){.schema = SHARD_SCHEMA, .plan = head->plan};
    TRY(fs_join(path, folder, SHARD_INDEX_NAME));
    TRY_OUT(err, fs_temp_open(&temp, "index", path));
    TRY_OUT(err, h5_file_create(&(seal_file_t){temp.fd, temp.path, temp.kind}, seal, &f));
    for (int i = 0; i < N_NUMBERS; i++) {
        h5_attr_t number = h5_int(numbers[i].name, 0);
        memcpy(&number.integer, (const char *)head + numbers[i].offset, sizeof number.integer);
        TRY_OUT(err, h5_file_put_attr(f, &number));
    }
    snprintf(hash, sizeof hash, "%016" PRIx64, head->data_hash);
    const h5_attr_t texts[] = {h5_text("data_xxh3", hash), h5_text("source_kind", head->source_kind),
                               h5_text("source_path", head->source_path)};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) TRY_OUT(err, h5_file_put_attr(f, &texts[i]));
    TRY_OUT(err,
            shard_h5_make(f, "/categories", SHARD_CATEGORIES, head->n_categories, index->categories, NULL));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        TRY_OUT(err,
                shard_h5_make(f, shards_names[s], SHARD_FILES, head->n_shards[s], index->files[s], NULL));
        TRY_OUT(err, shard_h5_make(f, records_names[s], SHARD_ENTRIES, head->n_samples[s], index->entries[s],
                                   NULL));
    }
out:
    err = h5_file_close(&f, err, seal);
    if (err == ERR_OK) err = fs_temp_commit(&temp);
    fs_temp_discard(&temp);
    return err;
}

static err_t read_text(const h5_contents_t *c, const char *name, char *out, size_t n_bytes)
{
    const char *text;
    TRY(h5_contents_text(c, name, &text));
    if (strlen(text) >= n_bytes)
        RAISE(ERR_DATA, "the index %s: the attribute %s is longer than %zu bytes", c->file.path, name,
              n_bytes - 1);
    memcpy(out, text, strlen(text) + 1);
    return ERR_OK;
}

static err_t read_head(const h5_contents_t *c, shard_head_t *head)
{
    const seal_t *seal = &c->seal;
    for (int i = 0; i < N_NUMBERS; i++) {
        int64_t value;
        TRY(h5_contents_int(c, numbers[i].name, &value));
        memcpy((char *)head + numbers[i].offset, &value, sizeof value);
    }
    TRY(h5_contents_hash(c, "plan", &head->plan));
    TRY(h5_contents_hash(c, "data_xxh3", &head->data_hash));
    TRY(read_text(c, "source_kind", head->source_kind, sizeof head->source_kind));
    TRY(read_text(c, "source_path", head->source_path, sizeof head->source_path));
    /* Counts are limited by the file's size, so that hostile ones cost no memory. */
    int64_t most = seal->n_bytes / (int64_t)sizeof(shard_entry_t);
    bool fits =
        head->n_categories >= 0 && head->n_categories <= seal->n_bytes / (int64_t)sizeof(shard_category_t);
    for (int s = 0; s < SPLIT_COUNT; s++)
        fits &= head->n_samples[s] >= 0 && head->n_samples[s] <= most && head->n_shards[s] >= 0 &&
                head->n_shards[s] <= most;
    if (!fits) RAISE(ERR_DATA, "the index %s has larger counts than its size allows", c->file.path);
    return ERR_OK;
}

static err_t read_index(const char *path, int fd, shard_index_t **index, seal_t *seal)
{
    h5_contents_t c;
    shard_head_t head = {0};
    err_t err;
    TRY_OUT(err, h5_contents_open(&c, &(seal_file_t){fd, path, "index"}, SHARD_SCHEMA, SHARD_EARLIER));
    TRY_OUT(err, read_head(&c, &head));
    TRY_OUT(err, shard_index_new(&head, index));
    const shard_index_t *to = *index;
    TRY_OUT(err, shard_h5_read(&c, "/categories", SHARD_CATEGORIES, head.n_categories, to->categories));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        TRY_OUT(err, shard_h5_read(&c, shards_names[s], SHARD_FILES, head.n_shards[s], to->files[s]));
        TRY_OUT(err, shard_h5_read(&c, records_names[s], SHARD_ENTRIES, head.n_samples[s], to->entries[s]));
    }
out:
    *seal = c.seal;
    h5_contents_close(&c);
    return err;
}

err_t shard_index_read(const char *folder, shard_index_t **out, seal_t *seal)
{
    char path[FS_PATH_MAX];
    seal_t own;
    shard_index_t *index = NULL;
    TRY(fs_join(path, folder, SHARD_INDEX_NAME));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && fs_is_folder(folder))
        RAISE(ERR_DATA,
              "%s has no " SHARD_INDEX_NAME ": packing was not finished; run dptrain data pack again to "
              "continue it",
              folder);
    if (fd < 0) RAISE(seal_errno_code(errno), "cannot open the index %s: %s", path, strerror(errno));
    err_t err = read_index(path, fd, &index, seal ? seal : &own);
    close(fd);
    if (err == ERR_OK) err = shard_index_check(index, path);
    if (err == ERR_OK)
        *out = index;
    else
        shard_index_free(&index);
    return err;
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
    int64_t n_annotations = 0, n_crowds = 0, n_bytes = 0;
    for (int64_t k = 0; k < head->n_shards[split]; k++) {
        n_annotations += index->files[split][k].n_annotations;
        n_crowds += index->files[split][k].n_crowds;
    }
    for (int64_t k = 0; k < head->n_samples[split]; k++) n_bytes += index->entries[split][k].n_bytes;
    json_object_begin(j, split_names[split]);
    json_int(j, "samples", head->n_samples[split]);
    json_int(j, "picture_bytes", n_bytes);
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

static err_t format_manifest(const shard_index_t *index, const seal_t *seal, json_t *j)
{
    const shard_head_t *head = index->head;
    json_object_begin(j, NULL);
    json_string(j, "format", "dptrain shards");
    json_int(j, "schema", SHARD_SCHEMA);
    json_hex(j, "plan", head->plan, 16);
    json_object_begin(j, "source");
    json_string(j, "kind", head->source_kind);
    json_string(j, "path", head->source_path);
    json_object_end(j);
    json_hex(j, "data_xxh3", head->data_hash, 16);
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

err_t shard_manifest_check(const shard_index_t *index, const seal_t *seal, const char *folder)
{
    char path[FS_PATH_MAX];
    json_t j = {0};
    char *text = NULL;
    size_t n_read = 0;
    err_t err;
    TRY(fs_join(path, folder, SHARD_MANIFEST_NAME));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) RAISE(seal_errno_code(errno), "cannot open the manifest %s: %s", path, strerror(errno));
    TRY_OUT(err, format_manifest(index, seal, &j));
    /* The file must hold exactly the JSON and a newline. */
    const size_t most = j.n_bytes + 2;
    TRY_OUT(err, mem_new(most, "a manifest", &text));
    int reason = fs_read_all(fd, 0, text, most, &n_read);
    if (reason)
        RAISE_OUT(err, seal_errno_code(reason), "cannot read the manifest %s: %s", path, strerror(reason));
    if (n_read != j.n_bytes + 1 || memcmp(text, j.text, j.n_bytes) != 0 || text[j.n_bytes] != '\n')
        RAISE_OUT(err, ERR_DATA, "the manifest %s was altered: it does not match " SHARD_INDEX_NAME, path);
out:
    mem_free(&text);
    json_free(&j);
    close(fd);
    return err;
}
