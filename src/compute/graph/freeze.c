/* SPDX-License-Identifier: MIT */
/* Freezing layers by name. */
#include <string.h>

#include "compute/graph/needs.h"

/* Whether the first n characters of a word name the layer, or the layers that it is one of: "layer1". */
static bool names_layer(const char *word, size_t n, const char *layer)
{
    return strncmp(word, layer, n) == 0 && (layer[n] == '\0' || layer[n] == '.');
}

/* The word after this one; NULL: it is the last. Sets *n to its own length. */
static const char *next_word(const char *word, size_t *n)
{
    *n = strcspn(word, ",");
    return word[*n] ? word + *n + 1 : NULL;
}

bool graph_freezes(const graph_t *graph, const char *name)
{
    size_t n;
    bool found = graph->frozen;
    for (const char *word = graph->freeze, *next; word && !found; word = next) {
        next = next_word(word, &n);
        found = names_layer(word, n, name);
    }
    return found;
}

err_t graph_check_freeze(const graph_t *graph)
{
    size_t n;
    for (const char *word = graph->freeze, *next; word; word = next) {
        bool found = false;
        next = next_word(word, &n);
        for (int i = 0; i < graph->n_nodes && !found; i++)
            found = graph->nodes[i].desc.n_params > 0 && names_layer(word, n, graph->nodes[i].name);
        if (!found)
            RAISE(
                ERR_USAGE,
                "%s has no layer '%.*s' with parameters to freeze; `dptrain info --model %s` lists the layers",
                graph->model, (int)n, word, graph->model);
    }
    return ERR_OK;
}
