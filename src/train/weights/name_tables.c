/* SPDX-License-Identifier: MIT */
/* The built-in name tables: dptrain, torchvision, Detectron2, TensorPack, Hugging Face. Parsing is left to
 * name_table.c. */
#include "train/weights/name_table.h"

static const char dptrain[] = "layout OHWI\n"
                              "deconv HWOI\n"
                              "% %\n";

/* As in torchvision.models' state_dict; timm's ResNets have the same names. Then those of detectors saved by
 * torchvision up to 0.12. */
#define OLDER(OURS, THEIRS) OURS "/weight " THEIRS ".weight\n" OURS "/bias " THEIRS ".bias\n"
static const char torchvision[] = "layout OIHW\n"
                                  "%/gamma %.weight\n"
                                  "%/beta  %.bias\n"
                                  "%/weight %.weight\n"
                                  "%/bias %.bias\n"
                                  "%/running_mean %.running_mean\n"
                                  "%/running_var %.running_var\n" //
    OLDER("backbone.fpn.inner_blocks.{k}.0", "backbone.fpn.inner_blocks.{k}")
        OLDER("backbone.fpn.layer_blocks.{k}.0", "backbone.fpn.layer_blocks.{k}")
            OLDER("rpn.head.conv.0.0", "rpn.head.conv")
                OLDER("roi_heads.mask_head.{k}.0", "roi_heads.mask_head.mask_fcn{k+1}");

/* As tools/convert-torchvision-to-d2.py of Detectron2 renames torchvision's; as the trunk of a detector with a
 * prefix. */
#define D2_NORM(OURS, THEIRS)                                                                                \
    OURS "/gamma " THEIRS ".weight\n" OURS "/beta " THEIRS ".bias\n" OURS "/running_mean " THEIRS            \
         ".running_mean\n" OURS "/running_var " THEIRS ".running_var\n"
#define D2_TRUNK(OURS, THEIRS)                                                                               \
    OURS "conv1/weight " THEIRS "stem.conv1.weight\n" D2_NORM(OURS "bn1", THEIRS "stem.conv1.norm") OURS     \
        "layer{s}.{b}.conv{c}/weight " THEIRS "res{s+1}.{b}.conv{c}.weight\n" D2_NORM(                       \
            OURS "layer{s}.{b}.bn{c}", THEIRS "res{s+1}.{b}.conv{c}.norm") OURS                              \
        "layer{s}.{b}.downsample.0/weight " THEIRS "res{s+1}.{b}.shortcut.weight\n" D2_NORM(                 \
            OURS "layer{s}.{b}.downsample.1", THEIRS "res{s+1}.{b}.shortcut.norm")
static const char detectron2[] = "layout OIHW\n" //
    D2_TRUNK("", "")                             //
    "fc/weight stem.fc.weight\n"
    "fc/bias stem.fc.bias\n" //
    D2_TRUNK("backbone.body.", "backbone.bottom_up.");

/* ResNets of TensorPack's examples and model zoo; files written from a TensorFlow session have ":0" behind the
 * names. Only those trained with padding on both sides ("AlignPadding") compute the same. */
#define TP_NORM(OURS, THEIRS, END)                                                                           \
    OURS "/gamma " THEIRS "/bn/gamma" END "\n" OURS "/beta " THEIRS "/bn/beta" END "\n" OURS                 \
         "/running_mean " THEIRS "/bn/mean/EMA" END "\n" OURS "/running_var " THEIRS "/bn/variance/EMA" END  \
         "\n"
#define TP_BLOCK "group{s-1}/block{b}/"
#define TP_TRUNK(END)                                                                                        \
    "conv1/weight conv0/W" END                                                                               \
    "\n" TP_NORM("bn1", "conv0", END) "layer{s}.{b}.conv{c}/weight " TP_BLOCK "conv{c}/W" END "\n" TP_NORM(  \
        "layer{s}.{b}.bn{c}", TP_BLOCK "conv{c}",                                                            \
        END) "layer{s}.{b}.downsample.0/weight " TP_BLOCK "convshortcut/W" END                               \
             "\n" TP_NORM("layer{s}.{b}.downsample.1", TP_BLOCK "convshortcut",                              \
                          END) "fc/weight linear/W" END "\nfc/bias linear/b" END "\n"
static const char tensorpack[] = "layout HWIO\n"
                                 "input BGR\n" //
    TP_TRUNK("") TP_TRUNK(":0");

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
    {"torchvision", torchvision}, {"detectron2", detectron2}, {"tensorpack", tensorpack},
    {"huggingface", huggingface}, {"dptrain", dptrain},       {NULL, NULL},
};
