# SPDX-License-Identifier: MIT
# A small set of annotated images, for tests of detectors. Needs python3. Loaded after common.bash.
# shellcheck shell=bash

# A folder as COCO's: a validation set of noisy images with two categories.
make_coco() { # FOLDER
    python3 - "$1" <<'END'
import json, os, random, struct, sys, zlib

folder, rng = sys.argv[1], random.Random(1)
os.makedirs(folder + "/val2017")
os.makedirs(folder + "/annotations")

def png(path, width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    tiles = [[rng.randrange(256) for _ in range(3 * width)] for _ in range(height // 8 + 1)]
    rows = b"".join(b"\0" + bytes(tiles[y // 8][x // 24 * 24 + x % 3] for x in range(3 * width)) for y in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

images, annotations = [], []
for i, (width, height) in enumerate([(96, 64), (64, 96), (100, 40), (70, 70), (96, 64), (120, 50), (64, 64)]):
    images.append({"id": 10 + 3 * i, "file_name": f"{i}.png", "width": width, "height": height})
    png(f"{folder}/val2017/{i}.png", width, height)
    for _ in range(i % 3 + 1):
        x, y, w, h = rng.randrange(20), rng.randrange(10), rng.randint(8, 30), rng.randint(8, 20)
        annotations.append({"id": len(annotations) + 1, "image_id": 10 + 3 * i, "category_id": rng.choice((1, 2)),
                            "iscrowd": 0, "bbox": [x, y, w, h], "area": w * h,
                            "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]})
truth = {"images": images, "annotations": annotations,
         "categories": [{"id": 1, "name": "cat", "supercategory": ""}, {"id": 2, "name": "dog", "supercategory": ""}]}
json.dump(truth, open(folder + "/annotations/instances_val2017.json", "w"))
END
}
