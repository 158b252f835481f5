/* SPDX-License-Identifier: MIT */
/* Short labels for metrics: case, test and the key fields that distinguish them from others of the same case
 * and test. */
#include <string.h>

#include "base/mem.h"
#include "report/records/fields.h"
#include "report/records/metrics.h"

enum { MAX_NAMES = 64 };

/* The metrics of one case and test. Each key field splits them into finer classes. */
typedef struct family {
    metric_t **members;
    int *class_of,
        *before; /* class of each member by the fields tried so far; the same before the last field */
    int n;
    const char *tried[MAX_NAMES]; /* field names */
    int n_tried;
} family_t;

static report_fields_t key_of(const metric_t *metric)
{
    const report_point_t *point = metric->starts->point;
    return point ? point->key : (report_fields_t){0};
}

/* Texts are interned, and numbers in keys keep their text. */
static bool same_field(const report_field_t *a, const report_field_t *b)
{
    return a == b || (a && b && a->text == b->text);
}

/* Splits the classes by a field's values. A class is named by the index of its first member. */
static void split_classes(family_t *f, const char *name)
{
    memcpy(f->before, f->class_of, (size_t)f->n * sizeof *f->before);
    for (int i = f->n - 1; i >= 0; i--) {
        const report_field_t *mine = fields_find(key_of(f->members[i]), name);
        int like = f->before[i];
        while (like < i && !(f->before[like] == f->before[i] &&
                             same_field(mine, fields_find(key_of(f->members[like]), name))))
            like++;
        f->class_of[i] = like;
    }
}

/* Whether the last field separated the member from another of its class. */
static bool is_told_apart(const family_t *f, int member)
{
    for (int i = 0; i < f->n; i++)
        if (f->before[i] == f->before[member] && f->class_of[i] != f->class_of[member]) return true;
    return false;
}

static bool is_new_name(family_t *f, const char *name)
{
    for (int i = 0; i < f->n_tried; i++)
        if (f->tried[i] == name) return false;
    if (f->n_tried == MAX_NAMES) return false;
    f->tried[f->n_tried++] = name;
    return true;
}

/* Numbers are prefixed with the field's name; texts speak for themselves. */
static err_t label_field(arena_t *arena, const report_field_t *field, const char **label)
{
    figure_t room;
    if (field->kind == FIELD_MISSING || !field->text) return ERR_OK;
    if (field->kind == FIELD_TEXT) return arena_format(arena, label, "%s %s", *label, field->text);
    return arena_format(arena, label, "%s %s %s", *label, field->name, fields_text(field, &room));
}

static err_t add_fields(arena_t *arena, family_t *f)
{
    memset(f->class_of, 0, (size_t)f->n * sizeof *f->class_of);
    f->n_tried = 0;
    for (int first = 0; first < f->n; first++) {
        report_fields_t key = key_of(f->members[first]);
        for (int i = 0; i < key.n; i++) {
            if (!is_new_name(f, key.at[i].name)) continue;
            split_classes(f, key.at[i].name);
            for (int m = 0; m < f->n; m++) {
                const report_field_t *field = fields_find(key_of(f->members[m]), key.at[i].name);
                if (field && is_told_apart(f, m)) TRY(label_field(arena, field, &f->members[m]->label));
            }
        }
    }
    return ERR_OK;
}

static err_t label_family(metrics_t *metrics, family_t *f)
{
    for (int m = 0; m < f->n; m++) {
        metric_t *metric = f->members[m];
        bool one_word = metric->case_name == metric->test;
        TRY(arena_format(&metrics->arena, &metric->label, "%s%s%s", metric->case_name, one_word ? "" : " ",
                         one_word ? "" : metric->test));
        if (!metric->starts->point && f->n > 1) /* training runs have no key fields */
            TRY(arena_format(&metrics->arena, &metric->label, "%s %s", metric->label, metric->key));
    }
    return add_fields(&metrics->arena, f);
}

static err_t label_all(metrics_t *metrics, family_t *f)
{
    for (metric_t *first = metrics->first; first; first = first->next) {
        if (first->label) continue;
        f->n = 0;
        for (metric_t *at = first; at; at = at->next)
            if (at->case_name == first->case_name && at->test == first->test) f->members[f->n++] = at;
        TRY(label_family(metrics, f));
    }
    return ERR_OK;
}

err_t metrics_label(metrics_t *metrics)
{
    family_t f = {0};
    err_t err;
    TRY_OUT(err, mem_new_array(metrics->n, sizeof(metric_t *), "metrics", &f.members));
    TRY_OUT(err, mem_new_array(metrics->n, sizeof(int), "metrics", &f.class_of));
    TRY_OUT(err, mem_new_array(metrics->n, sizeof(int), "metrics", &f.before));
    err = label_all(metrics, &f);
out:
    mem_free(&f.members);
    mem_free(&f.class_of);
    mem_free(&f.before);
    return err;
}

const char *metrics_part_label(const char *part)
{
    return strcmp(part, "allreduce") == 0 ? "exposed comm" : strcmp(part, "data") == 0 ? "data wait" : part;
}
