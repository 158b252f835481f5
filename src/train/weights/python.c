/* SPDX-License-Identifier: MIT */
/* Lines of Python: a table of those that convert files; and the model in PyTorch, torchvision's with the changes that its
 * images need, or a Sequential of its layers. */
#include "train/weights/python.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/utf8.h"
#include "compute/models/builders.h"
#include "compute/models/rcnn.h"
#include "store/checkpoint/arrays.h"

enum { PATH_SHOWN = 120 };

/* Weights in files of other programs that are not read, and the two lines of Python that convert them; %1$s is the file,
 * %2$s the .npz to write. A training checkpoint holds the weights under any name: the dictionary with the most arrays
 * is taken. */
static const struct {
    file_kind_t kind;
    const char *lines, *more;
} conversions[] = {
    {FILE_PYTORCH,
     "import numpy, torch; d = torch.load(\"%1$s\", map_location=\"cpu\", weights_only=True)\n"
     "numpy.savez(\"%2$s\", **{k: v.detach().float().numpy() for k, v in max([d, *d.values()], key=lambda s: "
     "isinstance(s, dict) and sum(map(torch.is_tensor, s.values()))).items() if torch.is_tensor(v)})",
     ""},
    {FILE_TORCHSCRIPT,
     "import numpy, torch; d = torch.jit.load(\"%1$s\", map_location=\"cpu\").state_dict()\n"
     "numpy.savez(\"%2$s\", **{k: v.detach().float().numpy() for k, v in d.items()})",
     ""},
    {FILE_PICKLE,
     "import numpy, pickle; d = pickle.load(open(\"%1$s\", \"rb\"), encoding=\"latin1\")\n"
     "numpy.savez(\"%2$s\", **{k: numpy.asarray(v) for k, v in max([d, *d.values()], key=lambda s: isinstance(s, dict) "
     "and len(s)).items()})",
     "; a pickle can run any program, so know where it is from"},
    {FILE_ONNX,
     "import numpy, onnx; a = onnx.load(\"%1$s\").graph.initializer\n"
     "numpy.savez(\"%2$s\", **{t.name: onnx.numpy_helper.to_array(t) for t in a})",
     "; an optimized network has other arrays than its model"},
    {FILE_HDF5,
     "import h5py, numpy; a = {}; h5py.File(\"%1$s\").visititems(lambda k, v: a.update({k: v[()]}) if isinstance(v, "
     "h5py.Dataset) else None)\n"
     "numpy.savez(\"%2$s\", **a)",
     "; Keras's names need a table, --weights-names"},
};

/* The path within quotes of Python; FILE if it cannot be printed, or is long. */
static void quote(const char *path, char out[PATH_SHOWN])
{
    size_t n = 0, length;
    for (const char *at = path; *at; at += length) {
        length = utf8_length(at);
        if (length == 0 || utf8_is_control(at, length) || n + length + 2 > PATH_SHOWN) {
            snprintf(out, PATH_SHOWN, "FILE");
            return;
        }
        if (*at == '"' || *at == '\\') out[n++] = '\\';
        memcpy(out + n, at, length);
        n += length;
    }
    out[n] = '\0';
}

bool python_convert(file_kind_t kind, const char *path, python_t *out)
{
    char from[PATH_SHOWN], to[PATH_SHOWN + 8];
    size_t i = 0;
    while (i < sizeof conversions / sizeof *conversions && conversions[i].kind != kind) i++;
    if (i == sizeof conversions / sizeof *conversions) return false;
    quote(path, from);
    const int n_stem = fs_stem(from);
    /* What it converts is not overwritten. */
    snprintf(to, sizeof to, "%.*s.npz", strcmp(from + n_stem, ".npz") == 0 ? (int)strlen(from) : n_stem,
             from);
    snprintf(out->lines, sizeof out->lines, conversions[i].lines, from, to);
    out->more = conversions[i].more;
    return true;
}

__attribute__((format(printf, 2, 3))) static void add(python_t *p, const char *format, ...)
{
    va_list args;
    const size_t used = strlen(p->lines);
    va_start(args, format);
    vsnprintf(p->lines + used, sizeof p->lines - used, format, args);
    va_end(args);
}

/* One argument of a constructor, left out where it is the default. */
static void add_unless(python_t *p, int usual, const char *name, int value)
{
    if (value != usual) add(p, ", %s=%d", name, value);
}

/* A layer's constructor; of those that models without residuals have. */
static void add_layer(python_t *p, const op_desc_t *desc)
{
    const int64_t *in = desc->x[0].dim, *out = desc->y[0].dim;
    const int64_t channels = in[desc->x[0].n_dims - 1];
    const conv2d_attr_t *conv = &desc->attr.conv2d;
    const pool2d_attr_t *pool = &desc->attr.pool2d;
    switch (desc->kind) {
    case OP_CONV2D:
        add(p, "Conv2d(%lld, %lld, %d", (long long)channels, (long long)out[3], conv->kernel_h);
        add_unless(p, 1, "stride", conv->stride_h);
        add_unless(p, 0, "padding", conv->pad_h);
        add(p, "%s)", conv->has_bias ? "" : ", bias=False");
        break;
    case OP_LINEAR:
        add(p, "Linear(%lld, %lld)", (long long)shape_count(desc->x[0]), (long long)out[1]);
        break;
    case OP_POOL2D:
        add(p, "%sPool2d(%d", pool->mode == POOL_MAX ? "Max" : "Avg", pool->kernel_h);
        add_unless(p, pool->kernel_h, "stride", pool->stride_h);
        add_unless(p, 0, "padding", pool->pad_h);
        add(p, ")");
        break;
    case OP_BATCH_NORM:
        add(p, "BatchNorm%dd(%lld)", desc->x[0].n_dims == 4 ? 2 : 1, (long long)channels);
        break;
    case OP_DROPOUT:
        add(p, "Dropout(%g)", desc->attr.dropout.rate);
        break;
    case OP_RELU:
        add(p, "ReLU()");
        break;
    default:
        ASSERT(false);
    }
}

static void build_sequence(python_t *p, const graph_t *g)
{
    add(p, "import numpy, torch; from collections import OrderedDict; from torch.nn import *; "
           "model = Sequential(OrderedDict(");
    for (int i = 0; i < g->n_nodes; i++) {
        const graph_node_t *node = &g->nodes[i];
        const char *comma = i > 0 ? ", " : "";
        if (node->desc.kind == OP_SOFTMAX_XENT || node->desc.kind == OP_SIGMOID_BCE) continue;
        if (node->desc.kind == OP_LINEAR && node->desc.x[0].n_dims == 4)
            add(p, "%sflatten=Flatten()", comma), comma = ", ";
        add(p, "%s%s=", comma, node->name);
        add_layer(p, &node->desc);
    }
    add(p, "))");
}

static void build_resnet_of(python_t *p, const graph_t *g)
{
    const op_desc_t *first = &g->nodes[0].desc;
    const bool small = model_stem_of(g) == MODEL_STEM_SMALL;
    add(p, "import numpy, torch, torchvision; model = torchvision.models.%s(num_classes=%d)", g->model,
        model_classes(g));
    if (small || first->x[0].dim[3] != 3) {
        add(p, "; model.conv1 = torch.nn.");
        add_layer(p, first);
    }
    if (small) add(p, "; model.maxpool = torch.nn.Identity()");
}

static void build_vgg16_of(python_t *p, const graph_t *g)
{
    add(p, "import numpy, torch, torchvision; model = torchvision.models.vgg16(num_classes=%d)",
        model_classes(g));
    for (int i = 0; i < g->n_nodes; i++) {
        const graph_node_t *node = &g->nodes[i];
        const int64_t n_in = shape_count(node->desc.x[0]);
        const bool first = i == 0 && node->desc.x[0].dim[3] != 3;
        const bool head = strcmp(node->name, "classifier.0") == 0 && n_in != (int64_t)7 * 7 * 512;
        if (head) add(p, "; model.avgpool = torch.nn.Identity()");
        if (!first && !head) continue;
        add(p, "; model.%s[0] = torch.nn.", first ? "features" : "classifier");
        add_layer(p, &node->desc);
    }
}

/* The trunk has the model's name from '_' on: "maskrcnn_resnet50_fpn". FrozenBatchNorm2d is what torchvision builds by
 * default; running statistics compute the same. */
static void build_detector(python_t *p, const graph_t *g)
{
    const char *trunk = strchr(g->model, '_') + 1;
    add(p,
        "import numpy, torch, torchvision; from torchvision.models.detection import *; from "
        "torchvision.models.detection.backbone_utils import resnet_fpn_backbone; model = %s("
        "resnet_fpn_backbone(backbone_name='%.*s', weights=None",
        rcnn_has_masks(g) ? "MaskRCNN" : "FasterRCNN", (int)strcspn(trunk, "_"), trunk);
    if (g->norm == GRAPH_NORM_GROUP)
        add(p, ", norm_layer=lambda n: torch.nn.GroupNorm(32, n)");
    else if (g->norm_epsilon != 1e-5)
        add(p, ", norm_layer=lambda n: torchvision.ops.FrozenBatchNorm2d(n, eps=%g)", g->norm_epsilon);
    add(p, "), %d)", model_classes(g));
}

static void run_onnx(python_t *p, const graph_t *g, const char *name)
{
    const int64_t *d = graph_shape(g, 0).dim;
    add(p,
        "import numpy, onnxruntime; from PIL import Image; model = onnxruntime.InferenceSession(\"%s\")\n"
        "print(model.run([\"probabilities\"], {\"image\": numpy.asarray(Image.open(\"image.png\").convert(\"%s\")"
        ".resize((%lld, %lld)), \"float32\")%s[None]}))",
        name, d[3] == 3 ? "RGB" : "L", (long long)d[2], (long long)d[1],
        d[3] == 3 ? ".transpose(2, 0, 1)" : "[None]");
}

void python_load(const graph_t *g, const char *path, python_t *out)
{
    const model_t *model;
    char name[PATH_SHOWN];
    *out = (python_t){.more = ""};
    quote(path, name);
    if (fs_has_suffix(path, ".onnx")) {
        run_onnx(out, g, name);
        return;
    }
    if (model_find(g->model, &model) != ERR_OK) return;
    if (model->detects)
        build_detector(out, g);
    else if (model->net)
        build_resnet_of(out, g);
    else if (model->build == build_vgg16)
        build_vgg16_of(out, g);
    else
        build_sequence(out, g);
    if (fs_has_suffix(path, ".safetensors"))
        add(out, "\nimport safetensors.torch; model.load_state_dict(safetensors.torch.load_file(\"%s\"))",
            name);
    else if (arrays_named(path))
        add(out, "\nmodel.load_state_dict({k: torch.from_numpy(v) for k, v in numpy.load(\"%s\").items()})",
            name);
    else
        add(out,
            "\nimport h5py; model.load_state_dict({k: torch.from_numpy(v[()]) for k, v in h5py.File(\"%s\").items()})",
            name);
}
