/* SPDX-License-Identifier: MIT */
/* Walks from the superblock over all groups and lists their content. */
#include "store/h5/tree.h"

#include <inttypes.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/h5/walk.h"

/* Deeper and longer than any name that is written. */
enum { MAX_DEPTH = 16, MAX_NAME = 1024, SUPERBLOCK_BYTES = 48 };

/* Signature, version, bytes of addresses and lengths, flags; then addresses: the base, the extension, the
 * file's end, and the root. */
static err_t read_superblock(walk_t *w, uint64_t *root)
{
    static const uint8_t signature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t *data;
    TRY(walk_fetch(w, 0, SUPERBLOCK_BYTES, &data));
    if (memcmp(data, signature, sizeof signature) != 0) return walk_refuse(w, 0, "its content is not HDF5");
    cursor_t c = {.at = data + sizeof signature, .n_left = SUPERBLOCK_BYTES - sizeof signature};
    uint64_t version = cursor_take(&c, 1), n_address = cursor_take(&c, 1), n_length = cursor_take(&c, 1);
    if (version < 2 || version > 3 || n_address != 8 || n_length != 8)
        return walk_refuse(
            w, 0, "HDF5's format %" PRIu64 " with addresses of %" PRIu64 " bytes, which dptrain never writes",
            version, n_address);
    TRY(walk_check_sum(w, 0, data, SUPERBLOCK_BYTES - 4, SUPERBLOCK_BYTES - 4));
    uint64_t flags = cursor_take(&c, 1), base = cursor_take(&c, 8), extension = cursor_take(&c, 8),
             end = cursor_take(&c, 8);
    *root = cursor_take(&c, 8);
    if (flags != 0) return walk_refuse(w, 0, "the file was not closed by its writer");
    if (base != SEAL_BYTES || extension != H5_UNDEFINED || end != w->length + SEAL_BYTES)
        return walk_refuse(w, 0, "a superblock of a form that dptrain never writes");
    return ERR_OK;
}

static err_t add_object(walk_t *w, uint64_t address, const char *name, int depth);

static err_t add_content(walk_t *w, const header_t *header, const char *name, int depth)
{
    for (int64_t i = 0; i < header->n_links; i++) {
        const link_t *link = &header->links[i];
        const char *full;
        size_t n = strlen(name) + 1 + strlen(link->name);
        if (depth == MAX_DEPTH || n >= MAX_NAME)
            return walk_refuse(w, link->address, "names under it are too long or too deep");
        TRY(walk_count(w, link->address, n + sizeof(h5_object_t)));
        TRY(arena_format(&w->tree->arena, &full, "%s/%s", name, link->name));
        TRY(add_object(w, link->address, full, depth + 1));
    }
    return ERR_OK;
}

static err_t add_object(walk_t *w, uint64_t address, const char *name, int depth)
{
    h5_tree_t *tree = w->tree;
    header_t header;
    h5_object_t object = {.first_attr = tree->n_attrs};
    const char *above = w->object;
    w->object = name[0] ? name : "/";
    err_t err = header_read(w, address, &header);
    if (err == ERR_OK)
        err = mem_grow(tree->n_objects + 1, sizeof *tree->objects, "the objects of a file", &tree->objects);
    if (err == ERR_OK) {
        object.is_array = !header.is_group;
        object.value = header.value;
        object.value.name = name;
        object.n_attrs = tree->n_attrs - object.first_attr;
        tree->objects[tree->n_objects++] = object;
        err = add_content(w, &header, name, depth);
    }
    mem_free(&header.links);
    w->object = above;
    return err;
}

static err_t read_tree(h5_tree_t *tree, const seal_file_t *file, int64_t n_bytes, bool mends)
{
    uint64_t root = 0;
    err_t err;
    *tree = (h5_tree_t){.file = *file};
    walk_t w = {.tree = tree, .object = "/", .length = (uint64_t)n_bytes - SEAL_BYTES, .mends = mends};
    ASSERT(n_bytes >= SEAL_BYTES);
    TRY_OUT(err, read_superblock(&w, &root));
    TRY_OUT(err, add_object(&w, root, "", 0));
    err = walk_finish(&w);
out:
    mem_free(&w.claims);
    return err;
}

err_t h5_tree_open(h5_tree_t *tree, const seal_file_t *file, int64_t n_bytes)
{
    return read_tree(tree, file, n_bytes, false);
}

err_t h5_tree_mend(const seal_file_t *file, int64_t n_bytes)
{
    h5_tree_t tree;
    err_t err = read_tree(&tree, file, n_bytes, true);
    h5_tree_close(&tree);
    return err;
}

void h5_tree_close(h5_tree_t *tree)
{
    mem_free(&tree->objects);
    mem_free(&tree->attrs);
    arena_free(&tree->arena);
    tree->n_objects = tree->n_attrs = 0;
}

const h5_object_t *h5_tree_find(const h5_tree_t *tree, const char *name)
{
    for (int64_t i = 0; i < tree->n_objects; i++)
        if (strcmp(tree->objects[i].value.name, name) == 0) return &tree->objects[i];
    return NULL;
}

const h5_value_t *h5_tree_attr(const h5_tree_t *tree, const h5_object_t *object, const char *name)
{
    for (int64_t i = 0; i < object->n_attrs; i++)
        if (strcmp(tree->attrs[object->first_attr + i].name, name) == 0)
            return &tree->attrs[object->first_attr + i];
    return NULL;
}

err_t h5_tree_read(const h5_tree_t *tree, const h5_value_t *value, void *out)
{
    const seal_file_t *file = &tree->file;
    size_t n_read = 0, n_bytes = (size_t)value->n_bytes;
    int reason = n_bytes ? fs_read_all(file->fd, value->offset, out, n_bytes, &n_read) : 0;
    if (reason)
        RAISE(seal_errno_code(reason), "the %s %s: %s cannot be read: %s", file->kind, file->path,
              value->name, strerror(reason));
    if (n_read < n_bytes)
        RAISE(ERR_DATA, "the %s %s was cut short while it was read", file->kind, file->path);
    return ERR_OK;
}
