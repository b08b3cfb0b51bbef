"""Initial values that read other variables."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.tensor import Operation, Tensor

_LEFT_ALONE = ("IsVariableInitialized", "VarIsInitializedOp", "ReadVariableOp", "If")
_HOLDERS = ("Variable", "VariableV2", "VarHandleOp")


def guarded(value: Tensor, variable_name: str) -> Any:
    """Copy of an initial value that can be computed before the reference variables that it reads are initialized.

    The copy reads their `initialized_value`.  Each op between them and the value is copied, with the name `OP_VARIABLE`.
    """
    return _Guard(variable_name).tensor(value) if not _is_cyclic(value) else value


class _Guard:
    def __init__(self, variable_name: str) -> None:
        self.suffix = "_" + variable_name
        self.made: dict[str, Any] = {}

    def tensor(self, value: Tensor) -> Any:
        op = value.op
        if op.name not in self.made:
            self.made[op.name] = self._op(op)
        return self.made[op.name].outputs[value.value_index]

    def _op(self, op: Any) -> Any:
        if op.type in _LEFT_ALONE:
            return op
        if op.type in _HOLDERS:
            return self._initialized(op)
        inputs = [self.tensor(item) for item in op.inputs]
        if all(new is old for new, old in zip(inputs, op.inputs, strict=True)):
            return op
        kind = "Switch" if op.type == "RefSwitch" else op.type
        name = (op.name + self.suffix).replace(":", "_")
        return op.graph.create_op(kind, inputs, name=name, attrs=dict(op.node.attrs))

    def _initialized(self, op: Any) -> Any:
        for collection in ("variables", "local_variables"):
            for variable in op.graph.get_collection(collection):
                if getattr(variable, "name", None) in (op.name, op.name + ":0"):
                    return variable.initialized_value().op
        return op


def _is_cyclic(value: Tensor) -> bool:
    """Whether the ancestors of a value have a cycle, as those in a loop do."""
    done, path = set(), {value.op.name}
    stack = [(value.op, iter(_sources(value.op)))]
    while stack:
        op, sources = stack[-1]
        for source in sources:
            if source.name in path:
                return True
            if source.name not in done:
                path.add(source.name)
                stack.append((source, iter(_sources(source))))
                break
        else:
            stack.pop()
            path.discard(op.name)
            done.add(op.name)
    return False


def _sources(op: Operation) -> list[Any]:
    return [*(item.op for item in op.inputs), *op.control_inputs]
