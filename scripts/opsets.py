#!/usr/bin/env python3
"""Make internal/graph/opsets.txt: for every ONNX operator, the operator set versions that changed more than its types.

    python3 -m venv /tmp/opsets && /tmp/opsets/bin/pip install onnx==1.23.2
    /tmp/opsets/bin/python scripts/opsets.py >internal/graph/opsets.txt

A node written for version a means the same in version b > a if its operator's line has no version v with a < v <= b. A
version counts as a change in these cases: it introduces or deprecates the operator; it changes the number or the options
of inputs or outputs; it changes the name, type or default of an attribute, or makes an attribute required or optional.
KEEPS lists new attributes whose default keeps the old behaviour.
"""

import onnx
from onnx import defs

KEEPS = {("Reshape", 14), ("Shape", 15), ("Cast", 19), ("CastLike", 19), ("AveragePool", 19)}


def signature(schema):
    """Returns an operator's schema without its types and its text."""
    sides = [[(p.option.name, p.is_homogeneous, p.min_arity) for p in side] for side in (schema.inputs, schema.outputs)]
    attributes = sorted((a.name, a.type.name, a.required, onnx.helper.printable_attribute(a.default_value) if a.default_value.name else "") for a in schema.attributes.values())
    return sides, attributes, schema.deprecated


def main():
    history = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            history.setdefault(schema.name, []).append(schema)
    print(f"# Made by scripts/opsets.py from onnx {onnx.__version__}: operators of ONNX, and the versions that changed more than types.")
    print("newest", defs.onnx_opset_version())
    for name, schemas in sorted(history.items()):
        schemas.sort(key=lambda s: s.since_version)
        changes = [schemas[0].since_version]
        for before, after in zip(schemas, schemas[1:]):
            keeps = (name, after.since_version) in KEEPS
            if keeps:
                assert signature(before)[0] == signature(after)[0], name
                assert set(signature(before)[1]) < set(signature(after)[1]), name
            elif signature(before) != signature(after):
                changes.append(after.since_version)
        print(name, *changes)


if __name__ == "__main__":
    main()
