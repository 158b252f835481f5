# SPDX-License-Identifier: MIT
"""Weights and images by a formula, so that dptrain and torchvision compare without files: tests/formula.h in numpy."""

import math

import numpy as np


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def philox(key, n_blocks, rest=(0, 0, 0)):
    """rng_philox of src/base/rng.h for the counters (0 … n_blocks − 1, *rest): [n_blocks, 4] words."""
    c = [np.arange(n_blocks, dtype=np.uint64)] + [np.full(n_blocks, x, np.uint64) for x in rest]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        n0 = (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0)
        n2 = (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1)
        c = [n0, p1 & low, n2, p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 1)


def uniform(name, n):
    """n numbers in [−1, 1) that depend on the name alone."""
    words = philox(fnv1a(name), (n + 3) // 4).reshape(-1)[:n]
    return words.astype(np.float64) * 2.0**-31 - 1


# The first fitting part of a layer's name; a weight's standard deviation is gain / √fan_in.
GAINS = (("body.conv1", 0.5), ("conv2", 0.7), ("conv3", 0.5), ("inner_blocks", 0.5), ("layer_blocks", 0.7),
         ("cls_logits", 2.0), ("rpn.head.bbox_pred", 0.4), ("cls_score", 2.5), ("bbox_pred", 2.0),
         ("mask_fcn_logits", 1.0), ("", 1.4))


def weight(name, shape):
    """A tensor of torchvision's state_dict, float32."""
    n = math.prod(shape)
    u, leaf = uniform(name, n), name.rsplit(".", 1)[1]
    if leaf == "running_var" or (leaf == "weight" and len(shape) == 1):
        u = 1 + 0.5 * u
    elif leaf == "running_mean":
        u = 0.3 * u
    elif leaf == "bias":
        u = 0.1 * u
    else:
        fan_in = shape[0] if "conv5_mask" in name else n // shape[0]
        gain = next(g for part, g in GAINS if part in name)
        u = gain * math.sqrt(3 / fan_in) * u
    return u.astype(np.float32).reshape(shape)


def image(height, width, canvas_height, canvas_width, name="image"):
    """[canvas_height, canvas_width, 3]: blocks of 1, 8 and 32 pixels; 0 outside of [height, width]."""
    out = np.zeros((canvas_height, canvas_width, 3), np.float64)
    for side in (1, 8, 32):
        rows, columns = -(-canvas_height // side), -(-canvas_width // side)
        blocks = uniform(f"{name}.{side}", rows * columns * 3).reshape(rows, columns, 3)
        out += blocks.repeat(side, 0).repeat(side, 1)[:canvas_height, :canvas_width]
    out[height:] = 0
    out[:, width:] = 0
    return out.astype(np.float32)
