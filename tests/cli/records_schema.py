#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judges every record of files by the JSON Schema of dptrain report --schema, with jsonschema's own validator.

usage: records_schema.py SCHEMA FILE...    prints FILE:LINE: for each that it refuses; exit code 1 if there is one"""
import json
import sys

import jsonschema


def main():
    with open(sys.argv[1], encoding="utf-8") as text:
        schema = json.load(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    by_kind = {}  # the branches of a kind: a validator of all of them is slow
    for branch in schema["anyOf"]:
        by_kind.setdefault(branch["properties"]["record"]["const"], []).append(branch)
    judges = {kind: jsonschema.Draft202012Validator({"anyOf": branches}) for kind, branches in by_kind.items()}
    n_refused = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                record = json.loads(line)
                kind = record.get("record") if isinstance(record, dict) else None
                judge = judges.get(kind)
                if judge and judge.is_valid(record):
                    continue
                print(f"{path}:{number}: {kind}")
                n_refused += 1
    sys.exit(n_refused > 0)


if __name__ == "__main__":
    main()
