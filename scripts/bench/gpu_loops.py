# SPDX-License-Identifier: MIT
"""Bounds of the kernels in an object file, from its machine code: gpu_loops.py OBJECT [PATTERN].

Looks at the loop with the most 16-byte loads of each kernel: how much of a copy's bandwidth each resource of an H200 allows
if all else is free, and all of them if nothing overlaps, neither waiting with work nor warps with each other. Blocks have
256 threads. Needs cuobjdump and nvdisasm of the CUDA toolkit."""
import re
import subprocess
import sys

SMS, HZ, COPY, LATENCY = 132, 1.755e9, 4.3e12, 700e-9
BYTES_PER_CLOCK = COPY / SMS / HZ
ALU = "LOP3 SHF IADD3 VIADD ISETP FSETP FSEL SEL PRMT FMNMX LEA R2P P2R LOP".split()
# Warp instructions per clock and multiprocessor.
RATES = {"issue": 4, "integer": 2, "double": 2, "conversion": 0.5}


def dump(*arguments):
    text = subprocess.run(["cuobjdump", *arguments], check=True, capture_output=True, text=True).stdout
    return subprocess.run(["c++filt"], input=text, check=True, capture_output=True, text=True).stdout


def loop_of(code):
    """The instructions of the loop with the most 16-byte loads, the shortest of these."""
    lines = re.findall(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\d+ )?(.*?) ?;", code)
    index = {int(address, 16): i for i, (address, _) in enumerate(lines)}
    loops = []
    for i, (address, text) in enumerate(lines):
        jump = re.match(r"BRA\S* .*?0x([0-9a-f]+)", text)
        start = index.get(int(jump.group(1), 16), i) if jump else i
        if start < i:
            loops.append([text for _, text in lines[start:i + 1]])
    return max(loops, key=lambda loop: (sum("LDG" in t and ".128" in t for t in loop), -len(loop)), default=[])


def loads_before_use(loop):
    loaded, count = set(), 0
    for text in loop:
        if text.startswith("LDG"):
            first = int(re.search(r" R(\d+),", text).group(1))
            loaded |= set(range(first, first + (4 if ".128" in text else 1)))
            count += ".128" in text
        elif any(int(r) in loaded for r in re.findall(r"\bR(\d+)", text.split(",", 1)[-1])):
            break
    return count


used = {}
for name, registers, shared in re.findall(r"Function (.*):\n.*REG:(\d+).*SHARED:(\d+)", dump("-res-usage", sys.argv[1])):
    used[name] = (int(registers), int(shared))
print("kernel | registers | blocks per SM | instructions per 16 bytes | KB in flight | " + " | ".join(RATES) + " | latency | together")
for part in dump("-sass", sys.argv[1]).split("Function : ")[1:]:
    name, code = part.split("\n", 1)
    loop = loop_of(code)
    moved = [sum(t.startswith(op) and ".128" in t for t in loop) for op in ("LDG", "STG")]
    if not moved[0] or not re.search(sys.argv[2] if len(sys.argv) > 2 else "", name):
        continue
    registers, shared = used[name]
    blocks = min(8, 65536 // ((registers + 7) // 8 * 8 * 256), 233472 // (shared + 1024))
    opcodes = [t.split()[0].split(".")[0] for t in loop]
    work = {"issue": len(loop), "integer": sum(op in ALU for op in opcodes),
            "double": sum(op in ("DADD", "DMUL", "DFMA") for op in opcodes),
            "conversion": sum(t.startswith("F2F.F64") for t in loop)}
    at_once = max(1, loads_before_use(loop))
    flight = blocks * 256 * 16 * at_once
    clocks = {r: work[r] / RATES[r] for r in RATES}
    bounds = [512 * sum(moved) / clocks[r] / BYTES_PER_CLOCK if work[r] else None for r in RATES]
    bounds.append(flight / (COPY * LATENCY / SMS) * sum(moved) / moved[0])
    bounds.append(8 * blocks * 512 * sum(moved) / BYTES_PER_CLOCK
                  / (LATENCY * HZ * moved[0] / at_once + 8 * blocks * max(clocks.values())))
    print(re.sub(r"\(anonymous namespace\)::|void |\((norm|pool)?,.*|unsigned ", "", name), registers, blocks,
          f"{len(loop) / sum(moved):.0f}", f"{flight / 1024:.0f}", *(f"{b:.2f}" if b else "-" for b in bounds), sep=" | ")
