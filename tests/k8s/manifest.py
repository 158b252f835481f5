# SPDX-License-Identifier: MIT
# Reads MPIJobs as Kubernetes does.
#   manifest.py check SCHEMA FILE...        prints every violation of the custom resource definition's schema; 1: there are some
#   manifest.py get FILE PATH...            prints the value at each path such as spec.slotsPerWorker, - if there is none
#   manifest.py command FILE ROLE           prints the command of a pod, each word ended by a NUL byte, as kubelet starts it
import json
import os
import re
import sys

import jsonschema
import yaml


def load(path):
    """The document of FILE. A key that is there twice is an error, as for kubectl."""

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            keys = [key.value for key, _ in node.value]
            if len(keys) != len(set(keys)):
                raise yaml.constructor.ConstructorError(None, None, f"a key is there twice: {keys}", node.start_mark)
            return super().construct_mapping(node, deep)

    with open(path, encoding="utf-8") as file:
        return yaml.load(file, Loader)


def strict(schema):
    """Refuses unknown fields, as kubectl's strict validation does."""
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            strict(value)
    elif isinstance(schema, list):
        for value in schema:
            strict(value)
    return schema


def read_schema(path):
    with open(path, encoding="utf-8") as file:
        crd = json.load(file)
    schema = strict(crd["openAPIV3Schema"])
    schema["properties"]["metadata"] = {
        "type": "object", "required": ["name"], "additionalProperties": False,
        "properties": {name: {"type": "string"} for name in ("name", "namespace")}}
    for key, value in (("apiVersion", f"{crd['group']}/{crd['version']}"), ("kind", crd["kind"])):
        schema["properties"][key] = {"const": value}
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return schema


def check(path, *files):
    judge = jsonschema.Draft7Validator(read_schema(path))
    bad = 0
    for file in files:
        for error in judge.iter_errors(load(file)):
            bad += 1
            print(f"{os.path.basename(file)}: {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}")
    return 1 if bad else 0


def at(document, path):
    for key in path.split("."):
        document = document[int(key) if isinstance(document, list) else key]
    return document


def get(file, *paths):
    document = load(file)
    for path in paths:
        try:
            print(at(document, path))
        except (KeyError, IndexError):
            print("-")
    return 0


def expand(word, variables):
    """kubelet's $(NAME) and $$."""

    def one(match):
        text = match.group(0)
        return "$" if text == "$$" else variables.get(text[2:-1], text)

    return re.sub(r"\$\$|\$\([A-Za-z_.-][A-Za-z0-9_.-]*\)", one, word)


def command(file, role):
    container = at(load(file), f"spec.mpiReplicaSpecs.{role}.template.spec.containers.0")
    variables = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    for word in container["command"]:
        sys.stdout.write(expand(word, variables) + "\0")
    return 0


sys.exit({"check": check, "get": get, "command": command}[sys.argv[1]](*sys.argv[2:]))
