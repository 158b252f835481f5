# SPDX-License-Identifier: MIT
"""Makes sets of results that are hard to score, and compares scores. Needs only the standard library, except where
pycocotools is named.

  sets.py folder DIR             COCO's validation set of grey images, with every oddity that a reader accepts
  sets.py make TRUTH DIR SEED N  DIR/I.bbox.json, I.segm.json and I.both.json for I from 0 to N - 1: boxes and masks near
                                 TRUTH's, or not, with equal scores, more than 100 of a kind, IoU on the thresholds. With
                                 pycocotools masks are TRUTH's moved and cut, if SHAPES is set; otherwise rectangles
  sets.py expect TRUTH DIR N     pycocotools' numbers of these files, as one line of JSON
  sets.py compare ONE OTHER      fails unless the numbers of two such files differ by less than 1e-9"""
import contextlib
import io
import json
import os
import random
import struct
import sys
import zlib

NAMES = "AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl".split()


def compress(counts):
    text = ""
    for i, run in enumerate(counts):
        left = run - (counts[i - 2] if i > 2 else 0)
        while True:
            bits = left & 31
            left >>= 5
            more = left != (-1 if bits & 16 else 0)
            text += chr(48 + bits + 32 * more)
            if not more:
                break
    return text


def rectangle(box, width, height):
    """The runs of a box, rounded and cut to the image."""
    x0, y0 = (min(max(round(v), 0), most) for v, most in ((box[0], width), (box[1], height)))
    x1, y1 = (min(max(round(v), 0), most) for v, most in ((box[0] + box[2], width), (box[1] + box[3], height)))
    counts, at = [0], 0
    for x in range(x0, x1 if y1 > y0 else x0):
        gap = x * height + y0 - at
        if gap or len(counts) == 1:
            counts[-1] += gap
            counts += [y1 - y0, 0]
        else:
            counts[-2] += y1 - y0
        at = x * height + y1
    counts[-1] += width * height - at
    return counts if counts[-1] or len(counts) == 1 else counts[:-1]


def write_png(path, width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(bytes((width + 1) * height))) + chunk(b"IEND", b""))


def make_folder(folder):
    rng = random.Random(5)
    categories = [{"id": i, "name": f"kind {i}", "supercategory": "x"} for i in (1, 3, 4, 90, 1000)]  # 1000: no objects
    images, annotations = [], []
    for i in range(24):
        image = {"id": 7 * i + i * i, "file_name": f"{i}.png", "width": rng.randint(90, 320), "height": rng.randint(90, 240)}
        images.append(image)
        for _ in range(0 if i % 6 == 5 else rng.randint(1, 9)):
            w, h = rng.choice([(16, 64), (32, 32), (96, 96), (rng.randint(4, 90), rng.randint(4, 90)), (40.5, 20.25)])
            x, y = round(rng.uniform(-9, image["width"] - w + 9), 2), round(rng.uniform(-9, image["height"] - h + 9), 2)
            a = {"id": 2 * len(annotations), "image_id": image["id"], "category_id": rng.choice([1, 1, 3, 4, 90]),
                 "iscrowd": int(rng.random() < 0.12), "bbox": [x, y, w, h], "area": rng.choice([w * h, round(w * h * 0.7, 2)])}
            digits = rng.choice([2, 2, 11])
            points = [x, y, x + w, y + rng.uniform(0, 2), x + w * rng.uniform(0.8, 1), y + h, x, y + h * rng.uniform(0.9, 1)]
            shape = rng.random()
            if a["iscrowd"] or shape < 0.2:
                counts = rectangle(a["bbox"], image["width"], image["height"])
                a["segmentation"] = {"size": [image["height"], image["width"]],
                                     "counts": compress(counts) if shape < 0.1 else counts}
            else:
                a["segmentation"] = [[round(v, digits) for v in points]]
                if shape > 0.8:
                    a["segmentation"] += [[round(v + 5, 2) for v in points], [x, y, x + 3, y + 3], [x, y]]
            annotations.append(a)
    annotations[1]["bbox"][2] = 0
    annotations[2]["bbox"] = [-50.5, 3, 40, 20]  # outside
    rng.shuffle(annotations)
    rng.shuffle(images)
    os.makedirs(f"{folder}/val2017")
    os.makedirs(f"{folder}/annotations")
    for image in images:
        write_png(f"{folder}/val2017/{image['file_name']}", image["width"], image["height"])
    with open(f"{folder}/annotations/instances_val2017.json", "w", encoding="utf-8") as file:
        json.dump({"images": images, "categories": categories[::-1], "annotations": annotations}, file)


def shaped(coco, a, rng):
    """The mask of an annotation, moved and cut, as pycocotools encodes it."""
    import numpy as np
    from pycocotools import mask
    pixels = mask.decode(coco.annToRLE(a))
    pixels = np.roll(pixels, (rng.choice([0, 0, 1, -2]), rng.choice([0, 0, 1, 3])), (0, 1))
    pixels[: rng.choice([0, 0, int(a["bbox"][1] + a["bbox"][3] * rng.uniform(0, 0.7))])] = 0
    rle = mask.encode(np.asfortranarray(pixels))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def near(box, rng):
    x, y, w, h = box
    kind = rng.randrange(6)
    if kind == 0:
        return [x, y, w, h]
    if kind == 1:  # IoU on a threshold, up to rounding
        return [x, y, w * rng.choice([0.5, 0.6, 0.75, 0.95]), h]
    return [x + rng.gauss(0, w / 9), y + rng.gauss(0, h / 9), w * rng.uniform(0.8, 1.25), h * rng.uniform(0.8, 1.25)]


def make_results(data, coco, rng):
    images = {i["id"]: i for i in data["images"]}
    categories = [c["id"] for c in data["categories"]]
    found = []
    ties = rng.random() < 0.6

    def add(image_id, category_id, box, a=None):
        score = rng.choice([0.1, 0.25, 0.5, 0.75, 1]) if ties and rng.random() < 0.8 else rng.random()
        image = images[image_id]
        if coco and a:
            segmentation = shaped(coco, a, rng)
        else:
            counts = rectangle(box, image["width"], image["height"])
            segmentation = {"size": [image["height"], image["width"]], "counts": compress(counts)}
        found.append({"image_id": image_id, "category_id": category_id, "bbox": box, "segmentation": segmentation, "score": score})

    for a in data["annotations"]:
        box = [*a["bbox"][:2], max(a["bbox"][2], 1), max(a["bbox"][3], 1)]
        for _ in range(rng.choice([0, 1, 1, 1, 2]) + 3 * a["iscrowd"]):
            add(a["image_id"], a["category_id"] if rng.random() < 0.9 else rng.choice(categories), near(box, rng), a)
    for _ in range(rng.randrange(60)):
        image = rng.choice(data["images"])
        w, h = rng.choice([(32, 32), (96, 96), (rng.uniform(1, 99), rng.uniform(1, 99))])
        add(image["id"], rng.choice(categories), [rng.uniform(0, image["width"]), rng.uniform(0, image["height"]), w, h])
    if rng.random() < 0.5:  # more than are scored
        a = rng.choice(data["annotations"])
        box = [*a["bbox"][:2], max(a["bbox"][2], 1), max(a["bbox"][3], 1)]
        for _ in range(130):
            add(a["image_id"], a["category_id"], near(box, rng))
    rng.shuffle(found)
    return found


def without(result, key):
    return {k: v for k, v in result.items() if k != key}


def make(truth, folder, seed, n):
    with open(truth, encoding="utf-8") as file:
        data = json.load(file)
    coco = None
    if os.environ.get("SHAPES"):
        from pycocotools.coco import COCO
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(truth)
    for i in range(n):
        found = make_results(data, coco, random.Random(1000 * seed + i))
        for kind, results in (("both", found), ("bbox", [without(r, "segmentation") for r in found]),
                              ("segm", [without(r, "bbox") for r in found])):
            with open(f"{folder}/{i}.{kind}.json", "w", encoding="utf-8") as file:
                json.dump(results, file)


def expect(truth, folder, n):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    numbers = {}
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(truth)
        for i in range(n):
            for kind, types in (("bbox", ["bbox"]), ("segm", ["segm"]), ("both", ["bbox", "segm"])):
                numbers[f"{i}.{kind}"] = {}
                for iou_type in types:
                    evaluation = COCOeval(COCO(truth), coco.loadRes(f"{folder}/{i}.{kind}.json"), iou_type)
                    evaluation.evaluate()
                    evaluation.accumulate()
                    evaluation.summarize()
                    numbers[f"{i}.{kind}"][iou_type] = dict(zip(NAMES, map(float, evaluation.stats)))
    print(json.dumps(numbers))


def compare(one, other):
    files = []
    for path in one, other:
        with open(path, encoding="utf-8") as file:
            files.append(json.load(file))
    n, most = 0, 0.0
    assert files[0].keys() == files[1].keys(), "other sets"
    for name, types in files[0].items():
        assert types.keys() == files[1][name].keys(), f"{name}: other types"
        for iou_type, numbers in types.items():
            for key in NAMES:
                difference = abs(numbers[key] - files[1][name][iou_type][key])
                assert difference < 1e-9, f"{name} {iou_type} {key}: {numbers[key]} and {files[1][name][iou_type][key]}"
                n, most = n + 1, max(most, difference)
    print(f"{n} numbers differ by at most {most:.2g}")


command, *words = sys.argv[1:]
if command == "folder":
    make_folder(words[0])
elif command == "make":
    make(words[0], words[1], int(words[2]), int(words[3]))
elif command == "expect":
    expect(words[0], words[1], int(words[2]))
else:
    compare(words[0], words[1])
