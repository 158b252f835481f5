# SPDX-License-Identifier: MIT
"""Masks of a file of annotations as pycocotools draws them, for tests/unit/test_mask.c: pycocotools_masks.py FILE.

Images by id, annotations in the file's order; each as: id (int64), width, height (int32), area (int64), length of the
compressed runs (int32), these, and the mask's bits by rows."""
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
    for a in annotations[image["id"]]:
        runs = draw(a, image["height"], image["width"])
        counts = runs["counts"]
        head = struct.pack("<qiiqi", a["id"], image["width"], image["height"], int(mask.area(runs)), len(counts))
        sys.stdout.buffer.write(head + counts + np.packbits(mask.decode(runs).astype(bool)).tobytes())
