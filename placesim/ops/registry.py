"""Registry of op definitions, and of kernels by device type and element types.

A registry is passed as an argument, never looked up as a global. The facts of one TensorFlow release are in a compressed file
beside this module, with a line of JSON per op. A line is decoded when its op is first needed. `compile_tables.py` makes the
file from a readable source.

Source: the op and kernel registries of TensorFlow 2.21 (CUDA-capable build).
"""

from __future__ import annotations

import json
import pkgutil
import zlib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from placesim.core.dtypes import parse_dtype
from placesim.core.releases import CURRENT, RELEASES, Release
from placesim.ops.attributes import decode_attr_value, type_values
from placesim.ops.definitions import ArgDef, AttrDef, KernelDef, OpDef


class Registry:
    """The ops and kernels of one release.

    `ops` and `kernels` map an op's name to decoded JSON of the data file, or to records (as in tests). `release` is the
    release's version, and `rules` describes its behaviour.
    """

    def __init__(self, release: str, ops: Mapping[str, Any], kernels: Mapping[str, Any], rules: Release = CURRENT) -> None:
        self.release = release
        self.rules = rules
        self._op_facts = ops
        self._kernel_facts = kernels
        self._ops: dict[str, OpDef] = {}
        self._kernels: dict[str, tuple[KernelDef, ...]] = {}
        self._deciding: dict[str, tuple[str, ...]] = {}

    def under(self, rules: Release) -> Registry:
        """Return a registry with the same ops and kernels and other rules."""
        return Registry(self.release, self._op_facts, self._kernel_facts, rules)

    def with_ops(self, ops: Mapping[str, OpDef], kernels: Mapping[str, tuple[KernelDef, ...]]) -> Registry:
        """Return a registry with further ops. They are looked up on demand, so both mappings may still grow."""
        more: tuple[Any, Any] = (ChainMap(ops, self._op_facts), ChainMap(kernels, self._kernel_facts))  # type: ignore[arg-type]
        return Registry(self.release, *more, self.rules)

    @property
    def op_names(self) -> tuple[str, ...]:
        return tuple(self._op_facts)

    def op(self, name: str) -> OpDef | None:
        """Return the definition of an op, or None if the release lacks it."""
        found = self._ops.get(name)
        if found is None and name in self._op_facts:
            facts = self._op_facts[name]
            found = self._ops[name] = facts if isinstance(facts, OpDef) else decode_op(name, facts)
        return found

    def kernels(self, op: str) -> tuple[KernelDef, ...]:
        """Return the registrations of an op, in TensorFlow's order."""
        found = self._kernels.get(op)
        if found is None:
            rows = self._kernel_facts.get(op, ())
            found = tuple(row if isinstance(row, KernelDef) else decode_kernel(op, row) for row in rows)
            self._kernels[op] = found
        return found

    def deciding_attrs(self, op: str) -> tuple[str, ...]:
        """Return the names of the attrs that determine the types and kernels of an op's nodes."""
        found = self._deciding.get(op)
        if found is None:
            names = dict.fromkeys(("_kernel", "_input_hostmem", "_output_hostmem"))
            definition = self.op(op)
            if definition is None:
                return tuple(names)
            for arg in (*definition.inputs, *definition.outputs):
                names |= dict.fromkeys(n for n in (arg.type_attr, arg.number_attr, arg.type_list_attr) if n)
            for kernel in self.kernels(op):
                names |= dict.fromkeys(kernel.constraint)
            found = self._deciding[op] = tuple(names)
        return found

    def has_kernels(self, op: str) -> bool:
        """Whether TensorFlow has a kernel for an op; decodes nothing."""
        return bool(self._kernel_facts.get(op))


def decode_op(name: str, facts: Mapping[str, Any]) -> OpDef:
    """Return the definition in the data file's JSON; its keys other than inputs, outputs and attrs are fields of `OpDef`."""
    inputs, outputs = (tuple(map(_decode_arg, facts[side])) for side in ("inputs", "outputs"))
    attrs = {attr["name"]: _decode_attr(attr) for attr in facts["attrs"]}
    fields = {key: value for key, value in facts.items() if key not in ("inputs", "outputs", "attrs")}
    return OpDef(name, inputs, outputs, attrs, **fields)


def _decode_arg(facts: Mapping[str, Any]) -> ArgDef:
    fields = {key: value for key, value in facts.items() if key != "type"}
    return ArgDef(dtype=parse_dtype(facts["type"]) if "type" in facts else None, **fields)


def _decode_attr(facts: Mapping[str, Any]) -> AttrDef:
    return AttrDef(
        facts["name"],
        facts["type"],
        decode_attr_value(facts["default"], facts["type"]) if "default" in facts else None,
        "default" in facts,
        tuple(decode_attr_value(value, facts["type"].removeprefix("list(").removesuffix(")")) for value in facts["allowed"])
        if "allowed" in facts
        else None,
        facts.get("minimum"),
    )


def decode_kernel(op: str, facts: Mapping[str, Any]) -> KernelDef:
    """Return the registration in the data file's JSON."""
    return KernelDef(
        op,
        facts["device"],
        {attr: type_values(allowed) for attr, allowed in facts.get("constraint", {}).items()},
        tuple(facts.get("host_memory", ())),
        facts.get("priority", 0),
        facts.get("label", ""),
    )


@cache
def load_registry(release: str = CURRENT.name) -> Registry:
    """Return the registry of a release that the package contains. Raises KeyError for any other."""
    rules = RELEASES[release]
    table = pkgutil.get_data(__package__, f"tensorflow-{release}.json.gz") or b""
    head, *lines = zlib.decompress(table, zlib.MAX_WBITS | 16).decode().splitlines()  # 16: gzip's header
    by_op = {line[2 : line.index('"', 2)]: line for line in lines}
    return Registry(json.loads(head)["tensorflow"], _Facts(by_op, 1), _Facts(by_op, 2), rules)


def describe_other_releases(op: str, registry: Registry) -> str:
    """Return a text about an op that another release has, for the end of an error; empty if none has it."""
    others = [r for r in RELEASES.values() if r is not registry.rules and load_registry(r.name).op(op) is not None]
    return "".join(f"; TensorFlow {release.name} has it (--tensorflow {release.name})" for release in others)


class _Facts(Mapping[str, Any]):
    """One part of each op's line `["NAME", op, [kernel, ...]]`, decoded on demand."""

    def __init__(self, lines: Mapping[str, str], part: int) -> None:
        self._lines = lines
        self._part = part

    def __getitem__(self, op: str) -> Any:
        return json.loads(self._lines[op])[self._part]

    def __contains__(self, op: object) -> bool:
        return op in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)
