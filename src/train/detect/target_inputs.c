/* SPDX-License-Identifier: MIT */
/* Memory of the losses' inputs. What is in it is left to targets.c and mask_target.c. */
#include "train/detect/target_inputs.h"

#include <stdio.h>

static int find_input(const graph_t *g, const char *group, const char *what)
{
    char name[GRAPH_NAME_MAX];
    ASSERT(snprintf(name, sizeof name, "%s.%s", group, what) < GRAPH_NAME_MAX);
    return graph_find_input(g, name);
}

target_ports_t target_ports(const graph_t *g, const char *group)
{
    return (target_ports_t){find_input(g, group, "label"), find_input(g, group, "target"),
                            find_input(g, group, "weight")};
}

err_t target_inputs_new(const backend_t *backend, int64_t n, int64_t n_values, target_memory_t host,
                        target_inputs_t *out)
{
    static const char what[] = "training targets";
    const size_t word = sizeof(float), rows = (size_t)n;
    *out = (target_inputs_t){.n_values = n_values};
    TRY(hd_buffer_wrap(backend, rows * sizeof(int32_t), what, host.labels, NULL, &out->labels));
    TRY(hd_buffer_wrap(backend, rows * (size_t)n_values * word, what, host.targets, NULL, &out->targets));
    return hd_buffer_wrap(backend, rows * word, what, host.weights, NULL, &out->weights);
}

void target_inputs_free(target_inputs_t *inputs)
{
    hd_buffer_free(&inputs->labels);
    hd_buffer_free(&inputs->targets);
    hd_buffer_free(&inputs->weights);
}

target_memory_t target_inputs_row(const target_inputs_t *inputs, int64_t row)
{
    return (target_memory_t){(int32_t *)inputs->labels.host + row,
                             (float *)inputs->targets.host + row * inputs->n_values,
                             (float *)inputs->weights.host + row};
}

static err_t push(const hd_buffer_t *buffer, int64_t first, int64_t n, size_t row_bytes)
{
    return hd_buffer_push(buffer, (size_t)first * row_bytes, (size_t)n * row_bytes);
}

err_t target_inputs_push(const target_inputs_t *inputs, int64_t first, int64_t n)
{
    const size_t word = sizeof(float);
    TRY(push(&inputs->labels, first, n, sizeof(int32_t)));
    TRY(push(&inputs->targets, first, n, (size_t)inputs->n_values * word));
    return push(&inputs->weights, first, n, word);
}

static const void *at(const hd_buffer_t *buffer, int64_t row, size_t row_bytes)
{
    return (const char *)buffer->device + (size_t)row * row_bytes;
}

void target_inputs_set(const target_inputs_t *inputs, int64_t first, target_ports_t ports,
                       exec_batch_t *batch)
{
    const size_t word = sizeof(float);
    batch->input[ports.label] = at(&inputs->labels, first, sizeof(int32_t));
    batch->input[ports.target] = at(&inputs->targets, first, (size_t)inputs->n_values * word);
    batch->input[ports.weight] = at(&inputs->weights, first, word);
}
