/* SPDX-License-Identifier: MIT */
/* Layers of a step from a model's graph. */
#include "tools/forecast/layers.h"

#include <math.h>
#include <string.h>

#include "compute/models/model.h"

enum { DIGIT_SIDE = 28, IMAGE_SIDE = 224, DETECTOR_SIDE = 256, N_DIGITS = 10, N_IMAGE_CLASSES = 1000 };

static bool takes_digits(const char *model)
{
    return strncmp(model, "mnist", 5) == 0 || strcmp(model, "lenet5") == 0 || strcmp(model, "mlp") == 0;
}

static err_t build_sized(const char *model, int64_t side, int64_t n_channels, int n_classes, graph_t **out)
{
    const model_options_t options = {.sample = {3, {side, side, n_channels}}, .n_classes = n_classes};
    return model_build(model, &options, out);
}

/* Builds the graph that has the recorded number of parameters. Records do not hold the size of an input. */
static err_t build_recorded(const report_train_t *train, graph_t **out)
{
    const report_setting_t *s = train->setting;
    const int64_t given = s->input_size > 0 ? (int64_t)s->input_size : IMAGE_SIDE;
    const int64_t sides[][2] = {{DIGIT_SIDE, 1}, {given, 3}, {DIGIT_SIDE, 3}, {given, 1}, {32, 3}};
    const bool detects = model_detects(train->model);
    const int n_classes = (int)s->n_classes + detects;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const int64_t side = detects ? DETECTOR_SIDE : sides[i][0], n_channels = detects ? 3 : sides[i][1];
        err_info_t ignored;
        err_t err = build_sized(train->model, side, n_channels, n_classes, out);
        if (err == ERR_OK && (detects || (double)(*out)->n_parameters == train->n_parameters)) return ERR_OK;
        if (err == ERR_OK)
            graph_free(out);
        else
            err_take(err, &ignored);
    }
    RAISE(ERR_DATA,
          "the run of %s recorded %.0f parameters, which this dptrain's %s does not have: these are "
          "records of another model",
          train->model, train->n_parameters, train->model);
}

/* A profile's layer is named after the first of the layers that were fused into it. */
static const report_layer_t *find_layer(const report_profile_t *profile, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < profile->n_layers; i++) {
        const char *other = profile->layers[i].name;
        if (strncmp(other, name, n) == 0 && (other[n] == '\0' || other[n] == '+')) return &profile->layers[i];
    }
    return NULL;
}

static const graph_node_t *find_node(const graph_t *graph, const char *name)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const size_t n = strlen(graph->nodes[i].name);
        if (strncmp(graph->nodes[i].name, name, n) == 0 && (name[n] == '\0' || name[n] == '+'))
            return &graph->nodes[i];
    }
    return NULL;
}

static err_t check_layers(const graph_t *graph, const report_profile_t *profile, const char *model)
{
    for (int i = 0; i < profile->n_layers; i++)
        if (!find_node(graph, profile->layers[i].name))
            RAISE(ERR_DATA, "the profile has layer times of another model: %s has no layer %s", model,
                  profile->layers[i].name);
    for (int i = 0; i < graph->n_nodes; i++) {
        int64_t offset, count;
        graph_flat_range(graph, i, &offset, &count);
        const graph_node_t *node = &graph->nodes[i];
        if (count > 0 && !node->shared && !find_layer(profile, node->name))
            RAISE(ERR_DATA, "the profile has layer times of another model: no time of %s's layer %s", model,
                  node->name);
    }
    return ERR_OK;
}

/* The layers last first, with their gradients; times are the caller's. */
static err_t list_layers(const graph_t *graph, arena_t *arena, step_layer_t **at, layers_t *out)
{
    int64_t n_final = 0;
    TRY(arena_new(arena, (size_t)graph->n_nodes * sizeof **at, at));
    *out = (layers_t){.at = *at,
                      .n = graph->n_nodes,
                      .n_gradients = graph->n_flat_trained,
                      .n_parameters = graph->n_parameters};
    for (int i = 0; i < graph->n_nodes; i++) {
        const int node = graph->n_nodes - 1 - i;
        int64_t offset, count;
        graph_flat_range(graph, node, &offset, &count);
        const int64_t end = offset + count < graph->n_flat_trained ? offset + count : graph->n_flat_trained;
        /* Gradients become final in the order of the flat buffer; those of layers that share parameters with the last. */
        const int64_t n = count > 0 && end > n_final ? end - n_final : 0;
        (*at)[i] = (step_layer_t){.n_floats = n};
        n_final += n;
        out->n_flops += 6.0 * (double)op_macs(&graph->nodes[node].desc);
    }
    if (graph->n_nodes > 0) (*at)[graph->n_nodes - 1].n_floats += graph->n_flat_trained - n_final;
    return ERR_OK;
}

/* One layer for all. */
static void lump(step_layer_t *at, layers_t *out)
{
    at[0] = (step_layer_t){.backward_sec = out->backward_sec, .n_floats = out->n_gradients};
    out->n = 1;
    out->is_detector = true;
}

static void take_times(const graph_t *graph, const report_profile_t *profile, step_layer_t *at, layers_t *out)
{
    double sum = 0;
    for (int i = 0; i < out->n; i++) {
        const report_layer_t *layer = find_layer(profile, graph->nodes[graph->n_nodes - 1 - i].name);
        at[i].backward_sec = layer ? layer->backward_sec : 0;
        sum += at[i].backward_sec;
    }
    /* On a GPU layers are timed one by one, and take longer than together. */
    for (int i = 0; i < out->n; i++) at[i].backward_sec *= sum > 0 ? out->backward_sec / sum : 0;
}

err_t layers_measured(const report_train_t *train, arena_t *arena, layers_t *out)
{
    const report_profile_t *profile = train->profile;
    graph_t *graph = NULL;
    step_layer_t *at;
    err_t err = ERR_OK;
    TRY(build_recorded(train, &graph));
    TRY_OUT(err, list_layers(graph, arena, &at, out));
    out->forward_sec = profile->forward_sec;
    out->backward_sec = profile->backward_sec;
    if (model_detects(train->model)) {
        lump(at, out);
    } else {
        TRY_OUT(err, check_layers(graph, profile, train->model));
        take_times(graph, profile, at, out);
    }
out:
    graph_free(&graph);
    return err;
}

err_t layers_assumed(const char *model, int64_t input_size, double batch, double flops, arena_t *arena,
                     layers_t *out)
{
    const bool digits = takes_digits(model), detects = model_detects(model);
    const int64_t side = input_size > 0 ? input_size : digits ? DIGIT_SIDE : IMAGE_SIDE;
    graph_t *graph = NULL;
    step_layer_t *at;
    err_t err = ERR_OK;
    if (detects)
        RAISE(
            ERR_USAGE,
            "%s is a detector: how long its images take depends on what is in them; train it for 50 steps and give "
            "its metrics.jsonl",
            model);
    TRY(build_sized(model, side, digits ? 1 : 3, digits ? N_DIGITS : N_IMAGE_CLASSES, &graph));
    TRY_OUT(err, list_layers(graph, arena, &at, out));
    for (int i = 0; i < out->n; i++) {
        const double macs = batch * (double)op_macs(&graph->nodes[graph->n_nodes - 1 - i].desc);
        out->forward_sec += 2 * macs / flops;
        at[i].backward_sec = 4 * macs / flops;
        out->backward_sec += at[i].backward_sec;
    }
out:
    graph_free(&graph);
    return err;
}
