/* SPDX-License-Identifier: MIT */
/* Maps outputs of a detector to categories and back, by id or by row. */
#include "data/annotation/class_map.h"

#include <stdio.h>

#include "base/mem.h"

err_t class_map_new(const category_t *categories, int32_t n, class_map_t *out)
{
    int64_t largest = 0, least = 1;
    for (int32_t i = 0; i < n; i++) {
        if (categories[i].id > largest) largest = categories[i].id;
        if (categories[i].id < least) least = categories[i].id;
    }
    *out = (class_map_t){.ids = least > 0 && largest <= 4 * (int64_t)n};
    const int64_t n_classes = (out->ids ? largest : n) + 1;
    if (n_classes > CLASS_MAP_MAX)
        RAISE(ERR_DATA, "%d categories are more than the %d that a detector can have", (int)n, CLASS_MAP_MAX);
    out->n_classes = (int)n_classes;
    TRY(mem_new_array(n_classes, sizeof *out->category, "categories", &out->category));
    TRY(mem_new_array(n, sizeof *out->output, "categories", &out->output));
    for (int64_t i = 0; i < n_classes; i++) out->category[i] = -1;
    for (int32_t i = 0; i < n; i++) {
        out->output[i] = out->ids ? (int32_t)categories[i].id : i + 1;
        out->category[out->output[i]] = i;
    }
    return ERR_OK;
}

void class_map_free(class_map_t *map)
{
    mem_free(&map->category);
    mem_free(&map->output);
}

void class_map_describe(const class_map_t *map, int32_t n_categories, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "%d classes: the background, and %d categories by %s", map->n_classes,
             (int)n_categories, map->ids ? "their ids" : "their rows");
}
