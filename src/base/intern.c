/* SPDX-License-Identifier: MIT */
/* Open-addressing hash table over XXH3. The texts themselves live in the caller's arena. */
#include "base/mem.h"

#include <string.h>

#include "base/hash.h"

enum { FIRST_SLOTS = 256 };

/* The slot that holds the text, or the empty slot for it. */
static const char **find_slot(const intern_t *words, const char *text)
{
    size_t mask = words->n_slots - 1, i = (size_t)XXH3_64bits(text, strlen(text)) & mask;
    while (words->slots[i] && strcmp(words->slots[i], text) != 0) i = (i + 1) & mask;
    return &words->slots[i];
}

static err_t intern_grow(intern_t *words)
{
    intern_t larger = {.n_slots = words->n_slots ? 2 * words->n_slots : FIRST_SLOTS};
    TRY(mem_new_array((int64_t)larger.n_slots, sizeof *larger.slots, "a table of words", &larger.slots));
    for (size_t i = 0; i < words->n_slots; i++)
        if (words->slots[i]) *find_slot(&larger, words->slots[i]) = words->slots[i];
    mem_free(&words->slots);
    words->slots = larger.slots;
    words->n_slots = larger.n_slots;
    return ERR_OK;
}

err_t intern_text(intern_t *words, const char *text, const char **out)
{
    if (2 * (words->n + 1) > words->n_slots) TRY(intern_grow(words));
    const char **slot = find_slot(words, text);
    if (!*slot) {
        TRY(arena_text(&words->arena, text, strlen(text), slot));
        words->n++;
    }
    *out = *slot;
    return ERR_OK;
}

void intern_free(intern_t *words)
{
    mem_free(&words->slots);
    arena_free(&words->arena);
    *words = (intern_t){0};
}
