#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mask R-CNN of torchvision on one GPU, for scripts/bench/gpu_detection.sh: makes images and weights for both programs,
trains and infers, and compares detections. Images are on the GPU from the start, which favours torchvision. See --help."""

import argparse
import json
import pathlib
import statistics
import sys
import time

import detection_formula as formula
import numpy as np
import torch
import torchvision
from torchvision.io import read_image, write_jpeg, write_png
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import box_convert, box_iou
from torchvision.ops.misc import FrozenBatchNorm2d

CATEGORIES, TRAINED, EVALUATED = 90, 48, 16


def build(args):
    """Weights by the formula, conv1 and layer1 frozen."""
    kind, net = (FasterRCNN if args.model.startswith("faster") else MaskRCNN), args.model.split("_")[1]
    backbone = resnet_fpn_backbone(backbone_name=net, weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=3)
    model = kind(backbone, num_classes=CATEGORIES + 1, min_size=args.min_size, max_size=args.max_size)
    state = {name: torch.from_numpy(formula.weight(name, tuple(value.shape)))
             for name, value in model.state_dict().items()}
    model.load_state_dict(state, strict=True)
    return model.to(args.device, memory_format=torch.channels_last if args.channels_last else torch.contiguous_format)


def make_split(args, split, n, first):
    """n images of args.width × args.height with rectangles as objects; those to evaluate are PNGs."""
    folder, images, annotations = args.folder / split, [], []
    folder.mkdir(parents=True)
    for i in range(n):
        number = first + i
        pixels = np.clip(formula.image(args.height, args.width, args.height, args.width) * 40 + 128, 0, 255)
        pixels = np.roll(pixels.astype(np.uint8), 37 * number, (0, 1))
        u = (formula.uniform(f"objects.{number}", 5 * args.objects).reshape(-1, 5) + 1) / 2
        for x, y, w, h, category in u:
            w, h = (int(side * 0.08 * 6 ** part) for side, part in ((args.width, w), (args.height, h)))
            x, y = int(x * (args.width - w)), int(y * (args.height - h))
            pixels[y:y + h, x:x + w] = pixels[y:y + h, x:x + w] // 2 + np.uint8(category * 127)
            annotations.append({"id": 1 + len(annotations), "image_id": number, "iscrowd": 0, "area": w * h,
                                "category_id": 1 + int(category * CATEGORIES), "bbox": [x, y, w, h],
                                "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]})
        name, tensor = f"{number}.{'png' if split == 'val2017' else 'jpg'}", torch.from_numpy(pixels).permute(2, 0, 1)
        if split == "val2017":
            write_png(tensor.contiguous(), str(folder / name))
        else:
            write_jpeg(tensor.contiguous(), str(folder / name), 90)
        images.append({"id": number, "file_name": name, "width": args.width, "height": args.height})
    categories = [{"id": k, "name": f"object {k}", "supercategory": ""} for k in range(1, CATEGORIES + 1)]
    with open(args.folder / "annotations" / f"instances_{split}.json", "w", encoding="utf-8") as file:
        json.dump({"images": images, "annotations": annotations, "categories": categories}, file)


def make(args):
    (args.folder / "annotations").mkdir(parents=True)
    make_split(args, "train2017", TRAINED, 1)
    make_split(args, "val2017", EVALUATED, 1 + TRAINED)
    np.savez(args.folder / "weights.npz", **{name: value.cpu().numpy() for name, value in build(args).state_dict().items()})


def load(args, split):
    """Images as floats and targets, on the device."""
    with open(args.folder / "annotations" / f"instances_{split}.json", encoding="utf-8") as file:
        truth = json.load(file)
    out = []
    for image in truth["images"]:
        own = [a for a in truth["annotations"] if a["image_id"] == image["id"]]
        masks = torch.zeros(len(own), image["height"], image["width"], dtype=torch.uint8)
        for mask, a in zip(masks, own):
            x, y, w, h = a["bbox"]
            mask[y:y + h, x:x + w] = 1
        boxes = box_convert(torch.tensor([a["bbox"] for a in own], dtype=torch.float32), "xywh", "xyxy")
        target = {"boxes": boxes, "labels": torch.tensor([a["category_id"] for a in own]), "masks": masks}
        pixels = read_image(str(args.folder / split / image["file_name"])).to(args.device) / 255
        out.append((pixels, {key: value.to(args.device) for key, value in target.items()}, image["id"]))
    return out


def wait(args):
    if args.device == "cuda":
        torch.cuda.synchronize()


def timed(args, work):
    """Median seconds of a call, of blocks after the warm-up."""
    for i in range(args.warmup):
        work(i)
    wait(args)
    seconds = []
    for block in range(max(1, args.steps // args.block)):
        begin = time.perf_counter()
        for i in range(args.block):
            work(args.warmup + block * args.block + i)
        wait(args)
        seconds.append((time.perf_counter() - begin) / args.block)
    return statistics.median(seconds)


def autocast(args):
    return torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16")


def train(args):
    model, data = build(args).train(), load(args, "train2017")
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=args.lr, momentum=0.9)
    positives = []
    sample = model.roi_heads.select_training_samples

    def count(*given):
        found = sample(*given)
        positives.extend((labels > 0).sum() for labels in found[2])
        return found

    model.roi_heads.select_training_samples = count

    def step(i):
        batch = [data[(i * args.batch + k) % len(data)] for k in range(args.batch)]
        optimizer.zero_grad(set_to_none=True)
        with autocast(args):
            losses = model([image for image, _, _ in batch], [target for _, target, _ in batch])
            loss = sum(losses.values())
        loss.backward()
        optimizer.step()

    sec = timed(args, step)
    return {"median_images_per_sec": args.batch / sec, "positives": float(sum(int(n) for n in positives)) / len(positives)}


def infer(args):
    model, data = build(args).eval(), load(args, "val2017")

    @torch.inference_mode()
    def one(i):
        with autocast(args):
            model([data[i % len(data)][0]])

    return {"median_images_per_sec": 1 / timed(args, one)}


@torch.inference_mode()
def found_by_torch(args):
    """Detections by image: [n, 6] of box, score, class."""
    model, out = build(args).eval(), {}
    for pixels, _, number in load(args, "val2017"):
        found = model([pixels])[0]
        out[number] = torch.cat([found["boxes"], found["scores"][:, None], found["labels"][:, None]], 1).cpu()
    return out


def found_in(path):
    """The same, of a file of results."""
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    out = {}
    for r in results:
        x, y, w, h = r["bbox"]
        out.setdefault(r["image_id"], []).append([x, y, x + w, y + h, r["score"], r["category_id"]])
    return {number: torch.tensor(rows) for number, rows in out.items()}


def missing(ours, theirs, tolerance):
    """Of theirs, those without one of ours of the same class, near in score, and above 0.99 in IoU."""
    if len(ours) == 0 or len(theirs) == 0:
        return abs(len(ours) - len(theirs))
    near = (ours[:, None, 4] - theirs[None, :, 4]).abs() < tolerance
    same = ours[:, None, 5] == theirs[None, :, 5]
    return int((~((box_iou(ours[:, :4], theirs[:, :4]) > 0.99) & near & same).any(0)).sum()) + abs(len(ours) - len(theirs))


def compare(args):
    """Two files of results, or one and torchvision in fp32."""
    ours = found_in(args.results[0])
    theirs = found_in(args.results[1]) if len(args.results) > 1 else found_by_torch(args)
    none = torch.zeros(0, 6)
    n = sum(len(rows) for rows in theirs.values())
    differ = sum(missing(ours.get(k, none), theirs.get(k, none), args.tolerance) for k in ours.keys() | theirs.keys())
    print(f"{differ} of {n}")
    sys.exit(0 if n > 0 and differ <= n * args.most else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["describe", "make", "train", "infer", "compare"])
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="COCO's layout, and weights.npz")
    parser.add_argument("results", nargs="*", help="compare: bbox.json, and another, or torchvision itself")
    parser.add_argument("--model", default="maskrcnn_resnet50_fpn")
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--objects", type=int, default=20, help="per image [%(default)s]")
    parser.add_argument("--min-size", type=int, default=800)
    parser.add_argument("--max-size", type=int, default=1333)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--block", type=int, default=5, help="steps between two readings of the clock [%(default)s]")
    parser.add_argument("--lr", type=float, default=1e-6)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="compare: of scores [%(default)s]")
    parser.add_argument("--most", type=float, default=0.01, help="compare: the largest share that differs [%(default)s]")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try this script; no figures")
    parser.add_argument("--out", help="file for the record, which is also printed")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch found no GPU", file=sys.stderr)
        sys.exit(4)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision != "fp32"
    torch.backends.cudnn.benchmark = True
    if args.what == "describe":
        print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, "
              f"{torch.cuda.get_device_name() if args.device == 'cuda' else 'CPU'}")
        return
    if args.what in ("make", "compare"):
        (make if args.what == "make" else compare)(args)
        return
    line = json.dumps({"record": "end", **(train if args.what == "train" else infer)(args)})
    print(line, flush=True)
    if args.out:
        pathlib.Path(args.out).write_text(line + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
