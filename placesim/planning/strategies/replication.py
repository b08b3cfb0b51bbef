"""Copies of a training graph's forward and backward pass, each for its part of the batch, and the combination of their results.

A copy is a replica on its own GPU (`tower_0/...`), or a micro-batch that runs after the one before (`micro_batch_0/...`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from placesim.core.dtypes import DataType
from placesim.core.errors import UsageError
from placesim.graph.graph import Graph, Node, NodeDef, TensorRef, split_tensor_name
from placesim.graph.session_steps import Fetch, GraphFile, GraphStep
from placesim.machine.device_names import DeviceName, format_spec, parse_runtime_name
from placesim.machine.inventory import TaskInventory
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.categories import CONSTANTS, ENTERS, LOOPS, VARIABLES
from placesim.ops.kernel_lookup import find_kernel
from placesim.ops.kernels.shapes import is_fully_defined
from placesim.planning.strategies.batch_dependence import BatchDependence, Dependence
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.gradient_reduction import REDUCTIONS, Gradients, Reduction
from placesim.planning.strategies.mirrored_variables import MirroredVariables
from placesim.planning.strategies.node_writer import CPU, NodeWriter, gpu, with_labels
from placesim.planning.strategies.training_graph import MAX_NAMED, TrainingGraph, find_origin, find_written_variable


class Part(NamedTuple):
    """A copy of the replicated nodes, for part `number` of the batch: micro-batch `micro_batch` of a replica."""

    number: int
    replica: int
    micro_batch: int
    scope: str


@dataclass(frozen=True, slots=True)
class Replication:
    """Number of replicas, each on its GPU, and of micro-batches that each replica computes one after another.

    `reduction` is a name of `REDUCTIONS`. With `is_mirrored`, each replica has its own variables, which the same gradients
    update; otherwise the replicas share the variables on the CPU.
    """

    replicas: int = 1
    micro_batches: int = 1
    reduction: str = "cpu"
    is_mirrored: bool = False

    def parts(self) -> tuple[Part, ...]:
        """Return the copies, with the micro-batches of a replica together."""
        found: list[Part] = []
        for replica in range(self.replicas):
            for micro_batch in range(self.micro_batches):
                scopes = [f"tower_{replica}"] * (self.replicas > 1) + [f"micro_batch_{micro_batch}"] * (self.micro_batches > 1)
                found.append(Part(len(found), replica, micro_batch, "/".join(scopes)))
        return tuple(found)


class ReplicatedGraph:
    """The rewritten file, and notes about results that differ from the whole batch's. Raises UsageError if it is impossible."""

    def __init__(self, file: GraphFile, training: TrainingGraph, replication: Replication) -> None:
        self._file = file
        self._graph = training.graph
        self._training = training
        self._replication = replication
        self._parts = replication.parts()
        self._shapes = BatchShapes(training, len(self._parts))
        self._dependence = BatchDependence(self._shapes)
        self._loss_dependence = self._dependence.of_loss()
        self._order = self._graph.runtime_order()
        self._region = frozenset((*training.forward, *training.backward))
        self._backward = frozenset(training.backward)
        self._after = self._find_after()
        self._gradients = self._find_gradients()
        self._updates = frozenset(update.node for update in training.updates)
        # a copy would wait for nodes that wait for all copies, such as moving averages of statistics: the updates wait instead
        waited = (
            source for i in sorted(self._region) for source in self._graph.nodes[i].control_inputs if source in self._after
        )
        self._awaited = tuple(dict.fromkeys(self._graph.nodes[source].name for source in waited))
        self._scaled: dict[tuple[TensorRef, int], str] = {}
        self._sums: dict[tuple[TensorRef, int], str] = {}
        self._shards: dict[TensorRef, list[str]] = {}
        self._combined: dict[TensorRef, Sequence[str]] = {}
        self._gradient_names = {
            ref: self._graph.nodes[update.variable].name
            for update in training.updates
            for ref in (update.gradients if len(update.gradients) == 1 else ())
        }
        is_mirrored = replication.replicas > 1 and replication.is_mirrored
        self._mirrored = MirroredVariables(training if is_mirrored else None)
        self._on_cpu = self._find_cpu_nodes() if replication.replicas > 1 and not is_mirrored else frozenset()
        self._check()
        kept = (node.name for node in self._graph.nodes if node.id not in self._region)
        self._writer = NodeWriter(kept)

    @property
    def batch_size(self) -> int | None:
        """Return the number of examples in the batch; None if the graph leaves it unknown."""
        return self._shapes.batch_size

    @property
    def is_mean(self) -> bool:
        """Return whether the loss is a mean over the batch; else it is a sum."""
        return self._loss_dependence is Dependence.MEAN

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences about results that depend on the partition of the batch."""
        found = []
        if self._dependence.local_statistics:
            found.append(f"statistics of a part of the batch, not of the whole: {_listed(self._dependence.local_statistics)}")
        random = [self._graph.nodes[i] for i in self._training.forward if _is_random(self._graph.nodes[i])]
        if random:
            found.append(f"other random numbers in each part: {_listed(random)}")
        return tuple(found)

    def _check(self) -> None:
        for number in self._training.forward:
            node = self._graph.nodes[number]
            if node.op in (*ENTERS, *LOOPS):
                raise UsageError(f"no copies of loops: got {node.name} ({node.op}), expected a loss without a dynamic loop")
        if any(step.nodes for step in self._file.steps or ()):
            raise UsageError("no copies of a growing graph: got steps that add nodes, expected one graph for all steps")

    # --- parts of the graph -----------------------------------------------------------------------------------------

    def _find_after(self) -> frozenset[int]:
        """Return the nodes outside of the copies that depend on them."""
        found: set[int] = set()
        reached = set(self._region)
        for number in self._order:
            node = self._graph.nodes[number]
            if number not in reached and not reached.isdisjoint((*node.input_nodes, *node.control_inputs)):
                found.add(number)
                reached.add(number)
        return frozenset(found)

    def _find_cpu_nodes(self) -> frozenset[int]:
        """Return the variables, and the nodes between gradients and updates, which the replicas share on the CPU."""
        nodes = self._graph.nodes
        found = {node.id for node in nodes if find_origin(self._graph, node.id).op in VARIABLES}
        found |= {node.id for node in nodes if find_written_variable(self._graph, node) is not None}
        waiting = [update.node for update in self._training.updates]
        while waiting:
            number = waiting.pop()
            if number in self._after and number not in found:
                found.add(number)
                waiting += nodes[number].input_nodes
        found.update(update.node for update in self._training.updates)
        return frozenset(found)

    # --- writing ----------------------------------------------------------------------------------------------------

    def file(self) -> GraphFile:
        """Return the rewritten file."""
        nodes = [self._graph.nodes[number] for number in self._order]
        before = [node for node in nodes if node.id not in self._region and node.id not in self._after]
        waiting = self._find_waiting(before)
        for replica in range(self._replication.replicas):
            for node in before:
                if node.id in self._mirrored or not (replica or node.id in waiting):
                    self._keep(node, replica)
        for node in before:
            if node.id in waiting:
                self._keep(node)
        self._split_batch()
        for part in self._parts:
            for node in nodes:
                if node.id in self._region:
                    self._copy(node, part)
            if self._replication.micro_batches > 1:
                self._accumulate(part)
        for node in nodes:
            for replica in range(self._replication.replicas if node.id in self._mirrored else 1):
                if node.id in self._after:
                    self._keep(node, replica)
        self._combine(self._training.loss)  # a GraphDef does not say whether it is fetched
        steps = None if self._file.steps is None else tuple(map(self._step, self._file.steps))
        each = None if self._file.each_step is None else tuple(map(self._step, self._file.each_step))
        return replace(
            self._file, graph=self._new_graph(), steps=steps, each_step=each, inventory=self._inventory(), as_read=None
        )

    def _find_waiting(self, nodes: Sequence[Node]) -> frozenset[int]:
        """Return the nodes, such as an initializer, that need a mirrored node but are not mirrored."""
        found: set[int] = set()
        for node in nodes:
            needed = (*node.input_nodes, *node.control_inputs)
            if node.id not in self._mirrored and any(i in self._mirrored or i in found for i in needed):
                found.add(node.id)
        return frozenset(found)

    def _keep(self, node: Node, replica: int = 0) -> None:
        """Write a node that is no part of the copies, or a replica's own one if it is mirrored."""
        inputs = [self._kept_input(ref, replica) for ref in node.inputs]
        controls = dict.fromkeys(self._controls(node, self._parts, replica))
        if node.id in self._updates:
            controls |= dict.fromkeys(f"^{name}" for name in self._awaited)
        device = node.device or (CPU if node.id in self._on_cpu else "")
        if node.id in self._mirrored:
            device = self._device(node, replica)
        name, attrs = self._mirrored.name(node, replica), self._kept_attrs(node, replica)
        self._writer.nodes.append(NodeDef(name, node.op, (*inputs, *sorted(controls)), device, attrs, node.location))

    def _kept_attrs(self, node: Node, replica: int) -> Attrs:
        def holder_name(holder: Node) -> str | None:
            return None if holder.id in self._region else self._mirrored.name(holder, replica)

        attrs = with_labels(self._graph, node, holder_name)
        if node.id not in self._mirrored or "shared_name" not in attrs:
            return attrs
        return dict(attrs) | {"shared_name": self._mirrored.shared_name(attrs["shared_name"], replica)}

    def _kept_input(self, ref: TensorRef, replica: int) -> str:
        if ref.node in self._region:
            return self._combine(ref)[replica]
        name = self._mirrored.name(self._graph.nodes[ref.node], replica)
        return f"{name}:{ref.slot}" if ref.slot else name

    def _controls(self, node: Node, parts: Sequence[Part], replica: int) -> Iterator[str]:
        is_copied = node.id in self._region
        for number in node.control_inputs:
            source = self._graph.nodes[number]
            if number in self._region:
                yield from (f"^{part.scope}/{source.name}" for part in parts)
            elif number in self._mirrored and not is_copied and node.id not in self._mirrored:
                yield from (f"^{self._mirrored.name(source, i)}" for i in range(self._replication.replicas))
            elif not is_copied or number not in self._after:
                yield f"^{self._mirrored.name(source, replica)}"

    def _split_batch(self) -> None:
        count = len(self._parts)
        held = {TensorRef(number, 0): axis for number, axis in self._shapes.split.items()}
        for ref, axis in {**dict.fromkeys(self._training.batch, 0), **held}.items():
            node = self._graph.nodes[ref.node]
            if ref in held:
                self._writer.add(node.name, node.op, (), CPU, node.attrs)
            name = f"shards/{self._graph.tensor_name(ref).replace(':', '_')}"
            dtype = node.signature.output_dtypes[ref.slot]
            self._shards[ref] = self._writer.split(name, self._graph.tensor_name(ref), axis, count, dtype)

    def _copy(self, node: Node, part: Part) -> None:
        """Write a node of the copies for a part of the batch."""
        if node.id in self._shapes.split:
            return  # its parts are shards of the constant
        inputs = [self._input(ref, part) for ref in node.inputs]
        controls = [*self._controls(node, (part,), part.replica)]
        if part.micro_batch and self._begins(node):
            controls.append(f"^{self._parts[part.number - 1].scope}/{DONE}")
        name = f"{part.scope}/{node.name}"
        self._writer.nodes.append(
            NodeDef(
                name, node.op, (*inputs, *controls), self._device(node, part.replica), self._attrs(node, part), node.location
            )
        )
        for slot in range(len(node.signature.output_dtypes)):
            ref = TensorRef(node.id, slot)
            if ref in self._dependence.factors and node.op not in CONSTANTS:
                factor, tensor = self._dependence.factors[ref], f"{part.scope}/{self._graph.tensor_name(ref)}"
                scaled = self._writer.scaled(
                    f"{name}/of_part", tensor, self._dtype(ref), factor, self._device(node, part.replica)
                )
                self._scaled[ref, part.number] = scaled

    def _input(self, ref: TensorRef, part: Part) -> str:
        if ref in self._shards:
            return self._shards[ref][part.number]
        if (ref, part.number) in self._scaled:
            return self._scaled[ref, part.number]
        if ref.node not in self._region:
            return self._kept_input(ref, part.replica)
        return f"{part.scope}/{self._graph.tensor_name(ref)}"

    def _begins(self, node: Node) -> bool:
        """Whether a node of the copies needs no other one except constants."""
        nodes = self._graph.nodes
        inner = (nodes[i] for i in (*node.input_nodes, *node.control_inputs) if i in self._region)
        return node.op not in CONSTANTS and all(source.op in CONSTANTS for source in inner)

    def _attrs(self, node: Node, part: Part) -> Attrs:
        """Return a copy's attrs: constants have their value in a part, and labels name nodes of the same part."""
        labelled = with_labels(self._graph, node, lambda holder: self._holder(holder, part))
        attrs = {name: value for name, value in labelled.items() if name != "_output_shapes"}
        value = self._shapes.constant(node.id)
        if value is not None:
            attrs["value"] = TensorValue(attrs["value"].dtype, value)
        factor = self._dependence.factors.get(TensorRef(node.id, 0)) if node.op in CONSTANTS else None
        if factor is not None:
            dtype, array = attrs["value"]
            attrs["value"] = TensorValue(dtype, (array * factor).astype(array.dtype))
        return attrs

    def _holder(self, node: Node, part: Part) -> str | None:
        """Return the name of a node with which a copy is colocated: a copy's, or without replicas, any other node's."""
        if node.id in self._region:
            return f"{part.scope}/{node.name}"
        return node.name if self._replication.replicas == 1 else None

    def _device(self, node: Node, replica: int) -> str:
        """Return a request for the replica's GPU, unless the node requests another kind of device or has no kernel there."""
        asked = parse_runtime_name(node.device) or DeviceName()
        if self._replication.replicas == 1 or asked.type not in (None, "GPU"):
            return node.device
        if node.signature.definition is not None and not find_kernel(
            self._graph.registry, node.op, "GPU", node.signature.attrs, node.name
        ):
            return format_spec(asked.address_space)
        return format_spec(asked._replace(type="GPU", id=replica))

    # --- combined results -------------------------------------------------------------------------------------------

    def _find_gradients(self) -> tuple[TensorRef, ...]:
        """Return the gradients that other nodes read, and that have the same shape in each part."""
        read = {ref: None for number in self._order for ref in self._graph.nodes[number].inputs if number not in self._region}
        found = [ref for ref in read if ref.node in self._backward and self._shapes.axis(ref) is None]
        return tuple(ref for ref in found if self._dtype(ref).is_floating)

    def _dtype(self, ref: TensorRef) -> DataType:
        return self._graph.nodes[ref.node].signature.output_dtypes[ref.slot]

    def _name(self, ref: TensorRef) -> str:
        """Return the name under which the parts' results of a tensor are combined."""
        if ref in self._gradient_names:
            kind = "average" if self.is_mean else "total"
            return f"{kind}/{self._gradient_names[ref]}"
        return self._graph.tensor_name(ref).replace(":", "_")

    def _accumulate(self, part: Part) -> None:
        """Add the gradients of a micro-batch to those of the earlier ones, which the next micro-batch waits for."""
        device = gpu(part.replica) if self._replication.replicas > 1 else ""
        for ref in self._gradients:
            own = self._input(ref, part)
            if part.micro_batch:
                earlier = self._sums[ref, part.replica]
                name = f"{part.scope}/accumulated/{self._gradient_names.get(ref, self._name(ref))}"
                own = self._writer.add(name, "AddV2", (earlier, own), device, {"T": self._dtype(ref)})
            self._sums[ref, part.replica] = own
        waits = [f"^{split_tensor_name(self._sums[ref, part.replica])[0]}" for ref in self._gradients]
        self._writer.add(f"{part.scope}/{DONE}", "NoOp", waits, device)

    def _combine(self, ref: TensorRef) -> Sequence[str]:
        """Return the tensor for the whole batch, made from those of the parts, as each replica reads it."""
        found = self._combined.get(ref)
        if found is None:
            is_reduced = ref in self._gradients and self._replication.replicas > 1
            found = self._reduce(ref) if is_reduced else [self._combination(ref)] * self._replication.replicas
            self._combined[ref] = found
        return found

    def _reduce(self, ref: TensorRef) -> list[str]:
        """Return the sum or mean of the replicas' gradients."""
        tensors = [self._input(ref, part) for part in self._parts]
        if self._sums:
            tensors = [self._sums[ref, i] for i in range(self._replication.replicas)]
        shape = self._shapes.full.shape(ref)
        if not is_fully_defined(shape):
            raise UsageError(f"gradient of unknown shape: got {self._graph.tensor_name(ref)}, expected the shape of a variable")
        factor = 1.0 / len(self._parts) if self.is_mean else 1.0
        gradients = Gradients(self._name(ref), tensors, self._dtype(ref), shape, factor)
        return REDUCTIONS[self._replication.reduction](Reduction(self._writer, self._mirrored.exist), gradients)

    def _combination(self, ref: TensorRef) -> str:
        tensors = [self._input(ref, part) for part in self._parts]
        name, dtype, axis = self._name(ref), self._dtype(ref), self._shapes.axis(ref)
        share = 1.0 / len(self._parts)
        if ref.node in self._backward:
            if axis is not None:
                joined = self._writer.concatenation(f"{name}/concat" if self.is_mean else name, tensors, axis, dtype)
                return self._writer.scaled(name, joined, dtype, share) if self.is_mean and dtype.is_floating else joined
            if not dtype.is_floating:
                return self._writer.identity(name, tensors[0], dtype, CPU)
            if not self._sums:
                return self._writer.total(name, tensors, dtype, self._shared_device, share if self.is_mean else 1.0)
            total = self._sums[ref, 0]
            return (
                self._writer.scaled(name, total, dtype, share, "")
                if self.is_mean
                else self._writer.identity(name, total, dtype)
            )
        dependence = self._dependence.of(ref)
        if axis is not None and self._shapes.outer(ref) == 1:
            return self._writer.concatenation(name, tensors, axis, dtype, self._shared_device)
        if dependence is Dependence.SIZE or self._graph.nodes[ref.node].op in CONSTANTS:
            return self._of_whole_batch(ref)
        if dependence is Dependence.NONE:
            return self._writer.identity(name, tensors[0], dtype)
        if axis is None and dtype.is_floating and dependence in (Dependence.MEAN, Dependence.SUM):
            factor = share if dependence is Dependence.MEAN else 1.0
            return self._writer.total(name, tensors, dtype, self._shared_device, factor)
        if axis is None and dependence is Dependence.SUM:
            return self._writer.total(name, tensors, dtype, self._shared_device)
        why = "whose rows are not in the order of the batch" if axis is not None else self._dependence.reason(ref)
        raise UsageError(
            f"no combination of parts: got {self._graph.tensor_name(ref)} as a result or an input of another node, {why}, "
            "expected examples, or a mean or a sum over them"
        )

    def _of_whole_batch(self, ref: TensorRef) -> str:
        """Write the node of a tensor that depends only on the batch's size once more, for the whole batch."""
        node = self._graph.nodes[ref.node]
        inputs = [self._kept_input(own, 0) for own in node.inputs]
        name = self._writer.add(node.name, node.op, inputs, node.device, node.attrs)
        return f"{name}:{ref.slot}" if ref.slot else name

    @property
    def _shared_device(self) -> str:
        return CPU if self._replication.replicas > 1 else ""

    # --- the file ---------------------------------------------------------------------------------------------------

    def _step(self, step: GraphStep) -> GraphStep:
        fetches = tuple(new for fetch in step.fetches for new in self._fetched(fetch))
        feeds = tuple(feed._replace(tensor=text) for feed in step.feeds for text in self._graph.spelled_out(feed.tensor))
        return replace(step, fetches=fetches, feeds=feeds)

    def _fetched(self, fetch: Fetch) -> Iterator[Fetch]:
        for text in self._graph.spelled_out(fetch.name):
            name, slot = split_tensor_name(text.removeprefix("^"))
            number = self._graph.ids.get(name)
            if number is None or number not in self._region:
                yield fetch._replace(name=text)
                if number is not None and number in self._mirrored:
                    yield from self._writes_of_other_replicas(self._graph.nodes[number], fetch)
            elif text.startswith("^") or not self._graph.nodes[number].signature.output_dtypes:
                yield from (fetch._replace(name=f"^{part.scope}/{name}") for part in self._parts)
            else:
                found = self._combine(TensorRef(number, slot))[0]
                is_same = split_tensor_name(found) == (name, slot)
                yield fetch._replace(name=text) if is_same else fetch._replace(name=found, label=fetch.label or text)

    def _writes_of_other_replicas(self, node: Node, fetch: Fetch) -> Iterator[Fetch]:
        if find_written_variable(self._graph, node) is not None:
            for replica in range(1, self._replication.replicas):
                yield Fetch(f"^{self._mirrored.name(node, replica)}", fetch.location)

    def _inventory(self) -> tuple[TaskInventory, ...] | None:
        """Return the machine, with a GPU for each replica."""
        count, given = self._replication.replicas, self._file.inventory
        if count == 1:
            return given
        first, *others = given or (TaskInventory(),)
        return (first._replace(gpu=max(first.gpu, count)), *others)

    def _new_graph(self) -> Graph:
        graph = Graph(self._graph.registry, self._graph.functions, self._graph.file)
        graph.versions, graph.files = self._graph.versions, self._graph.files
        graph.extend(self._writer.nodes)
        return graph


DONE = "done"
"""Name of the node that a micro-batch runs last."""


def _listed(nodes: Sequence[Node]) -> str:
    named = ", ".join(node.name for node in nodes[:MAX_NAMED])
    return f"{named} and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else named


def _is_random(node: Node) -> bool:
    definition = node.signature.definition
    return definition is not None and definition.is_stateful and "seed2" in definition.attrs
