/* SPDX-License-Identifier: MIT */
/* Names a model's tensors by a table, and finds their spelling in a file. */
#include "train/weights/transfer.h"

#include <string.h>

#include "base/mem.h"

/* Outputs of the graph that are counted by the classes; the classifier's first. */
static const char *const head_outputs[] = {"logits", "box.logits", "box.deltas", "mask.logits"};
enum { N_HEAD_OUTPUTS = sizeof head_outputs / sizeof head_outputs[0] };

static const graph_node_t *layer_of_output(const graph_t *g, const char *name)
{
    int output = graph_find_output(g, name);
    int node = output < 0 ? -1 : g->values[g->outputs[output].value].node;
    return node < 0 ? NULL : &g->nodes[node];
}

const graph_node_t *transfer_classifier(const graph_t *g)
{
    const graph_node_t *layer = layer_of_output(g, head_outputs[0]);
    return layer ? layer : layer_of_output(g, head_outputs[1]);
}

static const graph_node_t *layer_of(const graph_t *g, int param)
{
    const graph_node_t *node = g->nodes;
    while (param >= node->first_param + node->desc.n_params || node->desc.n_params == 0) node++;
    return node;
}

/* The name of a trunk's tensor without the detector's prefix; NULL: it is not part of a trunk. */
static const char *alone(const char *name)
{
    size_t n = strlen(TRANSFER_TRUNK);
    return strncmp(name, TRANSFER_TRUNK, n) == 0 ? name + n : NULL;
}

static model_part_t part_of(const graph_t *g, const named_tensor_t *t)
{
    if (alone(t->param->name)) return PART_TRUNK;
    for (int i = 0; i < N_HEAD_OUTPUTS && t->layer; i++)
        if (layer_of_output(g, head_outputs[i]) == t->layer) return PART_HEAD;
    return PART_REST;
}

/* Refuses two tensors of the model under one name in the file. */
static err_t check_names_differ(const transfer_t *x)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < i && x->tensors[i].name[0]; k++)
            if (strcmp(x->tensors[i].name, x->tensors[k].name) == 0)
                RAISE(ERR_USAGE, "the name table maps both %s and %s of %s to '%.100s'",
                      x->tensors[k].param->name, x->tensors[i].param->name, x->graph->model,
                      x->tensors[i].name);
    return ERR_OK;
}

static err_t add_tensor(transfer_t *x, const graph_param_t *p, const graph_node_t *layer)
{
    named_tensor_t *t = &x->tensors[x->n++];
    *t = (named_tensor_t){.param = p, .layer = layer};
    t->part = part_of(x->graph, t);
    if (!name_table_find(&x->table, p->name, 0, t->name)) t->name[0] = '\0';
    return tensor_layout(p, layer, &x->table, &t->layout);
}

err_t transfer_open(const graph_t *g, const char *names, transfer_t *x)
{
    *x = (transfer_t){.graph = g};
    TRY(name_table_read(names, &x->table));
    TRY(mem_new_array(g->n_params + g->n_states, sizeof *x->tensors, "names of weights", &x->tensors));
    for (int i = 0; i < g->n_params; i++) TRY(add_tensor(x, &g->params[i], layer_of(g, i)));
    for (int i = 0; i < g->n_states; i++) TRY(add_tensor(x, &g->states[i], NULL));
    return check_names_differ(x);
}

void transfer_close(transfer_t *x)
{
    mem_free(&x->tensors);
}

/* Tries the spellings of a name; found[NAME_THEIRS_MAX] is the one in the file. */
static bool find_spelling(const name_table_t *table, const char *name, const npz_t *file, char *found)
{
    for (int nth = 0; nth < table->n; nth++)
        if (name_table_find(table, name, nth, found) && npz_has(file, found)) return true;
    return false;
}

err_t transfer_match(transfer_t *x, const npz_t *file)
{
    for (int i = 0; i < x->n; i++) {
        named_tensor_t *t = &x->tensors[i];
        char found[NAME_THEIRS_MAX];
        const char *short_name = alone(t->param->name);
        if (t->name[0] && npz_has(file, t->name)) continue;
        if (find_spelling(&x->table, t->param->name, file, found) ||
            (short_name && find_spelling(&x->table, short_name, file, found)))
            memcpy(t->name, found, sizeof found);
    }
    return check_names_differ(x);
}

err_t transfer_no_rule(const transfer_t *x, const named_tensor_t *t)
{
    bool detector = false;
    for (int i = 0; i < x->n; i++) detector = detector || x->tensors[i].part == PART_TRUNK;
    RAISE(ERR_USAGE, "the name table has no rule for %s of %s%s", t->param->name, x->graph->model,
          detector ? "; of the built-in ones, torchvision and dptrain name all layers of detectors" : "");
}
