/* SPDX-License-Identifier: MIT */
/* Writes classifiers as ONNX (onnx.ai, onnx/docs/IR.md), for onnxruntime, TensorRT and other programs that run
 * networks. Private to this room. Not collective. */
#ifndef TRAIN_WEIGHTS_ONNX_H
#define TRAIN_WEIGHTS_ONNX_H

#include "compute/graph/graph.h"
#include "compute/tensor/pixels.h"
#include "store/checkpoint/arrays.h"

/* The operators' version that the files need; onnxruntime 1.6 and later have it. */
enum { ONNX_OPSET = 13 };

/* A network for evaluation:
 *
 *   input    "image" [batch, channels, height, width]: float32 values of pixels, 0 … 255, which the network normalizes
 *   outputs  "logits" [batch, classes]; "probabilities", their softmax, or sigmoid where samples have several classes
 *
 * Metadata: "model"; "classes", a JSON array, if they have names. */
typedef struct onnx_network {
    const graph_t *graph;         /* a classifier's */
    const array_entry_t *entries; /* parameters, then states, with torchvision's names and layout */
    const pixel_norm_t *norm;
    const char *class_names; /* as in class_names_join; NULL: none */
} onnx_network_t;

/* Writes it atomically; equal networks give equal bytes. */
err_t onnx_write(const char *path, const onnx_network_t *network);

#endif
