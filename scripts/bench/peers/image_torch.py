#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times torchvision and Pillow at what scripts/bench/image.c times: of each *.jpg of a folder, random resized crops to 224,
on one thread. Prints a line of NAME IMAGES_PER_SEC for each way: image_torch.py FOLDER CROPS SEED. --describe prints the
versions."""

import glob
import sys
import time

import PIL
from PIL import Image


def torchvision_way():
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, read_image

    torch.set_num_threads(1)
    crop = torchvision.transforms.RandomResizedCrop(224)
    flip = torchvision.transforms.RandomHorizontalFlip()
    return lambda path: flip(crop(read_image(path, ImageReadMode.RGB)))


def antialiased_way():
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, read_image

    torch.set_num_threads(1)
    crop = torchvision.transforms.RandomResizedCrop(224, antialias=True)
    flip = torchvision.transforms.RandomHorizontalFlip()
    return lambda path: flip(crop(read_image(path, ImageReadMode.RGB)))


def pillow_way():
    import torchvision

    crop = torchvision.transforms.RandomResizedCrop(224)
    flip = torchvision.transforms.RandomHorizontalFlip()

    def read(path):
        with open(path, "rb") as file:
            return flip(crop(Image.open(file).convert("RGB")))

    return read


def describe():
    import torch
    import torchvision

    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}")


def main():
    if sys.argv[1:] == ["--describe"]:
        describe()
        return
    if len(sys.argv) != 4:
        sys.exit("usage: image_torch.py FOLDER CROPS SEED")
    import torch

    torch.manual_seed(int(sys.argv[3]))
    paths = sorted(glob.glob(sys.argv[1] + "/*.jpg"))
    for name, way in (("torchvision", torchvision_way), ("antialiased", antialiased_way), ("pillow", pillow_way)):
        read = way()
        for path in paths[:20]:
            read(path)
        begin = time.perf_counter()
        for path in paths:
            for _ in range(int(sys.argv[2])):
                read(path)
        print(name, len(paths) * int(sys.argv[2]) / (time.perf_counter() - begin))


if __name__ == "__main__":
    main()
