#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what torchvision's Mask R-CNN with ResNet-18 computes on a small canvas, for tests/unit/test_rcnn_parity.c:
detection_golden.py FILE. All inputs are by a formula; of every map and gradient there are a few numbers."""

import sys

import detection_formula as formula
import detection_parity as parity
import numpy as np
import torch
import torch.nn.functional as F
from torchvision.models.detection.roi_heads import fastrcnn_loss
from torchvision.models.detection.rpn import concat_box_prediction_layers
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler

CANVAS, SIZE, BOXES, MASKS = (160, 224), (150, 200), 24, 6
PROJECTIONS, SAMPLES = 4, 16


def summary(name, values, samples=True):
    """The norm, scalar products with PROJECTIONS vectors of ±1, and unless samples is false the maximum and SAMPLES
    values."""
    flat = values.reshape(-1).astype(np.float64)
    words = formula.philox(formula.fnv1a(name), (len(flat) + 3) // 4).reshape(-1)[:len(flat)]
    out = [np.sqrt((flat**2).sum())]
    out += [(flat * (1 - 2.0 * ((words >> np.uint64(k)) & np.uint64(1)))).sum() for k in range(PROJECTIONS)]
    if samples:
        at = ((formula.uniform("samples." + name, SAMPLES) + 1) / 2 * len(flat)).astype(np.int64)
        out += [np.abs(flat).max(), *flat[at]]
    return np.float32(out)


def regions(name, n):
    """Boxes in the image, [n, 4]."""
    u = (formula.uniform(name, 4 * n).reshape(n, 4) + 1) / 2
    x, y = 0.7 * SIZE[1] * u[:, 0], 0.7 * SIZE[0] * u[:, 1]
    return torch.from_numpy(np.stack([x, y, x + 8 + (SIZE[1] - 8 - x) * u[:, 2], y + 8 + (SIZE[0] - 8 - y) * u[:, 3]],
                                     1).astype(np.float32))


def labels(name, n, classes):
    """n of 0 … classes − 1."""
    return torch.from_numpy(((formula.uniform(name, n) + 1) / 2 * classes).astype(np.int64))


def targets(name, shape, scale):
    return torch.from_numpy((scale * formula.uniform(name, int(np.prod(shape)))).astype(np.float32).reshape(shape))


def rpn_losses(model, features):
    logits, deltas = concat_box_prediction_layers(*model.rpn.head(features))
    label, target = [], []
    for level, x in enumerate(features):
        n = 3 * x.shape[2] * x.shape[3]
        label.append(labels(f"rpn.{level}.label", n, 3).float() - 1)
        target.append(targets(f"rpn.{level}.target", (n, 4), 0.5))
    model.rpn.fg_bg_sampler = BalancedPositiveNegativeSampler(1 << 30, 0.5)
    return model.rpn.compute_loss(logits, deltas, [torch.cat(label)], [torch.cat(target)])


def main():
    model = parity.build("resnet18")
    _, images = parity.input_of(CANVAS, SIZE)
    features = model.backbone(images.tensors)
    maps = {f"fpn.{i}": parity.nhwc(x.detach()) for i, x in enumerate(features.values())}
    for i, (logits, deltas) in enumerate(zip(*model.rpn.head(list(features.values())))):
        maps[f"rpn.{i}.logits"], maps[f"rpn.{i}.deltas"] = parity.nhwc(logits.detach()), parity.nhwc(deltas.detach())
    heads, sizes = model.roi_heads, images.image_sizes
    boxes, near = regions("box.regions", BOXES), regions("mask.regions", MASKS)
    logits, deltas = heads.box_predictor(heads.box_head(heads.box_roi_pool(features, [boxes], sizes)))
    masks = heads.mask_predictor(heads.mask_head(heads.mask_roi_pool(features, [near], sizes)))
    maps |= {"box.logits": logits.detach().numpy(), "box.deltas": deltas.detach().numpy(),
             "mask.logits": parity.nhwc(masks.detach())}
    box_losses = fastrcnn_loss(logits, deltas, [labels("box.label", BOXES, parity.CLASSES)],
                               [targets("box.target", (BOXES, 4), 2)])
    channel = labels("mask.label", MASKS, parity.CLASSES - 1) + 1
    mask_loss = F.binary_cross_entropy_with_logits(masks[torch.arange(MASKS), channel],
                                                   targets("mask.target", (MASKS, 28, 28), 0.5) + 0.5)
    losses = (*rpn_losses(model, list(features.values())), *box_losses, mask_loss)
    sum(losses).backward()
    out = {name: summary(name, value) for name, value in maps.items()}
    out |= {f"gradient.{name}": summary(name, value.grad.numpy(), samples=False)
            for name, value in model.named_parameters() if value.grad is not None}
    np.savez_compressed(sys.argv[1], losses=np.float32([float(x.detach()) for x in losses]), **out)


if __name__ == "__main__":
    main()
