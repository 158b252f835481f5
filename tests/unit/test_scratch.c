/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : scratch operands with and without a host side hold the same values; measuring
 * algorithms pins little memory. */
#include <string.h>

#include "compute/graph/algorithms.h"
#include "compute/graph/layers.h"
#include "compute/graph/measure.h"
#include "compute/models/model.h"
#include "tests/op_util.h"
#include "tests/tap.h"

enum { SAMPLES = 80, CHANNELS = 16, SIDE = 40 }; /* 8 MB */
static const size_t little = 5 << 20;

static const backend_t *device;
static backend_t counting;
static backend_memory_t memory;
static size_t n_largest; /* of the blocks of pinned memory */

static err_t count_host(size_t n_bytes, const char *what, void **out)
{
    if (n_bytes > n_largest) n_largest = n_bytes;
    return device->memory->alloc_host(n_bytes, what, out);
}

static op_desc_t a_convolution(dtype_t dtype)
{
    op_desc_t d = (op_desc_t)CONV(SAMPLES, SIDE, SIDE, CHANNELS, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, true);
    d.compute = d.x_dtype[0] = d.y_dtype[0] = dtype;
    must(op_infer(&d), "op_infer");
    return d;
}

static bool same_values(const hd_buffer_t *whole, const hd_buffer_t *block)
{
    void *got = NULL;
    if (!whole->device) return !block->device;
    must(mem_new(whole->n_bytes, "values", &got), "memory");
    if (device->memory) {
        must(device->memory->download(got, block->device, whole->n_bytes), "download");
        must(backend_sync(device), "waiting");
    } else {
        memcpy(got, block->device, whole->n_bytes);
    }
    bool same = memcmp(got, whole->host, whole->n_bytes) == 0;
    mem_free(&got);
    return same;
}

static void test_values(dtype_t dtype)
{
    op_desc_t desc = a_convolution(dtype);
    scratch_t whole, lean;
    must(scratch_new(&desc, device, true, "a test", &whole), "scratch_new");
    must(scratch_new_device(&desc, &counting, true, "a test", &lean), "scratch_new_device");
    /* The first blocks of both are x and y; later ones follow other random numbers. */
    OK(same_values(&whole.blocks[0], &lean.blocks[0]), "%s: the same values", dtype_name(dtype));
    OK(n_largest <= little, "at most %zu bytes of pinned memory at once", n_largest);
    scratch_free(&whole), scratch_free(&lean);
}

static void test_measuring(void)
{
    static const batch_size_t size = {.n = SAMPLES, .training = true};
    graph_t *g = NULL;
    algorithms_t table = {.n = 0};
    measure_result_t result;
    must(graph_new("large", &g), "graph");
    graph_input(g, "image", shape_3d(SIDE, SIDE, CHANNELS), DTYPE_F32);
    int v = nn_conv2d(g, "conv", 0, (conv2d_layer_t){.channels = 4, .kernel = 3, .pad = 1});
    model_add_loss(g, &(model_options_t){.n_classes = 3}, nn_linear(g, "fc", v, 3));
    must(graph_finish(g), "graph");
    /* The operands are made; filling them takes longer than the limit, so nothing is run. */
    measure_options_t options = {
        .graph = g, .backend = &counting, .sizes = &size, .n_sizes = 1, .limit_sec = 1e-4};
    n_largest = 0;
    OK(algorithms_measure(&options, &table, &result) == ERR_OK && result.n_left > 0,
       "algorithms are measured");
    OK(n_largest <= little, "with at most %zu bytes of pinned memory", n_largest);
    algorithms_free(&table);
    graph_free(&g);
}

int main(int argc, char **argv)
{
    device = util_open(argc, argv, 1);
    counting = *device;
    if (device->memory) {
        memory = *device->memory;
        memory.alloc_host = count_host;
        counting.memory = &memory;
    }
    tap_plan(4 + (device->memory ? 2 : 0) + 1);
    test_values(DTYPE_F32);
    test_values(DTYPE_BF16);
    if (device->memory) test_measuring();
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
