/* SPDX-License-Identifier: MIT */
/* The names of the splits; categories as outputs of a detector, and the text of the ids that decide it. */
#include "data/annotation/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *const split_names[SPLIT_COUNT + 1] = {"train", "val", NULL};
const char *const split_words[SPLIT_COUNT] = {"training", "validation"};

annotation_name_t annotation_name(int64_t id)
{
    annotation_name_t name;
    if (id < ANNOTATION_FIRST_ID)
        snprintf(name.text, sizeof name.text, "annotations[%" PRId64 "]", id - INT64_MIN);
    else
        snprintf(name.text, sizeof name.text, "annotation %" PRId64, id);
    return name;
}

err_t class_map_new(const category_t *categories, int32_t n, int n_outputs, class_map_t *out)
{
    int64_t largest = 0, least = 1;
    for (int32_t i = 0; i < n; i++) {
        if (categories[i].id > largest) largest = categories[i].id;
        if (categories[i].id < least) least = categories[i].id;
    }
    const bool compact = least > 0 && largest <= 4 * (int64_t)n && largest < CLASS_MAP_MAX;
    *out = (class_map_t){.ids = compact && (n_outputs != n + 1 || largest == n)};
    if (n >= CLASS_MAP_MAX)
        RAISE(ERR_DATA, "%d categories are more than the %d that a detector can have", (int)n,
              CLASS_MAP_MAX - 1);
    const int64_t n_classes = (out->ids ? largest : n) + 1;
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

err_t category_ids_write(const category_t *categories, int32_t n, char **out)
{
    enum { ID = 21 }; /* characters of the longest, with a blank */
    size_t used = 0;
    TRY(mem_new((size_t)n * ID + 1, "categories", out));
    for (int32_t i = 0; i < n; i++)
        used += (size_t)snprintf(*out + used, ID + 1, "%s%" PRId64, i > 0 ? " " : "", categories[i].id);
    return ERR_OK;
}

err_t category_ids_read(const char *text, int64_t **ids, int32_t *n)
{
    *n = 0;
    for (char *end; *text; text = end) {
        errno = 0;
        const int64_t id = strtoll(text, &end, 10);
        if (end == text || errno || (*end && *end != ' ') || *n == CLASS_MAP_MAX)
            RAISE(ERR_DATA, "invalid list of categories: '%.40s'", text);
        TRY(mem_grow(*n + 1, sizeof **ids, "categories", ids));
        (*ids)[(*n)++] = id;
    }
    return ERR_OK;
}

/* ---- Rules of lists ---- */
const char *const list_boxes[LIST_BOXES_COUNT + 1] = {"auto", "stored", "shown", NULL};

list_rules_t list_rules(const list_rule_options_t *o, int64_t max_bad)
{
    list_rules_t rules = {.skip_missing = o->skip_missing,
                          .max_bad = max_bad,
                          .max_left_out = o->max_left_out > 0 ? o->max_left_out : -1};
    while (o->boxes && strcmp(list_boxes[rules.boxes], o->boxes) != 0) rules.boxes++;
    return rules;
}

double list_rules_most(const list_rules_t *rules)
{
    if (rules->max_left_out < 0) return 0;
    return rules->max_left_out > 0 ? rules->max_left_out : strtod(LIST_MAX_LEFT_OUT, NULL);
}

void list_rules_inherit(list_rules_t *rules, const list_rules_t *saved)
{
    const list_rules_t zero = {0};
    const double most = list_rules_most(rules), usual = list_rules_most(&zero);
    if (rules->boxes == LIST_BOXES_AUTO) rules->boxes = saved->boxes;
    rules->skip_missing |= saved->skip_missing;
    if (!(most < usual) && !(most > usual)) rules->max_left_out = saved->max_left_out;
    rules->holdout = saved->holdout;
}
