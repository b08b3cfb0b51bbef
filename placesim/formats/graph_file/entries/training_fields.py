"""Readers of `gradients` and `train` entries, which return checked tensors, variables, numbers and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from placesim.core.suggestions import SIMILAR_AMONG_FEW, did_you_mean
from placesim.formats.graph_file.entries.control_flow_entries import OuterTensor, OuterVariable
from placesim.formats.graph_file.entries.references import References
from placesim.formats.graph_file.entries.scoped_names import Derivative, ScopedNames, UnresolvedName
from placesim.formats.graph_file.plain_values import bool_value, figure_value, number_value, text_value
from placesim.formats.problems import WRONG, InvalidValue, own_position, spell, value_position
from placesim.graph.argument_binding import Operand, VariableNodes
from placesim.graph.graph import TensorRef

AGGREGATION = {"add_n": 0, "tree": 1, "accumulate_n": 2}
GATES = {"none": 0, "op": 1, "graph": 2}
UNCONNECTED = {"none": "none", "zero": "zero"}
"""Words of options, and their values for TensorFlow's functions."""
Optimizer = tuple[str, Mapping[str, Any]]
"""The name of an optimizer, and its parameters."""


class OptimizerParameter(Protocol):
    """Protocol of an optimizer's parameter, of the kind `figure`, `tensor` (or a figure), `flag`, `text` or `variable`."""

    kind: str
    is_required: bool


class GradientMaker(Protocol):
    """Protocol of a maker of gradient and training nodes. Methods that add nodes raise GraphBuildError."""

    def derive(
        self, of: Sequence[Any], by: Sequence[Any] | None, options: Mapping[str, Any], position: int
    ) -> list[tuple[Any, TensorRef | None]]:
        """Return pairs: a source in `by` (None: all trainable variables), and the gradient of `of` by this source, or None."""

    def rows(self, gradient: TensorRef) -> TensorRef | None:
        """Return the indices of the rows of a sparse gradient; None if the gradient is one tensor."""

    def parameters(self, kind: str) -> Mapping[str, OptimizerParameter] | None:
        """Return the parameters of the optimizer of this name; None if there is no such optimizer."""

    def kinds(self) -> Sequence[str]:
        """Return the names of the optimizers."""

    def minimize(self, loss: Any, optimizer: Optimizer, options: Mapping[str, Any], position: int) -> int:
        """Return the node that makes one step to minimize a loss."""

    def apply(
        self,
        pairs: Sequence[tuple[Sequence[TensorRef], Any]],
        optimizer: Optimizer,
        options: Mapping[str, Any],
        position: int,
    ) -> int:
        """Return the node that applies gradients to variables; for several gradients of a variable, it applies their mean."""


class TrainingReader:
    """A reader of the mapping under `gradients` or `train`. `is_wrong` says whether it has reported a problem."""

    def __init__(self, names: ScopedNames, references: References, tree: dict[Any, Any], what: str) -> None:
        self._builder = references.builder
        self._problems = references.problems
        self._names = names
        self._references = references
        self._tree = tree
        self._what = what
        self.is_wrong = False

    def report(self, tree: Any, key: Any, message: str) -> None:
        """Report a problem at the value of a key."""
        self._problems.add(value_position(tree, key) if key in tree else own_position(tree), message)
        self.is_wrong = True

    def check_keys(self, known: Sequence[str]) -> None:
        """Report unknown keys."""
        self.is_wrong |= self._problems.unknown_keys(self._tree, known, self._what)

    def own_text(self, entry: dict[Any, Any], key: str) -> str | None:
        """Return the `id` or `name` of an entry; None if it is missing or not a text."""
        found = self._problems.read(entry, key, lambda value: text_value(value, f"'{key}'"), None)
        if found is WRONG:
            self.is_wrong = True
            return None
        return found or None

    # --- references -------------------------------------------------------------------------------------------------

    def references(self, key: str, is_required: bool = False) -> list[Any]:
        """Return the tensors and variables that the text or list under a key names."""
        tree = self._tree
        if key not in tree:
            if is_required:
                known, wanted = ("'minimize' or 'apply'", "one of them") if key == "minimize" else (f"'{key}'", "it")
                self.report(tree, key, f"no {known} in {self._what}: got no such key, expected {wanted}")
            return []
        if isinstance(tree[key], str):
            return self._found(tree, key)
        listed = self._problems.sequence_at(tree, key)
        self.is_wrong |= not isinstance(tree[key], list | tuple)
        return [item for index in range(len(listed)) for item in self._found(listed, index)]

    def _found(self, tree: Any, index: Any) -> list[Any]:
        text = tree[index]
        if not isinstance(text, str) or text[:1] == "^":
            position = value_position(tree, index)
            self._problems.add(position, f"wrong type of a reference: got {spell(text)}, expected the name or id of a tensor")
            self.is_wrong = True
            return []
        waits: list[UnresolvedName] = []
        items = self._references.tensors(tree, index, text, None, waits)
        if waits or any(item is WRONG for item in items):
            self.is_wrong = True
            return []
        return [TensorRef(item.node, item.slot) if isinstance(item, Operand) else item for item in items]

    def derived_by(self) -> tuple[list[Any] | None, list[str]]:
        """Return the sources in `with_respect_to` (None: all trainable variables), and the ids of the sources' gradients."""
        tree = self._tree.get("with_respect_to")
        if "with_respect_to" not in self._tree:
            return None, []
        if not isinstance(tree, dict):
            return self.references("with_respect_to"), []
        found = []
        for name in tree:
            items = self._found(tree, name)
            if not isinstance(name, str) or not name:
                self.report(tree, name, f"wrong type of an id: got {spell(name)}, expected a string")
            elif len(items) > 1:
                self.report(tree, name, f"several tensors for one id: got {len(items)}, expected 1")
            found += items[:1]
        return found, [name for name in tree if isinstance(name, str)]

    def position_of_target(self, index: int) -> int:
        """Return the position of the source with this index in `with_respect_to`."""
        tree = self._tree["with_respect_to"]
        if isinstance(tree, dict):
            return value_position(tree, list(tree)[index])
        if isinstance(tree, list | tuple):
            for place, text in enumerate(tree):
                index -= len(self._found(tree, place)) if isinstance(text, str) else 0
                if index < 0:
                    return value_position(tree, place)
        return value_position(self._tree, "with_respect_to")

    def pairs(self) -> list[tuple[list[TensorRef], Any]]:
        """Return the pairs of `apply`: the gradients of each variable, and the variable."""
        tree = self._tree["apply"]
        if isinstance(tree, dict):
            return self._written_pairs(tree)
        texts = [tree] if isinstance(tree, str) else tree
        if not isinstance(texts, list | tuple):
            message = f"wrong type of 'apply': got {spell(tree)}, expected ids of gradients, or a mapping"
            self.report(self._tree, "apply", message)
            return []
        by_source: dict[Any, list[TensorRef]] = {}
        for index, text in enumerate(texts):
            found = self._names.resolve(text) if isinstance(text, str) else None
            if found is None or not all(isinstance(target, Derivative) for target in found):
                place, key = (self._tree, "apply") if isinstance(tree, str) else (tree, index)
                if found is None or None not in found:
                    expected = "expected the id of an entry 'gradients', or {VARIABLE: GRADIENT}"
                    self._problems.add(value_position(place, key), f"not gradients: got {spell(text)}, {expected}")
                self.is_wrong = True
                continue
            for target in found:
                if isinstance(target, Derivative):
                    by_source.setdefault(target.source, []).append(TensorRef(int(target), target.slot))
        pairs = [(refs, self._variable_of(source), source) for source, refs in by_source.items()]
        for _, variable, source in pairs:
            if variable is None:
                outer = isinstance(source, OuterTensor)
                builder, node = (source.functions.builder, source.tensor.node) if outer else (self._builder, source)
                name = builder.graph.nodes[node].name
                self.report(self._tree, "apply", f"gradient of a non-variable: got '{name}', expected only variables")
        return [(refs, variable) for refs, variable, _ in pairs if variable is not None]

    def _variable_of(self, source: Any) -> VariableNodes | OuterVariable | None:
        """Return the variable that is this source of derivatives; None if the source is not a variable."""
        return self._builder.variables.get(source) if isinstance(source, int) else source if _is_variable(source) else None

    def _variable_named(self, name: Any) -> VariableNodes | OuterVariable | None:
        """Return the variable of this or an enclosing graph with this name; None if there is none."""
        if not isinstance(name, str):
            return None
        node, outside = self._names.resolve_one(name), self._references.outside
        if node is None and outside is not None and self._names.resolve(name) is None:
            found = outside.items(name, None) or []
            return found[0] if len(found) == 1 and _is_variable(found[0]) else None
        return None if node is None else self._builder.variables.get(node)

    def _written_pairs(self, tree: dict[Any, Any]) -> list[tuple[list[TensorRef], Any]]:
        pairs = []
        for name, value in tree.items():
            variable = self._variable_named(name)
            holder, keys = (value, range(len(value))) if isinstance(value, list | tuple) else (tree, [name])
            refs = [item for key in keys for item in self._found(holder, key)]
            if variable is None:
                self.report(tree, name, f"not a variable: got {spell(name)}, expected {{VARIABLE: GRADIENT}}")
            elif any(map(_is_variable, refs)) or not refs:
                self.report(tree, name, f"not a gradient: got {spell(value)}, expected a tensor")
            else:
                pairs.append((refs, variable))
        return pairs

    # --- options ----------------------------------------------------------------------------------------------------

    def options(self, known: Mapping[str, Callable[[TrainingReader, str], Any]]) -> dict[str, Any]:
        """Return the values of the given options, by the names of TensorFlow's arguments."""
        return {_ARGUMENTS.get(key, key): read(self, key) for key, read in known.items() if key in self._tree}

    def flag(self, key: str) -> Any:
        return self._read(key, lambda value: bool_value(value, f"'{key}'"))

    def _read(self, key: str, read: Callable[[Any], Any], tree: Any = None) -> Any:
        found = self._problems.read(self._tree if tree is None else tree, key, read, None)
        self.is_wrong |= found is WRONG
        return found

    def word(self, key: str, words: Mapping[str, Any]) -> Any:
        """Return the value of one of several keywords."""

        def value_of(value: Any) -> Any:
            if isinstance(value, str) and value in words:
                return words[value]
            near = did_you_mean(value, words, SIMILAR_AMONG_FEW)
            raise InvalidValue(f"unknown '{key}': got {spell(value)}, expected {' or '.join(words)}{near}")

        return self._read(key, value_of)

    def one(self, key: str, tree: Any = None) -> Any:
        """Return the tensor or variable under a key; None if it is invalid. Report a text that names several tensors."""
        tree = self._tree if tree is None else tree
        found = self._found(tree, key)
        if len(found) > 1:
            self.report(tree, key, f"more than one tensor: got {spell(tree[key])}, expected 1")
        return found[0] if found else None

    def variable(self, key: str, tree: Any = None) -> Any:
        """Return the variable under a key; None if it is invalid. Report a tensor that is no variable."""
        found = self.one(key, tree)
        if found is not None and not _is_variable(found):
            tree = self._tree if tree is None else tree
            self.report(tree, key, f"not a variable: got {spell(tree[key])}, expected the name of an entry 'variable'")
        return found

    def variables(self, key: str) -> list[Any]:
        """Return the variables under a key. Report tensors that are no variables."""
        found = self.references(key)
        if not all(map(_is_variable, found)):
            self.report(self._tree, key, "not a variable: got another tensor among them, expected names of entries 'variable'")
        return found

    # --- the optimizer ----------------------------------------------------------------------------------------------

    def optimizer(self, training: GradientMaker) -> Optimizer | None:
        """Return the name and parameters of the optimizer, `NAME` or `{NAME: {KEY: VALUE}}`; None if it is invalid."""
        tree = self._tree
        if "optimizer" not in tree:
            self.report(tree, "optimizer", f"no optimizer in {self._what}: got no key 'optimizer', expected it")
            return None
        given = tree["optimizer"]
        if isinstance(given, str):
            place, where, kind = tree, "optimizer", given
            fields: Any = None
        elif isinstance(given, dict) and len(given) == 1 and isinstance(next(iter(given)), str):
            ((kind, fields),) = given.items()
            place, where = given, kind
        else:
            self.report(tree, "optimizer", f"wrong type of 'optimizer': got {spell(given)}, expected {{NAME: {{KEY: VALUE}}}}")
            return None
        kind = kind.removesuffix("Optimizer")
        parameters = training.parameters(kind)
        if parameters is None:
            near = did_you_mean(kind, training.kinds(), SIMILAR_AMONG_FEW)
            message = f"unknown optimizer: got {spell(kind)}, expected {', '.join(training.kinds())}{near}"
            self._problems.add(own_position(place) if where == kind else value_position(place, where), message)
            self.is_wrong = True
            return None
        if fields is None:
            fields = {}
        if not isinstance(fields, dict):
            message = f"wrong type of '{kind}': got {spell(fields)}, expected a mapping of {', '.join(parameters)}"
            self.report(place, where, message)
            return None
        self.is_wrong |= self._problems.unknown_keys(fields, parameters, f"'{kind}'")
        for key, parameter in parameters.items():
            if parameter.is_required and key not in fields:
                self._problems.add(value_position(place, where), f"no '{key}' of '{kind}': got nothing, expected it")
                self.is_wrong = True
        return kind, {key: self._figure(fields, key, parameters[key].kind) for key in fields if key in parameters}

    def _figure(self, fields: dict[Any, Any], key: str, kind: str) -> Any:
        if kind == "variable":
            return self.variable(key, fields)
        if kind == "tensor" and isinstance(fields[key], str):
            return self.one(key, fields)
        return self._read(key, lambda value: _VALUES[kind](value, f"'{key}'"), fields)


def _is_variable(item: Any) -> bool:
    return isinstance(item, VariableNodes | OuterVariable)


def source_of(item: Any) -> Any:
    """Return a hashable key of a source of derivatives: the id of its node, or the source itself outside of the body."""
    return item if isinstance(item, OuterTensor | OuterVariable) else item.node


_VALUES: dict[str, Callable[[Any, str], Any]] = {
    "flag": bool_value,
    "text": text_value,
    "figure": number_value,
    "tensor": figure_value,
}
GRADIENT_OPTIONS: dict[str, Callable[[TrainingReader, str], Any]] = {
    "grad_ys": TrainingReader.references,
    "stop_gradients": TrainingReader.references,
    "colocate_gradients_with_ops": TrainingReader.flag,
    "gate_gradients": TrainingReader.flag,
    "aggregation_method": lambda reader, key: reader.word(key, AGGREGATION),
    "unconnected_gradients": lambda reader, key: reader.word(key, UNCONNECTED),
}
"""Optional arguments of `tf.gradients`."""
APPLY_OPTIONS: dict[str, Callable[[TrainingReader, str], Any]] = {"global_step": TrainingReader.variable}
MINIMIZE_OPTIONS: dict[str, Callable[[TrainingReader, str], Any]] = {
    "variables": TrainingReader.variables,
    "global_step": TrainingReader.variable,
    "grad_loss": TrainingReader.one,
    "colocate_gradients_with_ops": TrainingReader.flag,
    "gate_gradients": lambda reader, key: reader.word(key, GATES),
    "aggregation_method": lambda reader, key: reader.word(key, AGGREGATION),
}
"""Optional arguments of `tf.train.Optimizer.minimize`."""
_ARGUMENTS = {"variables": "var_list"}
"""Arguments that have another name in TensorFlow."""
