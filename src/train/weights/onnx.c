/* SPDX-License-Identifier: MIT */
/* The nodes of a classifier in ONNX, by protobuf-c messages of onnx.proto. Images are NHWC here and NCHW there: weights
 * are in torchvision's layout already. */
#include "train/weights/onnx.h"

#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "compute/models/model.h"
#include "text/json.h"

enum { IR_VERSION = 7, TYPE_FLOAT = 1, MAX_INPUTS = 5, MAX_ATTRIBUTES = 4 };

typedef struct writer {
    const onnx_network_t *network;
    arena_t arena; /* messages */
    err_t err;     /* the first */
    Onnx__GraphProto graph;
    const char **values; /* [graph->n_values] names of outputs */
} writer_t;

/* Zeroed; NULL after an error. */
static void *take(writer_t *w, size_t n_bytes)
{
    void *block = NULL;
    if (w->err == ERR_OK) w->err = arena_new(&w->arena, n_bytes, &block);
    if (block) memset(block, 0, n_bytes);
    return block;
}

/* Messages borrow texts, which they do not change. */
static char *borrow(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* A node with one output, which is also its name. Inputs end with NULL. */
static Onnx__NodeProto *add_node(writer_t *w, const char *type, const char *output,
                                 const char *const inputs[MAX_INPUTS])
{
    Onnx__NodeProto *node = take(w, sizeof *node);
    char **names = take(w, (MAX_INPUTS + 1) * sizeof *names);
    Onnx__AttributeProto **attributes = take(w, MAX_ATTRIBUTES * sizeof *attributes);
    if (w->err != ERR_OK) return NULL;
    onnx__node_proto__init(node);
    node->op_type = borrow(type);
    node->name = names[MAX_INPUTS] = borrow(output);
    node->input = names;
    node->output = &names[MAX_INPUTS];
    node->n_output = 1;
    node->attribute = attributes;
    while (node->n_input < MAX_INPUTS && inputs[node->n_input])
        names[node->n_input] = borrow(inputs[node->n_input]), node->n_input++;
    w->graph.node[w->graph.n_node++] = node;
    return node;
}

static Onnx__AttributeProto *add_attribute(writer_t *w, Onnx__NodeProto *node, const char *name,
                                           Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *a = take(w, sizeof *a);
    if (!a) return NULL;
    ASSERT(node->n_attribute < MAX_ATTRIBUTES);
    onnx__attribute_proto__init(a);
    a->name = borrow(name);
    a->type = type;
    return node->attribute[node->n_attribute++] = a;
}

static void set_int(writer_t *w, Onnx__NodeProto *node, const char *name, int64_t value)
{
    Onnx__AttributeProto *a = add_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (a) a->i = value;
}

static void set_ints(writer_t *w, Onnx__NodeProto *node, const char *name, const int *values, int n)
{
    Onnx__AttributeProto *a = add_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    int64_t *ints = take(w, (size_t)n * sizeof *ints);
    if (w->err != ERR_OK) return;
    for (int i = 0; i < n; i++) ints[i] = values[i];
    a->ints = ints;
    a->n_ints = (size_t)n;
}

/* An array that nodes read by its name. The data is borrowed. */
static void add_array(writer_t *w, const array_entry_t *entry)
{
    Onnx__TensorProto *t = take(w, sizeof *t);
    int64_t *dims = take(w, SHAPE_MAX_DIMS * sizeof *dims);
    if (w->err != ERR_OK) return;
    onnx__tensor_proto__init(t);
    memcpy(dims, entry->shape.dim, (size_t)entry->shape.n_dims * sizeof *dims);
    t->dims = dims;
    t->n_dims = (size_t)entry->shape.n_dims;
    t->data_type = TYPE_FLOAT;
    t->name = borrow(entry->name);
    t->raw_data = (ProtobufCBinaryData){(size_t)shape_count(entry->shape) * sizeof(float),
                                        (uint8_t *)(uintptr_t)entry->data};
    w->graph.initializer[w->graph.n_initializer++] = t;
}

/* A float tensor [batch, dims…]. */
static Onnx__ValueInfoProto *port(writer_t *w, const char *name, const int64_t *dims, int n)
{
    Onnx__ValueInfoProto *info = take(w, sizeof *info);
    Onnx__TypeProto *type = take(w, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = take(w, sizeof *tensor);
    Onnx__TensorShapeProto *shape = take(w, sizeof *shape);
    Onnx__TensorShapeProto__Dimension *each = take(w, (size_t)(n + 1) * sizeof *each),
                                      **list = take(w, (size_t)(n + 1) * sizeof *list);
    if (w->err != ERR_OK) return NULL;
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    for (int i = 0; i <= n; i++) {
        onnx__tensor_shape_proto__dimension__init(list[i] = &each[i]);
        each[i].value_case = i ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                               : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        if (i)
            each[i].dim_value = dims[i - 1];
        else
            each[i].dim_param = borrow("batch");
    }
    shape->dim = list;
    shape->n_dim = (size_t)(n + 1);
    tensor->elem_type = TYPE_FLOAT;
    tensor->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = borrow(name);
    info->type = type;
    return info;
}

/* (image - 255 · mean) / (255 · std) */
static void add_pixels(writer_t *w)
{
    const shape_t image = graph_shape(w->network->graph, 0);
    const int64_t n = image.dim[3];
    float *mean = take(w, (size_t)n * sizeof *mean), *std = take(w, (size_t)n * sizeof *std);
    if (w->err != ERR_OK) return;
    for (int64_t k = 0; k < n; k++) {
        mean[k] = (float)(255 * w->network->norm->mean[k]);
        std[k] = (float)(255 * w->network->norm->std[k]);
    }
    const shape_t shape = shape_4d(1, n, 1, 1);
    add_array(w, &(array_entry_t){"pixels.mean", shape, mean});
    add_array(w, &(array_entry_t){"pixels.std", shape, std});
    add_node(w, "Sub", "pixels.centered", (const char *const[MAX_INPUTS]){"image", "pixels.mean"});
    add_node(w, "Div", "pixels.normalized", (const char *const[MAX_INPUTS]){"pixels.centered", "pixels.std"});
    w->values[0] = "pixels.normalized";
}

static void add_window(writer_t *w, Onnx__NodeProto *out, const int kernel[2], const int stride[2],
                       const int pad[2])
{
    set_ints(w, out, "kernel_shape", kernel, 2);
    set_ints(w, out, "strides", stride, 2);
    set_ints(w, out, "pads", (const int[]){pad[0], pad[1], pad[0], pad[1]}, 4);
}

static void add_layer(writer_t *w, const graph_node_t *node)
{
    const graph_t *g = w->network->graph;
    const op_desc_t *desc = &node->desc;
    const conv2d_attr_t *conv = &desc->attr.conv2d;
    const pool2d_attr_t *pool = &desc->attr.pool2d;
    const char *inputs[MAX_INPUTS + 1] = {w->values[node->input[0]]};
    const bool last = g->outputs[graph_find_output(g, "logits")].value == node->output[0];
    const char *const output = last ? "logits" : node->name;
    Onnx__NodeProto *out;
    int n = 1;
    for (int i = 0; i < desc->n_params; i++) inputs[n++] = w->network->entries[node->first_param + i].name;
    for (int i = 0; i < desc->n_states; i++)
        inputs[n++] = w->network->entries[g->n_params + node->first_state + i].name;
    w->values[node->output[0]] = output;
    switch (desc->kind) {
    case OP_CONV2D:
        ASSERT(conv->dilation_h == 1 && conv->dilation_w == 1 && conv->groups == 1);
        out = add_node(w, "Conv", output, inputs);
        add_window(w, out, (const int[]){conv->kernel_h, conv->kernel_w},
                   (const int[]){conv->stride_h, conv->stride_w}, (const int[]){conv->pad_h, conv->pad_w});
        break;
    case OP_LINEAR:
        if (desc->x[0].n_dims == 4) {
            const char *const from[MAX_INPUTS] = {inputs[0]};
            if (w->err == ERR_OK) w->err = arena_format(&w->arena, &inputs[0], "%s.flatten", node->name);
            add_node(w, "Flatten", inputs[0], from);
        }
        out = add_node(w, "Gemm", output, inputs);
        set_int(w, out, "transB", 1);
        break;
    case OP_POOL2D:
        out = add_node(w, pool->mode == POOL_MAX ? "MaxPool" : "AveragePool", output, inputs);
        add_window(w, out, (const int[]){pool->kernel_h, pool->kernel_w},
                   (const int[]){pool->stride_h, pool->stride_w}, (const int[]){pool->pad_h, pool->pad_w});
        break;
    case OP_BATCH_NORM: {
        out = add_node(w, "BatchNormalization", output, inputs);
        Onnx__AttributeProto *a =
            add_attribute(w, out, "epsilon", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
        if (a) a->f = (float)desc->attr.batch_norm.epsilon;
        break;
    }
    case OP_ADD:
        inputs[1] = w->values[node->input[1]];
        add_node(w, "Add", output, inputs);
        break;
    case OP_RELU:
        add_node(w, "Relu", output, inputs);
        break;
    case OP_DROPOUT:
        w->values[node->output[0]] = inputs[0];
        break; /* of training */
    case OP_SOFTMAX_XENT:
    case OP_SIGMOID_BCE:
        out = add_node(w, desc->kind == OP_SOFTMAX_XENT ? "Softmax" : "Sigmoid", "probabilities", inputs);
        if (desc->kind == OP_SOFTMAX_XENT) set_int(w, out, "axis", 1);
        break;
    default:
        ASSERT(false); /* no classifier has it */
    }
}

static err_t build(writer_t *w)
{
    const graph_t *g = w->network->graph;
    const int n_entries = g->n_params + g->n_states;
    const int64_t *image = graph_shape(g, 0).dim, n_classes = model_classes(g);
    onnx__graph_proto__init(&w->graph);
    w->graph.name = borrow(g->model);
    w->graph.node = take(w, (size_t)(2 * g->n_nodes + 2) * sizeof *w->graph.node);
    w->graph.initializer = take(w, (size_t)(n_entries + 2) * sizeof *w->graph.initializer);
    w->graph.input = take(w, sizeof *w->graph.input);
    w->graph.output = take(w, 2 * sizeof *w->graph.output);
    w->values = take(w, (size_t)g->n_values * sizeof *w->values);
    TRY(w->err);
    add_pixels(w);
    for (int i = 0; i < n_entries; i++) add_array(w, &w->network->entries[i]);
    for (int i = 0; i < g->n_nodes && w->err == ERR_OK; i++) add_layer(w, &g->nodes[i]);
    w->graph.input[0] = port(w, "image", (const int64_t[]){image[3], image[1], image[2]}, 3);
    w->graph.output[0] = port(w, "logits", &n_classes, 1);
    w->graph.output[1] = port(w, "probabilities", &n_classes, 1);
    w->graph.n_input = 1;
    w->graph.n_output = 2;
    return w->err;
}

/* A protobuf-c buffer that writes to a file. */
typedef struct file_buffer {
    ProtobufCBuffer base;
    const fs_temp_t *temp;
    err_t err; /* the first */
} file_buffer_t;

static void append(ProtobufCBuffer *base, size_t n_bytes, const uint8_t *data)
{
    file_buffer_t *buffer = (file_buffer_t *)base;
    if (buffer->err == ERR_OK) buffer->err = fs_temp_write(buffer->temp, FS_HERE, data, n_bytes);
}

static err_t write_model(const Onnx__ModelProto *model, const char *path)
{
    fs_temp_t temp = {.fd = -1};
    file_buffer_t buffer = {.base = {.append = append}, .temp = &temp};
    TRY(fs_temp_open(&temp, "file", path));
    onnx__model_proto__pack_to_buffer(model, &buffer.base);
    if (buffer.err == ERR_OK) buffer.err = fs_temp_commit(&temp);
    fs_temp_discard(&temp);
    return buffer.err;
}

err_t onnx_write(const char *path, const onnx_network_t *network)
{
    writer_t w = {.network = network};
    json_t classes = {0};
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    Onnx__StringStringEntryProto notes[2], *listed[] = {&notes[0], &notes[1]};
    err_t err;
    TRY_OUT(err, build(&w));
    for (int i = 0; i < 2; i++) onnx__string_string_entry_proto__init(&notes[i]);
    notes[0].key = "model";
    notes[0].value = w.graph.name;
    if (network->class_names) {
        json_array_begin(&classes, NULL);
        int n;
        for (const char *rest = network->class_names, *line, *name; (line = print_next_line(&rest, &n));) {
            TRY_OUT(err, arena_text(&w.arena, line, (size_t)n, &name));
            json_string(&classes, NULL, name);
        }
        json_array_end(&classes);
        TRY_OUT(err, classes.status);
        notes[1].key = "classes";
        notes[1].value = classes.text;
    }
    opset.version = ONNX_OPSET;
    model.ir_version = IR_VERSION;
    model.producer_name = "dptrain";
    model.producer_version = borrow(version_number);
    model.graph = &w.graph;
    model.opset_import = opsets;
    model.n_opset_import = 1;
    model.metadata_props = listed;
    model.n_metadata_props = network->class_names ? 2 : 1;
    err = write_model(&model, path);
out:
    json_free(&classes);
    arena_free(&w.arena);
    return err;
}
