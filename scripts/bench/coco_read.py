# SPDX-License-Identifier: MIT
"""The Python equivalent of coco_read.c: coco_read.py json|pycocotools FILE."""
import sys
import time

start = time.perf_counter()
if sys.argv[1] == "json":
    import json

    with open(sys.argv[2], encoding="utf-8") as file:
        data = json.load(file)
    n_images, n_annotations = len(data["images"]), len(data["annotations"])
else:
    import contextlib
    import io
    import types

    # pycocotools.coco imports it for its images, and it is not among what the tests install.
    for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.collections", "matplotlib.patches"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["matplotlib.collections"].PatchCollection = None
    sys.modules["matplotlib.patches"].Polygon = None
    from pycocotools.coco import COCO

    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(sys.argv[2])
    n_images, n_annotations = len(coco.imgs), len(coco.anns)
seconds = time.perf_counter() - start
with open("/proc/self/status", encoding="ascii") as status:
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
print(f"{seconds:.3f} {peak} {n_images} {n_annotations}")
