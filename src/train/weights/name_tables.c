/* SPDX-License-Identifier: MIT */
/* The built-in name tables: dptrain, torchvision, Detectron2, Hugging Face. Parsing is left to
 * name_table.c. */
#include "train/weights/name_table.h"

static const char dptrain[] = "layout OHWI\n"
                              "% %\n";

/* As in torchvision.models' state_dict; timm's ResNets have the same names. */
static const char torchvision[] = "layout OIHW\n"
                                  "%/gamma %.weight\n"
                                  "%/beta  %.bias\n"
                                  "%/weight %.weight\n"
                                  "%/bias %.bias\n"
                                  "%/running_mean %.running_mean\n"
                                  "%/running_var %.running_var\n";

/* As tools/convert-torchvision-to-d2.py of Detectron2 renames torchvision's. */
static const char detectron2[] =
    "layout OIHW\n"
    "bn1/gamma stem.conv1.norm.weight\n"
    "bn1/beta stem.conv1.norm.bias\n"
    "bn1/running_mean stem.conv1.norm.running_mean\n"
    "bn1/running_var stem.conv1.norm.running_var\n"
    "layer{s}.{b}.conv{c}/weight res{s+1}.{b}.conv{c}.weight\n"
    "layer{s}.{b}.bn{c}/gamma res{s+1}.{b}.conv{c}.norm.weight\n"
    "layer{s}.{b}.bn{c}/beta res{s+1}.{b}.conv{c}.norm.bias\n"
    "layer{s}.{b}.bn{c}/running_mean res{s+1}.{b}.conv{c}.norm.running_mean\n"
    "layer{s}.{b}.bn{c}/running_var res{s+1}.{b}.conv{c}.norm.running_var\n"
    "layer{s}.{b}.downsample.0/weight res{s+1}.{b}.shortcut.weight\n"
    "layer{s}.{b}.downsample.1/gamma res{s+1}.{b}.shortcut.norm.weight\n"
    "layer{s}.{b}.downsample.1/beta res{s+1}.{b}.shortcut.norm.bias\n"
    "layer{s}.{b}.downsample.1/running_mean res{s+1}.{b}.shortcut.norm.running_mean\n"
    "layer{s}.{b}.downsample.1/running_var res{s+1}.{b}.shortcut.norm.running_var\n"
    "%/weight stem.%.weight\n"
    "%/bias stem.%.bias\n";

/* transformers' ResNetForImageClassification (microsoft/resnet-50). */
#define STAGE "resnet.encoder.stages.{s-1}.layers.{b}."
static const char huggingface[] =
    "layout OIHW\n"
    "conv1/weight resnet.embedder.embedder.convolution.weight\n"
    "bn1/gamma resnet.embedder.embedder.normalization.weight\n"
    "bn1/beta resnet.embedder.embedder.normalization.bias\n"
    "bn1/running_mean resnet.embedder.embedder.normalization.running_mean\n"
    "bn1/running_var resnet.embedder.embedder.normalization.running_var\n"
    "layer{s}.{b}.conv{c}/weight " STAGE "layer.{c-1}.convolution.weight\n"
    "layer{s}.{b}.bn{c}/gamma " STAGE "layer.{c-1}.normalization.weight\n"
    "layer{s}.{b}.bn{c}/beta " STAGE "layer.{c-1}.normalization.bias\n"
    "layer{s}.{b}.bn{c}/running_mean " STAGE "layer.{c-1}.normalization.running_mean\n"
    "layer{s}.{b}.bn{c}/running_var " STAGE "layer.{c-1}.normalization.running_var\n"
    "layer{s}.{b}.downsample.0/weight " STAGE "shortcut.convolution.weight\n"
    "layer{s}.{b}.downsample.1/gamma " STAGE "shortcut.normalization.weight\n"
    "layer{s}.{b}.downsample.1/beta " STAGE "shortcut.normalization.bias\n"
    "layer{s}.{b}.downsample.1/running_mean " STAGE "shortcut.normalization.running_mean\n"
    "layer{s}.{b}.downsample.1/running_var " STAGE "shortcut.normalization.running_var\n"
    "fc/weight classifier.1.weight\n"
    "fc/bias classifier.1.bias\n";

const name_table_text_t name_tables[] = {
    {"torchvision", torchvision},
    {"detectron2", detectron2},
    {"huggingface", huggingface},
    {"dptrain", dptrain},
    {NULL, NULL},
};
