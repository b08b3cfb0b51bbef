"""JSON Schema of a graph file for editors, generated from the readers' tables.

It covers keys and the types of their values. Checks that need the whole graph (ops, attrs, names, shapes) are left to `placesim
check`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from placesim.core.dtypes import DTYPES, NAMES
from placesim.core.releases import RELEASES
from placesim.formats.graph_file.entries.control_flow_entries import COND_KEYS, WHILE_KEYS
from placesim.formats.graph_file.entries.entries import ENTRY_KEYS
from placesim.formats.graph_file.entries.functions import FUNCTION_KEYS
from placesim.formats.graph_file.entries.node_makers import make_training
from placesim.formats.graph_file.entries.raw_nodes import RAW_KEYS
from placesim.formats.graph_file.entries.training_fields import (
    AGGREGATION,
    APPLY_OPTIONS,
    GATES,
    GRADIENT_OPTIONS,
    MINIMIZE_OPTIONS,
    UNCONNECTED,
)
from placesim.formats.graph_file.reader import FILE_KEYS, VERSION_KEYS
from placesim.formats.graph_file.sections.config import CONFIG_FIELDS, FIELD_READERS, GRAPH_OPTIONS, OPTIMIZER_OPTIONS
from placesim.formats.graph_file.sections.devices import COUNT_KEYS, CPU_KEYS, GPU_KEYS, MODEL_KEYS, TASK_KEYS
from placesim.formats.graph_file.sections.hosts import HOST_KEYS, PROFILE_KEYS
from placesim.formats.graph_file.sections.links import LINK_KEYS
from placesim.formats.graph_file.sections.steps import GENERATORS, STEP_KEYS
from placesim.formats.json_schema import (
    BOOLEAN,
    DIALECT,
    NUMBER,
    TEXT,
    Schema,
    accepted_schema,
    closed_schema,
    integer_schema,
    list_schema,
    mapping_schema,
    one_of_words,
    union_schema,
)
from placesim.formats.problems import FileProblems
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.variables import INITIALIZER_FIELDS, VALUE_KINDS
from placesim.machine.gpu_models import GPU_MODELS
from placesim.machine.gpu_options import EXPERIMENTAL_GPU_OPTIONS, GPU_OPTIONS
from placesim.machine.host_models import RATES
from placesim.machine.inventory import MAX_COUNT
from placesim.machine.links import KINDS, WAYS
from placesim.ops.registry import load_registry

_NULL: Schema = {"type": "null"}
_COUNT = integer_schema(0, MAX_COUNT)
_INT64 = integer_schema(-(1 << 63), (1 << 63) - 1)
_SIZE = union_schema({"type": "integer", "minimum": 1}, TEXT)
_FIGURE = union_schema(NUMBER, TEXT)
"""Schema of a measured number. It may be text, as YAML 1.1 reads `67e12` as text."""
_DIMS = list_schema(union_schema({"type": "integer", "minimum": -1}, _NULL))
_LITERAL = {"$ref": "#/$defs/literal"}
_TEXTS = list_schema(TEXT)
_REFERENCES = union_schema(TEXT, _TEXTS)
_DEVICE = union_schema(TEXT, _NULL, closed_schema({"text": TEXT}, ["text"]))


def graph_file_schema() -> Schema:
    """Return the schema of a whole file; `$defs` has its parts."""
    known: dict[str, Schema] = {
        "name": TEXT,
        "description": TEXT,
        "tensorflow": {"enum": [spelling for r in RELEASES.values() for spelling in (r.name, float(r.name), r.version)]},
        "devices": union_schema(mapping_schema(COUNT_KEYS, _DEVICES), list_schema(mapping_schema(TASK_KEYS, _DEVICES))),
        "links": list_schema(
            mapping_schema(LINK_KEYS, _LINK, ["bandwidth"]) | {"oneOf": [{"required": [key]} for key in _ENDS]}
        ),
        "config": _config(),
        "run": list_schema(mapping_schema(STEP_KEYS, _STEP)),
        "functions": list_schema(mapping_schema(FUNCTION_KEYS, _FUNCTION, ["name"])),
        "raw": BOOLEAN,
        "marks": BOOLEAN,
        "placement": {"type": "object", "additionalProperties": union_schema(TEXT, _NULL)},
        "versions": mapping_schema(VERSION_KEYS, dict.fromkeys(VERSION_KEYS, integer_schema(0, (1 << 31) - 1))),
        "rest": closed_schema({"bytes": TEXT}, ["bytes"]),
        **{key: _STEP[key] for key in ("fetch", "feed")},
    }
    of_raw = {"nodes": list_schema(mapping_schema(RAW_KEYS, _NODE))}
    of_scopes = {"nodes": _STEP["nodes"]}
    return {
        "$schema": DIALECT,
        "title": "A graph file of placesim",
        **mapping_schema(FILE_KEYS, known, ["nodes"]),
        "if": {"properties": {"raw": {"const": True}}, "required": ["raw"]},
        "then": {"properties": of_raw},
        "else": {"properties": of_scopes},
        "not": {"required": ["run"], "anyOf": [{"required": ["fetch"]}, {"required": ["feed"]}]},
        "$defs": {
            "entry": _entry(list(ENTRY_KEYS)),
            "literal": _literal(),
            "attr": _attr(),
            **{k: _entry_of(k) for k in ENTRY_KEYS},
            "train": _entry_of("train", {"train": _train()}),
        },
    }


def _entry(kinds: list[str]) -> Schema:
    """Return the schema of an entry. The first of the keys in `kinds` that an entry has determines its kind."""
    first, *others = kinds
    kind = {"$ref": f"#/$defs/{first}"}
    return {"if": {"type": "object", "required": [first]}, "then": kind, "else": _entry(others) if others else kind}


def _entry_of(kind: str, more: Mapping[str, Schema] = {}) -> Schema:
    return mapping_schema(ENTRY_KEYS[kind], {**_ENTRIES.get(kind, {}), **more}, [kind])


def _literal() -> Schema:
    """Return the schema of a tensor's elements. In a Python mapping, they may have numpy's own types."""
    of_mapping = {"type": "object", "minProperties": 1, "maxProperties": 1, "properties": {"bytes": TEXT, "tensor": {}}}
    return union_schema(
        {"type": ["number", "boolean", "string", "null"]}, list_schema(_LITERAL), of_mapping | {"additionalProperties": False}
    )


def _attr() -> Schema:
    """Return the schema of an attr's value, in the form of its type or in a form that names its type."""
    tensor = closed_schema({"dtype": _TYPE, "shape": _SHAPE, "value": _LITERAL}, ["value"])
    kinds: dict[str, Schema] = {
        "type": _TYPE,
        "shape": union_schema(_DIMS, {"const": "unknown"}),
        "tensor": union_schema(_LITERAL, tensor),
        "placeholder": TEXT,
        "bytes": TEXT,
    }
    of_itself = [closed_schema({kind: value}, [kind]) for kind, value in kinds.items()]
    function = closed_schema({"func": TEXT, "attrs": union_schema(_ATTRS, _NULL)}, ["func"])
    return union_schema(
        {"type": ["number", "boolean", "string"]}, list_schema(union_schema(_ATTR, _NULL)), *of_itself, function, tensor
    )


def _train() -> Schema:
    """Return the schema of `train`, with the parameters of each optimizer."""
    training = make_training(ScopedGraphBuilder(load_registry()))
    of_kinds: dict[str, Schema] = {}
    alone: list[str] = []
    for kind in training.kinds():
        parameters = training.parameters(kind)
        required = [name for name, parameter in parameters.items() if parameter.is_required]
        figures = mapping_schema(
            parameters, {name: _FIGURES[parameter.kind] for name, parameter in parameters.items()}, required
        )
        for name in (kind, f"{kind}Optimizer"):
            of_kinds[name] = figures if required else union_schema(figures, _NULL)
            alone += [] if required else [name]
    one = closed_schema(of_kinds) | {"minProperties": 1, "maxProperties": 1}
    optimizer = union_schema({"enum": alone}, one)
    ways = {"minimize": (_REFERENCES, MINIMIZE_OPTIONS), "apply": (_PAIRS, APPLY_OPTIONS)}
    return {
        "oneOf": [
            mapping_schema((way, "optimizer", *options), {**_TRAINING, way: value, "optimizer": optimizer}, [way, "optimizer"])
            for way, (value, options) in ways.items()
        ]
    }


def _generated() -> Schema:
    """Return the schema of a feed that is generated, or read from a file."""
    made = [
        closed_schema({kind: {}, **dict.fromkeys(figures, NUMBER), "seed": union_schema(_INT64, _NULL)}, [kind])
        for kind, figures in GENERATORS.items()
    ]
    return union_schema(_LITERAL, closed_schema({"file": TEXT}, ["file"]), *made)


def _config() -> Schema:
    """Return the schema of `config`, with the types that each field's reader accepts."""
    known = {name: accepted_schema(partial(_read_field, name)) for name in FIELD_READERS}
    experimental = mapping_schema(EXPERIMENTAL_GPU_OPTIONS, known)
    optimizer = mapping_schema(OPTIMIZER_OPTIONS, known)
    more = {
        "gpu_options": mapping_schema((*GPU_OPTIONS, "experimental"), known | {"experimental": experimental}),
        "graph_options": mapping_schema((*GRAPH_OPTIONS, "optimizer_options"), known | {"optimizer_options": optimizer}),
    }
    return mapping_schema(CONFIG_FIELDS, known | more)


def _read_field(name: str, value: Any) -> Any:
    """Return the value that the reader of a field returns; None if it reports a problem."""
    problems = FileProblems("config")
    found = FIELD_READERS[name](value, name, 0, problems)
    return None if problems else (True if found is None else found)


def _initializer() -> Schema:
    """Return the schema of an initializer: its name, or a mapping with its parameters."""
    figures = {"seed": union_schema(_INT64, list_schema(_INT64), _NULL)}
    of_names = {
        kind: union_schema(mapping_schema(keys, {key: figures.get(key, NUMBER) for key in keys}), _NULL)
        for kind, keys in INITIALIZER_FIELDS.items()
    }
    of_values = {**dict.fromkeys(("constant", *VALUE_KINDS), _LITERAL), "tensor": TEXT}
    mapping = closed_schema(of_names | of_values) | {"minProperties": 1, "maxProperties": 1}
    return union_schema({"enum": list(INITIALIZER_FIELDS)}, mapping, _NULL)


_ATTR = {"$ref": "#/$defs/attr"}
_ATTRS: Schema = {"type": "object", "additionalProperties": _ATTR}
_TYPE = {"enum": [*NAMES, *(dtype.enum_name for dtype in DTYPES.values())]}
_DTYPE = union_schema(_TYPE, closed_schema({"placeholder": TEXT}, ["placeholder"]), _NULL)
_SHAPE = union_schema(_DIMS, {"const": "unknown"}, _NULL)
_COMMON: Mapping[str, Schema] = {
    "id": TEXT,
    "device": _DEVICE,
    "colocate_with": _REFERENCES,
    "control_inputs": _REFERENCES,
    "dtype": _DTYPE,
    "shape": _SHAPE,
}
_NODE: Mapping[str, Schema] = {
    **_COMMON,
    "op": TEXT,
    "name": union_schema(TEXT, _NULL),
    "inputs": union_schema(list_schema({}), TEXT, _NULL),
    "attrs": union_schema(_ATTRS, _NULL),
    "raw": BOOLEAN,
}
_BODY = union_schema({"$ref": "#/$defs/entry"}, list_schema({"$ref": "#/$defs/entry"}))
_PAIRS = union_schema(_REFERENCES, {"type": "object", "additionalProperties": _REFERENCES})
_FIGURES: Mapping[str, Schema] = {
    "figure": NUMBER,
    "tensor": union_schema(NUMBER, TEXT),
    "flag": BOOLEAN,
    "text": TEXT,
    "variable": TEXT,
}
"""Schemas of an optimizer's parameters of each kind."""
_GRADIENTS = mapping_schema(
    ("of", "with_respect_to", *GRADIENT_OPTIONS),
    {
        "of": _REFERENCES,
        "with_respect_to": union_schema(_REFERENCES, {"type": "object", "additionalProperties": TEXT}),
        "grad_ys": _REFERENCES,
        "stop_gradients": _REFERENCES,
        "colocate_gradients_with_ops": BOOLEAN,
        "gate_gradients": BOOLEAN,
        "aggregation_method": one_of_words(AGGREGATION),
        "unconnected_gradients": one_of_words(UNCONNECTED),
    },
    ["of"],
)
_TRAINING: Mapping[str, Schema] = {
    "variables": _REFERENCES,
    "global_step": TEXT,
    "grad_loss": TEXT,
    "colocate_gradients_with_ops": BOOLEAN,
    "gate_gradients": one_of_words(GATES),
    "aggregation_method": one_of_words(AGGREGATION),
}
_ENTRIES: Mapping[str, Mapping[str, Schema]] = {
    "op": _NODE,
    "nodes": {
        **_COMMON,
        "scope": union_schema(TEXT, _NULL),
        "device": union_schema(_DEVICE, list_schema(_DEVICE)),
        "nodes": list_schema({"$ref": "#/$defs/entry"}),
    },
    "variable": {
        **_COMMON,
        "variable": TEXT,
        "initializer": _initializer(),
        "kind": {"enum": ["ref", "resource"]},
        "trainable": BOOLEAN,
    },
    "initializer": {**_COMMON, "initializer": TEXT},
    "cond": {
        **_COMMON,
        "cond": {
            **mapping_schema(
                COND_KEYS, {"if": TEXT, "then": _BODY, "else": _BODY, "outputs": union_schema(TEXT, _TEXTS)}, ["if"]
            ),
            "anyOf": [{"required": ["then", "else"]}, {"required": ["outputs"]}],
        },
    },
    "while": {
        **_COMMON,
        "while": mapping_schema(
            WHILE_KEYS,
            {
                "loop_vars": {"type": "object", "minProperties": 1, "additionalProperties": _LITERAL},
                "cond": _BODY,
                "body": _BODY,
                "shape_invariants": {"type": "object", "additionalProperties": union_schema(_DIMS, {"const": "unknown"})},
                "maximum_iterations": union_schema(integer_schema(1, (1 << 31) - 1), TEXT),
                "parallel_iterations": integer_schema(1, (1 << 31) - 1),
            },
            ["loop_vars", "cond", "body"],
        ),
    },
    "gradients": {**_COMMON, "name": TEXT, "gradients": _GRADIENTS},
    "train": {**_COMMON, "name": TEXT},
}
"""Schemas of the values of each kind of entry."""
_STEP: Mapping[str, Schema] = {
    "nodes": list_schema({"$ref": "#/$defs/entry"}),
    "fetch": union_schema(TEXT, list_schema(union_schema(TEXT, {"type": "object", "additionalProperties": TEXT}))),
    "feed": {"type": "object", "additionalProperties": _generated()},
    "repeat": integer_schema(0, 10**9),
}
_RATES = mapping_schema(RATES, dict.fromkeys(RATES, _FIGURE))
_HOST: Mapping[str, Schema] = {
    "name": TEXT,
    "cores": integer_schema(1, 1 << 12),
    "flops": _FIGURE,
    "bandwidth": _FIGURE,
    "rates": _RATES,
    "dispatch": _FIGURE,
    "launch": _FIGURE,
    "inter_op_threads": integer_schema(0, 1 << 12),
    "ops": {"type": "object", "additionalProperties": _FIGURE},
    "profile": mapping_schema(PROFILE_KEYS, {}, ["version"]),
}
_MODEL: Mapping[str, Schema] = {
    "name": TEXT,
    "memory": _SIZE,
    "compute_capability": union_schema(NUMBER, TEXT),
    "pci_bus_id": union_schema(TEXT, _TEXTS),
    "flops": _FIGURE,
    "bandwidth": _FIGURE,
    "rates": _RATES,
    "launch": _FIGURE,
}
_GPU: Mapping[str, Schema] = {
    "count": _COUNT,
    "model": union_schema({"enum": list(GPU_MODELS)}, mapping_schema(MODEL_KEYS, _MODEL, ["name"])),
    "memory": _SIZE,
}
_DEVICES: Mapping[str, Schema] = {
    "job": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]*$"},
    "tasks": _COUNT,
    "cpu": union_schema(_COUNT, mapping_schema(CPU_KEYS, _GPU)),
    "gpu": union_schema(_COUNT, mapping_schema(GPU_KEYS, _GPU)),
    "xla_cpu": _COUNT,
    "xla_gpu": _COUNT,
    "host": mapping_schema(HOST_KEYS, _HOST),
}
_ENDS = ("between", "shared_by")
_LINK: Mapping[str, Schema] = {
    **dict.fromkeys(_ENDS, _TEXTS),
    "bandwidth": _FIGURE,
    "latency": _FIGURE,
    "ways": {"enum": list(WAYS)},
    "kind": {"enum": list(KINDS)},
    "name": TEXT,
}
_ARGUMENT: Mapping[str, Schema] = {"name": TEXT, "type": _TYPE, "type_attr": TEXT, "shape": _SHAPE, "value": TEXT}
_FUNCTION: Mapping[str, Schema] = {
    "name": {"type": "string", "minLength": 1},
    "inputs": union_schema(
        TEXT,
        {
            "type": "object",
            "additionalProperties": union_schema(_TYPE, mapping_schema(("type", "type_attr", "shape"), _ARGUMENT)),
        },
        list_schema(mapping_schema(("name", "type", "type_attr", "shape"), _ARGUMENT, ["name"])),
    ),
    "outputs": union_schema(
        TEXT,
        {"type": "object", "additionalProperties": TEXT},
        list_schema(union_schema(TEXT, mapping_schema(("name", "type", "type_attr", "value"), _ARGUMENT, ["name"]))),
    ),
    "nodes": _BODY,
    "control_outputs": union_schema(_REFERENCES, {"type": "object", "additionalProperties": TEXT}),
    "attrs": _ATTRS,
    "raw": BOOLEAN,
}
