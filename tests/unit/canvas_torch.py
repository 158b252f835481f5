# SPDX-License-Identifier: MIT
"""Prints the table of tests/unit/test_canvas.c: what torchvision 0.29.2's GeneralizedRCNNTransform makes of images of many
sizes, whose pixels follow from a formula. canvas_torch.py"""
import random

import numpy
import torch
from torchvision.models.detection.transform import GeneralizedRCNNTransform

rng = random.Random(61)
transform = GeneralizedRCNNTransform(192, 320, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).eval()
sizes = [(320, 192), (192, 192), (96, 96), (33, 55), (384, 640), (1600, 1200), (37, 192)]
while len(sizes) < 50:
    h, w = (int(2 ** rng.uniform(5, 11)) for _ in range(2))
    if max(h, w) <= 4 * min(h, w):
        sizes.append((h, w))
for h, w in sizes:
    y, x, c = numpy.ogrid[:h, :w, :3]
    pixels = (37 * x + 101 * y + 59 * c + x * y % 251) % 256
    image = torch.from_numpy(pixels.astype(numpy.uint8)).permute(2, 0, 1).float() / 255
    images, _ = transform([image])
    height, width = images.image_sizes[0]
    out = images.tensors[0, :, :height, :width].permute(1, 2, 0).contiguous().double().flatten()
    at = [k * 2654435761 % len(out) for k in (1, 2, 3)]
    weight = 1 + torch.arange(len(out)) % 97
    print("    {{%d, %d}, {%d, %d}, {%s}, %.9f}," % (h, w, height, width, ", ".join(f"{float(out[i]):.7f}" for i in at),
                                              float((out * weight).mean()) / 97))
