# SPDX-License-Identifier: MIT
"""Mask R-CNN as TensorPack's examples/FasterRCNN and Detectron2 compute it, in NumPy, on random weights in their names and
layouts: foreign_detector.py make STYLE FOLDER writes weights.npz, image.png and list.json; foreign_detector.py check STYLE
FOLDER FILE compares FILE, the results of dptrain predict, with what it finds itself. STYLE is tensorpack; detectron2, with a
trunk of MSRA's; or detectron2-rgb, with one of torchvision's. Written from their sources; none of their code is here."""
import json
import sys
import zlib

import numpy as np
from pycocotools import mask as coco_mask

HEIGHT, WIDTH, CLASSES, FOUND = 160, 213, 80, 20  # the image; without the background; --detections
BLOCKS, MEAN, STD = (3, 4, 6, 3), np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])  # RGB
SIZES, STRIDES, RATIOS = (32, 64, 128, 256, 512), (4, 8, 16, 32, 64), (0.5, 1.0, 2.0)


# ---- Weights ----


def layers():
    """Name here, output channels, input channels, side of the kernel (0: a linear layer), norm, gain."""
    yield "stem", 64, 3, 7, True, 1.0
    inputs = 64
    for stage, n_blocks in enumerate(BLOCKS):
        width = 64 << stage
        for block in range(n_blocks):
            at = f"{stage}.{block}."
            if block == 0:
                yield at + "shortcut", 4 * width, inputs, 1, True, 1.0
            yield at + "1", width, inputs, 1, True, 1.4
            yield at + "2", width, width, 3, True, 1.4
            yield at + "3", 4 * width, width, 1, True, 0.5
            inputs = 4 * width
        yield f"lateral{stage}", 256, inputs, 1, False, 0.5
        yield f"output{stage}", 256, 256, 3, False, 0.7
    yield "rpn", 256, 256, 3, False, 1.4
    yield "rpn.logits", 3, 256, 1, False, 2.0
    yield "rpn.deltas", 12, 256, 1, False, 0.4
    yield "fc1", 1024, 256 * 7 * 7, 0, False, 1.4
    yield "fc2", 1024, 1024, 0, False, 1.4
    yield "class", CLASSES + 1, 1024, 0, False, 1.8
    yield "box", 4 * CLASSES, 1024, 0, False, 1.0
    for i in range(4):
        yield f"mask{i}", 256, 256, 3, False, 1.4
    yield "deconv", 256, 256, 2, False, 1.4
    yield "mask", CLASSES, 256, 1, False, 2.0


def random(name, shape):
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32)


def logical(style):
    """The network's arrays by the names here: weights [outputs, inputs, height, width] or [outputs, inputs], of class 0 as the
    first; norms as scale, shift, mean and variance. Images are RGB, or BGR where style says so."""
    out = {}
    for name, n_out, n_in, side, norm, gain in layers():
        shape = (n_out, n_in, side, side) if side else (n_out, n_in)
        out[name] = random(name, shape) * np.float32(gain / np.sqrt(n_in if name == "deconv" else np.prod(shape[1:])))
        if norm:
            spread = 0.2 * random(name + ".norm", (4, n_out))
            spread[0] += 1
            spread[3] = 1 + np.abs(spread[3])
            if style == "detectron2":
                spread[2], spread[3] = 0, 1 - 1e-5  # folded into scale and shift
            out[name + ".norm"] = spread
        else:
            out[name + ".bias"] = 0.1 * random(name + ".bias", n_out)
    for name in "class", "mask0":  # of what ReLUs make, the common part would decide alone
        out[name] -= out[name].mean(1, keepdims=True)
    if style == "detectron2":
        out["stem"] /= 58  # its images are not divided by the standard deviation
    return out


def numbered(ours, theirs, first):
    return {f"{ours}{i}": f"{theirs}{i + first}" for i in range(4)}


DETECTRON2 = {"stem": "backbone.bottom_up.stem.conv1", "rpn": "proposal_generator.rpn_head.conv",
              "rpn.logits": "proposal_generator.rpn_head.objectness_logits",
              "rpn.deltas": "proposal_generator.rpn_head.anchor_deltas", "fc1": "roi_heads.box_head.fc1",
              "fc2": "roi_heads.box_head.fc2", "class": "roi_heads.box_predictor.cls_score",
              "box": "roi_heads.box_predictor.bbox_pred", "deconv": "roi_heads.mask_head.deconv",
              "mask": "roi_heads.mask_head.predictor", **numbered("lateral", "backbone.fpn_lateral", 2),
              **numbered("output", "backbone.fpn_output", 2), **numbered("mask", "roi_heads.mask_head.mask_fcn", 1)}
TENSORPACK = {"stem": "conv0", "rpn": "rpn/conv0", "rpn.logits": "rpn/class", "rpn.deltas": "rpn/box", "fc1": "fastrcnn/fc6",
              "fc2": "fastrcnn/fc7", "class": "fastrcnn/outputs/class", "box": "fastrcnn/outputs/box",
              "deconv": "maskrcnn/deconv", "mask": "maskrcnn/conv", **numbered("lateral", "fpn/lateral_1x1_c", 2),
              **numbered("output", "fpn/posthoc_3x3_p", 2), **numbered("mask", "maskrcnn/fcn", 0)}


def detectron2_name(name):
    if name in DETECTRON2:
        return DETECTRON2[name]
    stage, block, layer = name.split(".")
    return f"backbone.bottom_up.res{int(stage) + 2}.{block}." + (layer if layer == "shortcut" else "conv" + layer)


def detectron2_file(arrays):
    """As a state_dict; the background is the last class."""
    out = {}
    for name, n_out, n_in, side, norm, gain in layers():
        theirs, w = detectron2_name(name), arrays[name]
        out[theirs + ".weight"] = w.transpose(1, 0, 2, 3) if name == "deconv" else w
        if norm:
            for part, value in zip(("weight", "bias", "running_mean", "running_var"), arrays[name + ".norm"]):
                out[f"{theirs}.norm.{part}"] = value
        else:
            out[theirs + ".bias"] = arrays[name + ".bias"]
    for part in "weight", "bias":
        key = f"roi_heads.box_predictor.cls_score.{part}"
        out[key] = np.roll(out[key], -1, 0)
    out["proposal_generator.anchor_generator.cell_anchors.0"] = np.zeros((3, 4), np.float32)
    return out


def tensorpack_name(name):
    if name in TENSORPACK:
        return TENSORPACK[name]
    stage, block, layer = name.split(".")
    return f"group{stage}/block{block}/conv{layer}"


def tensorpack_file(arrays):
    """As TensorFlow has them; the background is the first class, also of the boxes."""
    out = {}
    for name, n_out, n_in, side, norm, gain in layers():
        theirs, w = tensorpack_name(name), arrays[name]
        if name == "box":
            w = np.concatenate([random("background", (4, n_in)), w])
        if name == "deconv":
            out[theirs + "/W"] = w.transpose(2, 3, 0, 1)
        else:
            out[theirs + "/W"] = w.transpose(2, 3, 1, 0) if side else w.T
        if norm:
            for part, value in zip(("gamma", "beta", "mean/EMA", "variance/EMA"), arrays[name + ".norm"]):
                out[f"{theirs}/bn/{part}"] = value
        else:
            bias = arrays[name + ".bias"]
            out[theirs + "/b"] = np.concatenate([random("its bias", 4), bias]) if name == "box" else bias
    return out


# ---- The network: [height, width, channels] ----


def conv(x, w, b=None, stride=1):
    side = w.shape[2]
    x = np.pad(x, ((side // 2,) * 2, (side // 2,) * 2, (0, 0)))
    x = np.lib.stride_tricks.sliding_window_view(x, (side, side), (0, 1))[::stride, ::stride]
    y = x.reshape(*x.shape[:2], -1) @ w.reshape(len(w), -1).T
    return y if b is None else y + b


def relu(x):
    return np.maximum(x, 0)


def network(arrays, style):
    def conv_norm(x, name, stride=1):
        scale, shift, mean, variance = arrays[name + ".norm"]
        return (conv(x, arrays[name], stride=stride) - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + shift

    def trunk(x):
        x = np.pad(relu(conv_norm(x, "stem", 2)), ((1, 0), (1, 0), (0, 0)))  # of values that are at least 0
        x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (0, 1))[::2, ::2].max((3, 4))
        for stage, n_blocks in enumerate(BLOCKS):
            for block in range(n_blocks):
                at, stride = f"{stage}.{block}.", 2 if stage > 0 and block == 0 else 1
                first, second = (stride, 1) if style == "detectron2" else (1, stride)
                y = relu(conv_norm(x, at + "1", first))
                y = conv_norm(relu(conv_norm(y, at + "2", second)), at + "3")
                x = relu(y + (conv_norm(x, at + "shortcut", stride) if block == 0 else x))
            yield x

    def pyramid(image):
        stages, levels, above = list(trunk(image)), [], None
        for i in reversed(range(4)):
            x = conv(stages[i], arrays[f"lateral{i}"], arrays[f"lateral{i}.bias"])
            above = x if above is None else x + above.repeat(2, 0).repeat(2, 1)
            levels.insert(0, conv(above, arrays[f"output{i}"], arrays[f"output{i}.bias"]))
        return levels + [levels[-1][::2, ::2]]

    def proposal_head(x):
        x = relu(conv(x, arrays["rpn"], arrays["rpn.bias"]))
        return (conv(x, arrays["rpn.logits"], arrays["rpn.logits.bias"]).reshape(-1),
                conv(x, arrays["rpn.deltas"], arrays["rpn.deltas.bias"]).reshape(-1, 4))

    def box_head(regions):
        x = regions.transpose(0, 3, 1, 2).reshape(len(regions), -1)
        for name in "fc1", "fc2":
            x = relu(x @ arrays[name].T + arrays[name + ".bias"])
        logits = x @ arrays["class"].T + arrays["class.bias"]
        scores = np.exp(logits - logits.max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True), (x @ arrays["box"].T + arrays["box.bias"]).reshape(-1, CLASSES, 4)

    def mask_head(region, label):
        for i in range(4):
            region = relu(conv(region, arrays[f"mask{i}"], arrays[f"mask{i}.bias"]))
        x = np.einsum("hwi,oiab->hawbo", region, arrays["deconv"], optimize=True).reshape(28, 28, -1)
        x = relu(x + arrays["deconv.bias"])
        return 1 / (1 + np.exp(-(x @ arrays["mask"][label, :, 0, 0] + arrays["mask.bias"][label])))

    return pyramid, proposal_head, box_head, mask_head


# ---- Boxes ----


def anchors(size, stride, rows, columns):
    """Around (0, 0) of each cell, not rounded."""
    shapes = np.array([(size / np.sqrt(r), size * np.sqrt(r)) for r in RATIOS]) / 2
    y, x = np.meshgrid(np.arange(rows) * stride, np.arange(columns) * stride, indexing="ij")
    centre = np.stack([x, y, x, y], -1)[:, :, None]
    return (centre + np.concatenate([-shapes, shapes], 1)).reshape(-1, 4)


def decode(deltas, boxes, weights):
    dx, dy, dw, dh = (deltas / weights).T
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2 + dx * w, (boxes[:, 1] + boxes[:, 3]) / 2 + dy * h
    limit = np.log(1000 / 16)
    assert max(dw.max(), dh.max()) < limit  # TensorPack's is ln(1333 / 16)
    w, h = w * np.exp(dw), h * np.exp(dh)
    box = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)
    return np.clip(box, 0, [WIDTH, HEIGHT, WIDTH, HEIGHT])


def suppress(boxes, groups, limit):
    """Indices of those that stay; boxes are sorted, the best first."""
    area, left = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), np.ones(len(boxes), bool)
    for i in range(len(boxes)):
        if not left[i]:
            continue
        low, high = np.maximum(boxes[i, :2], boxes[i + 1:, :2]), np.minimum(boxes[i, 2:], boxes[i + 1:, 2:])
        inter = np.prod(np.maximum(high - low, 0), 1)
        left[i + 1:] &= (inter <= limit * (area[i] + area[i + 1:] - inter)) | (groups[i + 1:] != groups[i])
    return np.flatnonzero(left)


def interpolate(x, at_y, at_x):
    """x [height, width, channels] at points between the centres of cells, which are whole numbers here."""
    height, width = x.shape[:2]
    inside = ((at_y >= -1) & (at_y <= height))[:, None] & ((at_x >= -1) & (at_x <= width))
    at_y, at_x = np.clip(at_y, 0, height - 1), np.clip(at_x, 0, width - 1)
    y, x0 = at_y.astype(int), at_x.astype(int)
    v, h = (at_y - y)[:, None, None], (at_x - x0)[:, None]
    below, right = np.minimum(y + 1, height - 1), np.minimum(x0 + 1, width - 1)
    rows = x[y] * (1 - v) + x[below] * v
    return (rows[:, x0] * (1 - h) + rows[:, right] * h) * inside[:, :, None]


def pool(levels, box, side, style):
    """RoIAlign, aligned: the mean over points in the middle of equal parts of each bin."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    level = int(np.clip(np.floor(4 + np.log2(np.sqrt(area) / 224 + 1e-8)), 2, 5)) - 2
    x1, y1, x2, y2 = box / STRIDES[level]
    points = []
    for low, high in (y1, y2), (x1, x2):
        n = side * (2 if style == "tensorpack" else max(1, int(np.ceil((high - low) / side))))
        points.append(low + (np.arange(n) + 0.5) * (high - low) / n - 0.5)
    x = interpolate(levels[level], *points)
    return x.reshape(side, len(points[0]) // side, side, len(points[1]) // side, -1).mean((1, 3)).astype(np.float32)


def paste(mask, box):
    """The mask's value at the centre of each pixel, 0 beside it; the object is where it is at least 0.5."""
    mask = np.pad(mask, 1)
    at = [(np.arange(n) + 0.5 - low) / (high - low) * 28 + 0.5
          for n, low, high in ((HEIGHT, box[1], box[3]), (WIDTH, box[0], box[2]))]
    inside = [(a > 0) & (a < 29) for a in at]
    value = interpolate(mask[:, :, None], np.clip(at[0], 0, 29), np.clip(at[1], 0, 29))[:, :, 0]
    return value * inside[0][:, None] * inside[1]


def detect(image, arrays, style):
    """Boxes, scores, rows of classes and masks, the best first."""
    pyramid, proposal_head, box_head, mask_head = network(arrays, style)
    pixels = (image - MEAN) / (1 if style == "detectron2" else STD)
    if style != "detectron2-rgb":
        pixels = pixels[:, :, ::-1]  # BGR
    canvas = np.zeros((-HEIGHT % 32 + HEIGHT, -WIDTH % 32 + WIDTH, 3), np.float32)
    canvas[:HEIGHT, :WIDTH] = pixels
    levels = pyramid(canvas)
    boxes, logits, of_level = [], [], []
    for i, x in enumerate(levels):
        logit, delta = proposal_head(x)
        order = np.argsort(-logit, kind="stable")[:1000]
        box = decode(delta[order], anchors(SIZES[i], STRIDES[i], *x.shape[:2])[order], (1, 1, 1, 1))
        keep = (box[:, 2] > box[:, 0]) & (box[:, 3] > box[:, 1])
        boxes.append(box[keep]), logits.append(logit[order][keep]), of_level.append(np.full(keep.sum(), i))
    boxes, logits, of_level = map(np.concatenate, (boxes, logits, of_level))
    order = np.argsort(-logits, kind="stable")
    keep = order[suppress(boxes[order], of_level[order], 0.7)][:1000]
    regions = boxes[keep]
    scores, deltas = box_head(np.stack([pool(levels, box, 7, style) for box in regions]))
    scores = scores[:, 1:]  # without the background
    region, label = np.nonzero(scores > 0.05)
    found = decode(deltas[region, label], regions[region], (10, 10, 5, 5))
    order = np.argsort(-scores[region, label], kind="stable")
    keep = order[suppress(found[order], label[order], 0.5)][:FOUND]
    masks = [paste(mask_head(pool(levels, found[i], 14, style), label[i]), found[i]) for i in keep]
    return found[keep], scores[region, label][keep], label[keep], masks


# ---- Files ----


def coco_ids():
    """80 of 1 … 90."""
    return [i for i in range(1, 91) if i not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]


def image_of():
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    noise = np.random.default_rng(7).integers(0, 60, (HEIGHT, WIDTH, 3))
    waves = [90 + 60 * np.sin(x / a) * np.cos(y / b) for a, b in ((9, 14), (21, 8), (33, 27))]
    return (np.stack(waves, -1) + noise).clip(0, 255).astype(np.uint8)


def write_png(path, rgb):
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    rows = b"".join(b"\0" + row.tobytes() for row in rgb)
    head = rgb.shape[1].to_bytes(4, "big") + rgb.shape[0].to_bytes(4, "big") + b"\x08\x02\0\0\0"
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make(style, folder):
    arrays = logical(style)
    np.savez(folder + "/weights.npz", **(tensorpack_file if style == "tensorpack" else detectron2_file)(arrays))
    write_png(folder + "/image.png", image_of())
    categories = [{"id": i, "name": f"kind {i}"} for i in coco_ids()]
    images = [{"id": 1, "file_name": "image.png", "height": HEIGHT, "width": WIDTH}]
    with open(folder + "/list.json", "w", encoding="ascii") as file:
        json.dump({"images": images, "annotations": [], "categories": categories}, file)


def check(style, path):
    with open(path, encoding="utf-8") as file:
        found = json.loads(file.readline())["objects"]
    boxes, scores, labels, masks = detect(image_of().astype(np.float32), logical(style), style)
    found.sort(key=lambda d: -d["score"])
    areas = sorted(int((mask >= 0.5).sum()) for mask in masks)
    print(f"{len(found)} and {len(boxes)} objects of {len(set(labels))} classes, scores {scores[0]:.4f} to {scores[-1]:.4f}, "
          f"masks of {areas[0]} to {areas[-1]} pixels")
    assert len(found) == len(boxes) == FOUND
    worst = [0.0, 0.0, 0.0]
    for ours, box, score, label, mask in zip(found, boxes, scores, labels, masks):
        assert ours["category_id"] == coco_ids()[label], (ours["category_id"], label)
        corners = np.array(ours["bbox"])
        corners[2:] += corners[:2]
        pixels = coco_mask.decode(ours["segmentation"])
        differ = np.abs(mask - 0.5)[pixels != (mask >= 0.5)].max(initial=0)
        worst = np.maximum(worst, [np.abs(corners - box).max() / WIDTH, abs(ours["score"] - score), differ])
    print(f"largest differences: boxes {worst[0]:.1e} of the width, scores {worst[1]:.1e}, masks {worst[2]:.1e}")
    assert worst[0] < 1e-4 and worst[1] < 1e-4 and worst[2] < 1e-4, worst


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(*sys.argv[2:])
    else:
        check(sys.argv[2], sys.argv[3])
