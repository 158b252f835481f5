# SPDX-License-Identifier: MIT
"""Masks of a file of annotations as pycocotools draws them, for tests/unit/test_mask.c: pycocotools_masks.py FILE.

Images by id, annotations in the file's order; each as: id (int64), width, height (int32), area (int64), length of the
compressed runs (int32), these, and the mask's bits by rows; then its box (float64), its IoU with the annotation before it
on that image (the first: with itself), also as a crowd (float64), and the length and compressed runs of their union."""
import json
import struct
import sys

import numpy as np
from pycocotools import mask


def draw(annotation, height, width):
    outline = annotation.get("segmentation")
    if not outline:
        return mask.frPyObjects(np.array([annotation["bbox"]], dtype=float), height, width)[0]
    if isinstance(outline, list):
        return mask.merge(mask.frPyObjects(outline, height, width))
    if isinstance(outline["counts"], list):
        return mask.frPyObjects(outline, height, width)
    return outline


with open(sys.argv[1], encoding="utf-8") as file:
    data = json.load(file)
annotations = {image["id"]: [] for image in data["images"]}
for a in data["annotations"]:
    annotations[a["image_id"]].append(a)
for image in sorted(data["images"], key=lambda i: i["id"]):
    before = None
    for a in annotations[image["id"]]:
        runs = draw(a, image["height"], image["width"])
        counts = runs["counts"]
        head = struct.pack("<qiiqi", a["id"], image["width"], image["height"], int(mask.area(runs)), len(counts))
        sys.stdout.buffer.write(head + counts + np.packbits(mask.decode(runs).astype(bool)).tobytes())
        before = before or runs
        numbers = [*mask.toBbox(runs)] + [mask.iou([runs], [before], [crowd])[0][0] for crowd in (0, 1)]
        union = mask.merge([runs, before])["counts"]
        sys.stdout.buffer.write(struct.pack("<6di", *numbers, len(union)) + union)
        before = runs
