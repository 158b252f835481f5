#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mask R-CNN of torchvision on the CPU: seconds of inference on one image by part, the fastest of the runs each, to be
compared with scripts/bench/detector.c. Regions and detections are given, as weights are random."""

import argparse
import resource
import time

import torch
import torch._inductor.config
from detector_train import compile_parts
from torchvision.models.detection import fasterrcnn_resnet50_fpn, maskrcnn_resnet50_fpn

MODELS = {"maskrcnn_resnet50_fpn": maskrcnn_resnet50_fpn, "fasterrcnn_resnet50_fpn": fasterrcnn_resnet50_fpn}


def regions(n, height, width):
    """Squares whose areas are even in their logarithm, as in detector.c."""
    side = 16 * (height / 32) ** torch.rand(n)
    x, y = torch.rand(n) * (width - side), torch.rand(n) * (height - side)
    return torch.stack([x, y, x + side, y + side], 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="maskrcnn_resnet50_fpn", choices=MODELS)
    parser.add_argument("--height", type=int, default=800)
    parser.add_argument("--width", type=int, default=1088)
    parser.add_argument("--regions", type=int, default=1000)
    parser.add_argument("--masks", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="torch.autocast with bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the layers, with frozen weights")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = MODELS[options.model](weights=None, weights_backbone=None, num_classes=91).eval()
    image = torch.randn(1, 3, options.height, options.width)
    if options.channels_last:
        model, image = (part.to(memory_format=torch.channels_last) for part in (model, image))
    if options.compile:
        torch._inductor.config.freezing = True
        compile_parts(model)
    size = [(options.height, options.width)]
    boxes = [regions(options.regions, options.height, options.width)]
    found = [boxes[0][: options.masks]]
    heads, best, values = model.roi_heads, {}, {}

    def part(name, compute):
        start = time.perf_counter()
        values[name] = compute()
        best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
        return values[name]

    def infer():
        stages = part("trunk", lambda: model.backbone.body(image))
        features = part("pyramid", lambda: model.backbone.fpn(stages))
        part("proposal head", lambda: model.rpn.head(list(features.values())))
        pooled = part("box RoIAlign", lambda: heads.box_roi_pool(features, boxes, size))
        part("box head", lambda: heads.box_predictor(heads.box_head(pooled)))
        if options.masks > 0:
            pooled = part("mask RoIAlign", lambda: heads.mask_roi_pool(features, found, size))
            part("mask head", lambda: heads.mask_predictor(heads.mask_head(pooled)))

    total = cpu = float("inf")
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
        for _ in range(options.runs):
            start, start_cpu = time.perf_counter(), time.process_time()
            infer()
            total = min(total, time.perf_counter() - start)
            cpu = min(cpu, time.process_time() - start_cpu)
    for name, sec in best.items():
        print(f"{name:14} {sec:8.3f} s")
    print(f"{'all':14} {total:8.3f} s\n{'CPU time':14} {cpu:8.3f} s")
    print(f"{'peak memory':14} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:8} KiB")


if __name__ == "__main__":
    main()
