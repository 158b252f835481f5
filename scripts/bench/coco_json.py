# SPDX-License-Identifier: MIT
"""Generates a large annotation file from a small one: coco_json.py FROM MB TO.

Images and annotations are repeated with new ids, written as COCO's own files are (one line, numbers as they were)."""
import json
import sys


def texts(items, keys):
    """Each item as JSON with %d instead of its ids."""
    for item in items:
        marked = {key: value for key, value in item.items() if key not in keys}
        text = json.dumps(marked).replace("%", "%%")
        yield text[:-1] + "".join(f', "{key}": %d' for key in keys) + "}", item


source, n_bytes, target = sys.argv[1], int(sys.argv[2]) * 1000000, sys.argv[3]
with open(source, encoding="utf-8") as file:
    data = json.load(file)
numbers = {image["id"]: number for number, image in enumerate(data["images"])}
images = [text for text, _ in texts(data["images"], ["id"])]
annotations = [(text, numbers[a["image_id"]]) for text, a in texts(data["annotations"], ["image_id", "id"])]
once = sum(map(len, images)) + sum(len(text) for text, _ in annotations) + 20 * len(annotations)
times = max(1, n_bytes // once)

with open(target, "w", encoding="utf-8") as file:
    file.write('{"info": {}, "licenses": [], "images": [')
    for turn in range(times):
        start = turn * len(images)
        file.write(", " if turn else "")
        file.write(", ".join(text % (start + number) for number, text in enumerate(images)))
    file.write('], "annotations": [')
    for turn in range(times):
        start, first = turn * len(images), turn * len(annotations)
        file.write(", " if turn else "")
        file.write(", ".join(text % (start + image, first + i) for i, (text, image) in enumerate(annotations)))
    file.write('], "categories": ' + json.dumps(data["categories"]) + "}")
