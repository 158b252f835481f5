/* SPDX-License-Identifier: MIT */
/* Makes crafted files of sealed HDF5 files: changes some bytes, then mends all checksums and the seal, so that
 * only the structures are wrong. */
#ifndef TESTS_H5_CRAFT_H
#define TESTS_H5_CRAFT_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/h5/seal.h"
#include "store/h5/tree.h"

typedef struct craft {
    const char *name;
    const char *find; /* the first place with these bytes */
    size_t n_find, at;
    const char *bytes; /* overwrite what is `at` bytes after it */
    size_t n_bytes;
    const char *words; /* of the refusal */
} craft_t;

#define CRAFT(name, find, at, bytes, words)                                                                  \
    {                                                                                                        \
        name, find, sizeof(find) - 1, at, bytes, sizeof(bytes) - 1, words                                    \
    }
#define UNDEFINED "\xff\xff\xff\xff\xff\xff\xff\xff"
/* The first object is the root; its messages start at byte 8: link info, group info, attribute info. */
#define ROOT   "OHDR"
#define LAYOUT "\x08\x12\0\1\4\1"
#define FILL   "\5\2\0\1\3"
#define TYPE   "\3\x14\0\1"
#define TEXT   "xxh3\0\x13"

static const craft_t crafts[] = {
    CRAFT("link-info", ROOT, 14, "\0", "an index without its heap"),
    CRAFT("link-info-version", ROOT, 12, "\1", "an index of a form that"),
    CRAFT("dense", ROOT, 14, "\x30\0\0\0\0\0\0\0\x30\0\0\0\0\0\0\0", "begins with FRHP"),
    CRAFT("dense-order", ROOT, 13, "\1", "an index of a form that"),
    CRAFT("dense-undefined", ROOT, 42, UNDEFINED, "an index without its heap"),
    CRAFT("dense-far", ROOT, 42, "\0\0\0\0\0\0\0\1", "beyond the end of the file"),
    CRAFT("message", ROOT, 8, "\x16", "a message of type 22"),
    CRAFT("message-length", ROOT, 31, "\xff\xff", "goes beyond its header"),
    CRAFT("header-flags", ROOT, 5, "\5", "an object header of a form"),
    CRAFT("header-size", ROOT, 6, "\xff\xff", "an object header of 65535 bytes"),
    CRAFT("root-undefined", "\x89HDF", 36, UNDEFINED, "is missing"),
    CRAFT("root-far", "\x89HDF", 36, "\0\0\0\0\0\0\0\1", "beyond the end of the file"),
    CRAFT("old-format", "\x89HDF", 8, "\0", "HDF5's format 0"),
    CRAFT("not-closed", "\x89HDF", 11, "\1", "was not closed by its writer"),
    CRAFT("base", "\x89HDF", 12, "\0\0", "a superblock of a form"),
    CRAFT("undefined", LAYOUT, 6, UNDEFINED, "bytes is missing"),
    CRAFT("far", LAYOUT, 6, "\0\0\0\0\0\0\0\1", "beyond the end of the file"),
    CRAFT("size", LAYOUT, 14, "\1", "an array of"),
    CRAFT("chunked", LAYOUT, 5, "\2", "chunked array is not stored contiguously"),
    CRAFT("virtual", LAYOUT, 5, "\3", "virtual array is not stored contiguously"),
    CRAFT("filter", FILL, 0, "\x0b", "a filtered (compressed) array"),
    CRAFT("external", FILL, 0, "\7", "an array in another file"),
    CRAFT("shared", TYPE, 3, "\3", "a shared message"),
    CRAFT("type", TYPE, 4, "\x18", "an element type"),
    CRAFT("loop", "\6params", 7, "\x30\0\0\0\0\0\0\0", "structures overlap"),
    CRAFT("text-length", TEXT, 9, "\0\0\0\x40", "xxh3 is larger than the whole file"),
    CRAFT("text-longer", TEXT, 9, "\x12", "does not have the 18 bytes"),
    CRAFT("attribute-name", TEXT, 1, "\n", "contains the character 10"),
    CRAFT("slash", "\6params", 2, "/", "contains the character 47"),
    CRAFT("heap-filter", "FRHP", 7, "\1", "a heap of a form"),
    CRAFT("heap-rows", "FRHP", 140, "\xff\xff", "a heap of 65535 rows"),
    CRAFT("heap-far", "FRHP", 132, "\0\0\0\0\0\0\0\1", "beyond the end of the file"),
    CRAFT("heap-block", "FHDB", 13, "\1", "expected the block FHDB"),
    CRAFT("tree-type", "BTHD", 5, "\5", "a B-tree of type 5"),
    CRAFT("tree-node", "BTHD", 6, "\1\0\0\0", "with nodes of 1 bytes"),
    CRAFT("tree-depth", "BTHD", 12, "\1", "expected a node"),
    CRAFT("tree-count", "BTHD", 26, "\xff", "of its 255 records"),
    CRAFT("tree-many", "BTHD", 26, UNDEFINED, "more than the file can have"),
    CRAFT("record-far", "BTLF", 7, "\xff\xff\xff\xff\xff", "outside its blocks"),
    CRAFT("record-kind", "BTLF", 6, "\x20", "object of kind 32"),
    CRAFT("record-shared", "BTLF", 14, "\2", "a shared attribute"),
};
enum { N_CRAFTS = sizeof crafts / sizeof crafts[0] };

/* Mends checksums and seal. */
static inline void craft_seal(const char *path, const char *kind, uint64_t plan)
{
    const seal_file_t file = {open(path, O_RDWR), path, kind};
    struct stat info;
    seal_t seal = {.schema = 1, .plan = plan};
    ASSERT(file.fd >= 0 && fstat(file.fd, &info) == 0);
    (void)h5_tree_mend(&file, (int64_t)info.st_size);
    ASSERT(seal_write(&file, NULL, 0, &seal) == ERR_OK && close(file.fd) == 0);
}

/* False if the file has no such place. */
static inline bool craft_patch(const char *path, const craft_t *craft)
{
    int fd = open(path, O_RDWR);
    struct stat info;
    ASSERT(fd >= 0 && fstat(fd, &info) == 0 && info.st_size > SEAL_BYTES);
    char *data = malloc((size_t)info.st_size);
    ASSERT(data && pread(fd, data, (size_t)info.st_size, 0) == info.st_size);
    const char *place =
        memmem(data + SEAL_BYTES, (size_t)info.st_size - SEAL_BYTES, craft->find, craft->n_find);
    off_t at = place ? place - data + (off_t)craft->at : 0;
    free(data);
    bool found = place && pwrite(fd, craft->bytes, craft->n_bytes, at) == (ssize_t)craft->n_bytes;
    ASSERT(close(fd) == 0);
    return found;
}

#endif
