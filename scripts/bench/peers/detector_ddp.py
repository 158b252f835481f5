#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps of torchvision's Faster or Mask R-CNN with DistributedDataParallel (gloo) on the images that a run of
dptrain had, rank by rank. Prints the seconds of each step, the first two left out. See --help."""

import argparse
import json
import os
import time

import detector_train
import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from pycocotools.coco import COCO
from torch.nn.parallel import DistributedDataParallel

SKIPPED = 2


def load(coco, folder, image):
    """An image of COCO as torchvision's references load it: no crowds, boxes as corners, masks as bitmaps."""
    pixels = np.asarray(Image.open(os.path.join(folder, image["file_name"])).convert("RGB"))
    found = [a for a in coco.loadAnns(coco.getAnnIds(imgIds=image["id"])) if not a["iscrowd"]]
    boxes = torch.tensor([a["bbox"] for a in found]).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    masks = torch.from_numpy(np.stack([coco.annToMask(a) for a in found]))
    target = {"boxes": boxes, "labels": torch.tensor([a["category_id"] for a in found]), "masks": masks}
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255, target


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True, help="COCO's folder")
    parser.add_argument("--records", required=True, help="metrics.jsonl of dptrain with --log-every 1")
    parser.add_argument("--min-size", type=int, required=True)
    parser.add_argument("--max-size", type=int, required=True)
    parser.add_argument("--steps", type=int, help="of them [all]")
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with open(options.records) as file:
        steps = [r["images"] for r in map(json.loads, file) if r["record"] == "step"][:options.steps]
    coco = COCO(os.path.join(options.data, "annotations/instances_train2017.json"))
    ids = sorted(coco.imgs, key=lambda i: coco.imgs[i]["file_name"])  # as dptrain numbers images
    folder = os.path.join(options.data, "train2017")
    mine = [[load(coco, folder, coco.imgs[ids[i["image"]]]) for i in s if i["rank"] % size == rank] for s in steps]
    model = detector_train.build(options.model, options.weights)
    model.transform.min_size, model.transform.max_size = (options.min_size,), options.max_size
    if options.channels_last:
        model.to(memory_format=torch.channels_last)
    trained = [p for p in model.parameters() if p.requires_grad]
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True) if size > 1 else model
    optimizer = torch.optim.SGD(trained, lr=1e-5, momentum=0.9, weight_decay=1e-4)
    for number, batch in enumerate(mine):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        images, targets = zip(*batch)
        sum(parallel(list(images), list(targets)).values()).backward()
        optimizer.step()
        dist.barrier()
        if rank == 0 and number >= SKIPPED:
            print(time.perf_counter() - start, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
