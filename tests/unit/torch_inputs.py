# SPDX-License-Identifier: MIT
"""Inputs that tests in C and their generators of expected numbers make alike."""
import numpy as np
import torch


def words(first, n):
    i = np.arange(first, first + n, dtype=np.uint32)
    with np.errstate(over="ignore"):
        x = i * np.uint32(2654435761) + np.uint32(12345)
        x = (x ^ x >> np.uint32(16)) * np.uint32(0x45D9F3B)
    return x ^ x >> np.uint32(16)


def values(first, n, low, high):
    """In [low, high), exact in float32 for small powers of two."""
    share = (words(first, n) >> 8).astype(np.float32) / np.float32(1 << 24)
    return torch.from_numpy(np.float32(low) + np.float32(high - low) * share)
