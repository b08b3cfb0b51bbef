"""Readers of the entries `gradients` and `train`, which expand to several nodes.

`node_makers` provides the maker of these nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from placesim.core.errors import GraphBuildError
from placesim.formats.graph_file.entries.control_flow_entries import COMMON_KEYS
from placesim.formats.graph_file.entries.node_makers import make_training
from placesim.formats.graph_file.entries.references import EntryContext
from placesim.formats.graph_file.entries.scope_entries import ScopeEntries
from placesim.formats.graph_file.entries.scoped_names import Derivative, EntryBreak
from placesim.formats.graph_file.entries.training_fields import (
    APPLY_OPTIONS,
    GRADIENT_OPTIONS,
    MINIMIZE_OPTIONS,
    GradientMaker,
    TrainingReader,
    source_of,
)
from placesim.formats.problems import own_position, spell, value_position
from placesim.graph.argument_binding import VariableNodes
from placesim.graph.graph import TensorRef

GRADIENTS_KEYS = ("gradients", *COMMON_KEYS)
TRAIN_KEYS = ("train", *COMMON_KEYS)


class TrainingEntries:
    """A reader of `gradients` and `train` entries. `finish` warns about uninitialized variables."""

    def __init__(self, context: EntryContext, scopes: ScopeEntries) -> None:
        self._builder, self._problems, self._names, self._references = context
        self._scopes = scopes
        self._made: GradientMaker | None = None
        self._has_initializer = False
        self._uninitialized: dict[int, list[int]] = {}

    @property
    def _training(self) -> GradientMaker:
        if self._made is None:
            self._made = cast("GradientMaker", make_training(self._builder))
        return self._made

    def note_initializer(self) -> None:
        """Record an initializer, which initializes every variable above it."""
        self._has_initializer = True
        self._uninitialized.clear()

    def finish(self) -> None:
        """Warn about optimizers that created variables after the entry `initializer`."""
        for position, variables in self._uninitialized.items():
            names = ", ".join(self._builder.graph.nodes[node].name for node in variables[:3])
            more = f" and {len(variables) - 3} more" if len(variables) > 3 else ""
            message = f"variables without an initializer: got {names}{more}, expected the entry 'initializer' below this one"
            self._problems.doubt(position, message)
        self._uninitialized.clear()

    # --- gradients --------------------------------------------------------------------------------------------------

    def take_gradients(self, entry: dict[Any, Any]) -> list[TensorRef]:
        """Read an entry with `gradients` and return the gradients. Raises EntryBreak after reporting all problems."""
        self._problems.unknown_keys(entry, GRADIENTS_KEYS, "an entry of gradients")
        position = own_position(entry)
        tree = self._problems.mapping_at(entry, "gradients")
        reader = TrainingReader(self._names, self._references, tree, "'gradients'")
        of = reader.references("of", is_required=True)
        by, ids = reader.derived_by()
        options = reader.options(GRADIENT_OPTIONS)
        reader.check_keys(("of", "with_respect_to", *GRADIENT_OPTIONS))
        name = reader.own_text(entry, "name")
        own_id = reader.own_text(entry, "id")
        if name is not None:
            options["name"] = name
        if reader.is_wrong:
            self._refuse(entry, [own_id, *ids])
        try:
            with self._scopes.entered(entry):
                found = self._training.derive(of, by, options, position)
        except GraphBuildError as error:
            self._problems.add_error(value_position(tree, "of"), error)
            self._refuse(entry, [own_id, *ids])
        if by is not None:
            for index, (item, gradient) in enumerate(found):
                if gradient is None:
                    what = spell(_texts(tree["of"]))
                    self._problems.add(
                        reader.position_of_target(index),
                        f"no gradient: got {self._called(item)}, and {what} does not depend on it through differentiable ops, "
                        "expected a variable or tensor it depends on, or 'unconnected_gradients: zero'",
                    )
                    self._refuse(entry, [own_id, *ids])
        there = [(item, ref) for item, ref in found if ref is not None]
        self._bind(own_id, ids, there)
        return [ref for _, ref in there]

    def _called(self, item: Any) -> str:
        """Return the name and type of a tensor or variable, for messages about a missing gradient."""
        dtype = item.dtype if isinstance(item, VariableNodes) else self._builder.operand(item.node, item.slot).dtype
        return f"'{self._builder.graph.nodes[item.node].name}' of {dtype.python_name}"

    def _bind(self, own_id: str | None, ids: Sequence[str], found: list[tuple[Any, TensorRef]]) -> None:
        targets = [Derivative(ref.node, ref.slot, source_of(item)) for item, ref in found]
        if own_id is not None:
            self._names.bind(own_id, tuple(targets))
        for name, target, (_, ref) in zip(ids, targets, found, strict=False):
            self._names.bind(name, (target,))
            rows = self._training.rows(ref)
            if rows is not None:
                self._names.bind(f"{name}.indices", (Derivative(rows.node, rows.slot, target.source),))

    def _refuse(self, entry: dict[Any, Any], ids: Sequence[str | None]) -> NoReturn:
        """Raise EntryBreak for an invalid entry with these ids, whose uses are then not reported too."""
        for name in ids:
            if name is not None:
                self._names.mark_broken({"id": name}, self._builder.prefix + name, own_position(entry))
        raise EntryBreak

    # --- training ---------------------------------------------------------------------------------------------------

    def take_train(self, entry: dict[Any, Any]) -> int:
        """Read an entry with `train`, and return its node. Raises EntryBreak after reporting all problems."""
        self._problems.unknown_keys(entry, TRAIN_KEYS, "an entry of training")
        position = own_position(entry)
        tree = self._problems.mapping_at(entry, "train")
        reader = TrainingReader(self._names, self._references, tree, "'train'")
        optimizer = reader.optimizer(self._training)
        applies = "apply" in tree
        if applies and "minimize" in tree:
            reader.report(tree, "minimize", "conflicting keys: got 'minimize' and 'apply', expected one of them")
        pairs = reader.pairs() if applies else []
        loss = None if applies else reader.references("minimize", is_required=True)
        if loss is not None and len(loss) != 1 and not reader.is_wrong:
            reader.report(tree, "minimize", f"wrong number of losses: got {len(loss)}, expected 1")
        known = APPLY_OPTIONS if applies else MINIMIZE_OPTIONS
        options = reader.options(known)
        reader.check_keys(("apply" if applies else "minimize", "optimizer", *known))
        name, own_id = reader.own_text(entry, "name"), reader.own_text(entry, "id")
        if name is not None:
            options["name"] = name
        if reader.is_wrong or optimizer is None:
            self._refuse(entry, [name, own_id])
        variables = len(self._builder.variables)
        try:
            with self._scopes.entered(entry):
                if loss is None:
                    node = self._training.apply(pairs, optimizer, options, position)
                else:
                    node = self._training.minimize(loss[0], optimizer, options, position)
        except GraphBuildError as error:
            self._problems.add_error(value_position(tree, "apply" if applies else "minimize"), error)
            self._refuse(entry, [name, own_id])
        made = list(self._builder.variables)[variables:]
        if made and self._has_initializer:
            self._uninitialized[position] = made
        if name is not None and self._builder.graph.nodes[node].name != self._builder.prefix + name:
            self._names.check_claim(entry, self._builder.prefix + name, position)
        self._names.mark_named(node)
        self._names.bind_entry(entry, name, node)
        return node


def _texts(tree: Any) -> str:
    return ", ".join(map(str, tree)) if isinstance(tree, list | tuple) else str(tree)
