# SPDX-License-Identifier: MIT
"""The Python side of scripts/bench/detection.sh.

  detection_score.py make DIR [IMAGES]           DIR/annotations.json, bbox.json, segm.json: for each image of 5,000 7.2 objects
                                                 (polygons, one in a hundred a crowd) and 36 detections near them or not
  detection_score.py bbox|segm ANNOTATIONS FILE  pycocotools' counterpart of detection_score.c, with its evaluate and
                                                 accumulate as the seconds of scoring"""
import contextlib
import io
import json
import math
import random
import sys
import time

from pycocotools import mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

WIDTH, HEIGHT = 640, 480


def outline(box, rng):
    """A bent ellipse in the box, of 12 to 40 points with two decimals, as COCO's."""
    x, y, w, h = box
    n = rng.randint(12, 40)
    points = []
    for i in range(n):
        angle, r = 2 * math.pi * i / n, rng.uniform(0.8, 1)
        points += [round(x + w / 2 * (1 + r * math.cos(angle)), 2), round(y + h / 2 * (1 + r * math.sin(angle)), 2)]
    return points


def inside(x, y, w, h):
    """The box cut to the image, with two decimals and at least 2 pixels wide and high."""
    x, y = min(max(x, 0), WIDTH - 4), min(max(y, 0), HEIGHT - 4)
    return [round(v, 2) for v in (x, y, min(max(w, 2), WIDTH - x), min(max(h, 2), HEIGHT - y))]


def make(folder, n_images):
    rng = random.Random(1)
    images = [{"id": 3 * i + 1, "file_name": f"{i}.jpg", "width": WIDTH, "height": HEIGHT} for i in range(n_images)]
    annotations, boxes, masks = [], [], []
    for image in images:
        objects = []
        for _ in range(rng.choice((2, 4, 6, 8, 16))):
            side = math.exp(rng.uniform(math.log(8), math.log(400)))
            box = inside(rng.uniform(0, WIDTH - side), rng.uniform(0, HEIGHT - side), side, side * rng.uniform(0.5, 1.5))
            points, crowd = outline(box, rng), rng.random() < 0.01
            rle = mask.frPyObjects([points], HEIGHT, WIDTH)[0]
            annotations.append({
                "id": len(annotations) + 1, "image_id": image["id"], "category_id": rng.randint(1, 80), "iscrowd": int(crowd),
                "bbox": box, "area": float(mask.area(rle)),
                "segmentation": {"size": [HEIGHT, WIDTH], "counts": rle["counts"].decode()} if crowd else [points]})
            objects.append(annotations[-1])
        for k in range(36):
            a = objects[k % len(objects)]
            x, y, w, h = a["bbox"]
            category = a["category_id"] if k < 2 * len(objects) else rng.randint(1, 80)
            box = inside(x + rng.gauss(0, w / 9), y + rng.gauss(0, h / 9), w * rng.uniform(0.8, 1.2), h * rng.uniform(0.8, 1.2))
            found = {"image_id": image["id"], "category_id": category, "score": round(rng.random(), 4)}
            rle = mask.frPyObjects([outline(box, rng)], HEIGHT, WIDTH)[0]
            boxes.append({**found, "bbox": box})
            masks.append({**found, "segmentation": {"size": rle["size"], "counts": rle["counts"].decode()}})
    categories = [{"id": i, "name": str(i)} for i in range(1, 81)]
    for name, data in (("annotations", {"images": images, "categories": categories, "annotations": annotations}),
                       ("bbox", boxes), ("segm", masks)):
        with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
            json.dump(data, file)
    print(len(images), len(annotations), len(boxes))


def score(iou_type, annotations, path):
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(annotations)
        evaluation = COCOeval(coco, coco.loadRes(path), iou_type)
        begun = time.perf_counter()
        evaluation.evaluate()
        evaluation.accumulate()
        ended = time.perf_counter()
        evaluation.summarize()
    with open("/proc/self/status", encoding="ascii") as status:
        peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    print(f"{iou_type} {ended - begun:.4f} {peak} {float(evaluation.stats[0])!r} {ended - start:.4f}")


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5000)
else:
    score(*sys.argv[1:])
