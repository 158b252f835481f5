/* SPDX-License-Identifier: MIT */
/* Memory of a list of samples, and its bytes for other ranks. */
#include "data/load/sample_list.h"

#include <string.h>

#include "base/mem.h"

/* Ends the bytes. */
typedef struct tail {
    int64_t n[SPLIT_COUNT];
    dataset_objects_t objects;
    canvases_t canvases;
} tail_t;

void sample_list_free(sample_list_t *list)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++) mem_free(&list->of[split]);
}

err_t sample_list_grow(sample_list_t *list, split_t split, int64_t more)
{
    return mem_grow(list->n[split] + more, sizeof *list->of[split], "the list of samples", &list->of[split]);
}

err_t sample_list_save(const sample_list_t *list, void **bytes, int64_t *n_bytes)
{
    const tail_t tail = {.n = {list->n[SPLIT_TRAIN], list->n[SPLIT_VAL]},
                         .objects = list->objects,
                         .canvases = list->canvases};
    const size_t n_refs = (size_t)(tail.n[SPLIT_TRAIN] + tail.n[SPLIT_VAL]) * sizeof(sample_ref_t);
    TRY(mem_resize((size_t)*n_bytes + n_refs + sizeof tail, "the list of samples", bytes));
    char *at = (char *)*bytes + *n_bytes;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const size_t n_split = (size_t)tail.n[split] * sizeof(sample_ref_t);
        if (n_split) memcpy(at, list->of[split], n_split);
        at += n_split;
    }
    memcpy(at, &tail, sizeof tail);
    *n_bytes += (int64_t)(n_refs + sizeof tail);
    return ERR_OK;
}

err_t sample_list_restore(const char *bytes, int64_t *n_bytes, sample_list_t *list)
{
    tail_t tail;
    int64_t left = *n_bytes - (int64_t)sizeof tail;
    const int64_t most = left / (int64_t)sizeof(sample_ref_t);
    if (left >= 0) memcpy(&tail, bytes + left, sizeof tail);
    if (left < 0 || tail.n[SPLIT_TRAIN] < 0 || tail.n[SPLIT_TRAIN] > most || tail.n[SPLIT_VAL] < 0 ||
        tail.n[SPLIT_VAL] > most - tail.n[SPLIT_TRAIN])
        RAISE(ERR_DATA, "the list of samples from rank 0 is damaged: its lengths do not match");
    left -= (tail.n[SPLIT_TRAIN] + tail.n[SPLIT_VAL]) * (int64_t)sizeof(sample_ref_t);
    const char *at = bytes + left;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const size_t n_split = (size_t)tail.n[split] * sizeof(sample_ref_t);
        TRY(mem_new(n_split, "the list of samples", &list->of[split]));
        memcpy(list->of[split], at, n_split);
        at += n_split;
        list->n[split] = tail.n[split];
    }
    list->objects = tail.objects;
    list->canvases = tail.canvases;
    *n_bytes = left;
    return ERR_OK;
}

err_t sample_list_check(const source_t *source, const sample_list_t *list)
{
    if (list->canvases.n < 0 || list->canvases.n > CANVAS_MAX)
        RAISE(ERR_DATA, "the list of samples from rank 0 has %d canvases", list->canvases.n);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < list->n[split]; i++)
            if (list->of[split][i].image < 0 || list->of[split][i].object < 0 ||
                list->of[split][i].image >= source->n_samples[split])
                RAISE(ERR_DATA, "the list of samples from rank 0 refers to unknown images");
    return ERR_OK;
}
