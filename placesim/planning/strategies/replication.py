"""A training graph with a copy of the forward and backward pass for each part of the batch, and with combined results.

A copy is a replica on its own GPU (`tower_0/...`), or a micro-batch that runs after the previous one (`micro_batch_0/...`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from placesim.core.dtypes import DataType
from placesim.core.errors import UsageError
from placesim.core.grouped import grouped
from placesim.graph.graph import Graph, Node, NodeDef, TensorRef, split_tensor_name
from placesim.graph.session_steps import Fetch, GraphFile, GraphStep
from placesim.inspection.memory_categories import find_written_variable
from placesim.machine.device_names import DeviceName, parse_runtime_name
from placesim.machine.inventory import TaskInventory, with_gpus
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.categories import CONSTANTS
from placesim.planning.strategies.batch_dependence import Dependence
from placesim.planning.strategies.divided_training import DividedTraining, Part
from placesim.planning.strategies.gpu_requests import GpuRequests
from placesim.planning.strategies.gradient_reduction import REDUCTIONS, Gradients, Reduction
from placesim.planning.strategies.node_writer import CPU, NodeWriter, gpu, with_labels
from placesim.planning.strategies.pipelines.pass_order import PassOrder
from placesim.planning.strategies.training_graph import find_held_variables

DONE = "done"
"""Name of the node that a micro-batch runs last."""


def replicate(file: GraphFile, divided: DividedTraining) -> GraphFile:
    """Return the file with copies of the nodes for each part. Raises UsageError for a result that parts cannot give."""
    return _Replicator(file, divided).file()


class _Replicator:
    """Writes the new graph node by node."""

    def __init__(self, file: GraphFile, divided: DividedTraining) -> None:
        self._file = file
        self._divided = divided
        self._graph = divided.graph
        self._requests = GpuRequests(self._graph)
        self._replicas = divided.settings.replicas
        self._writer = NodeWriter(node.name for node in divided.nodes if node.id not in divided.copied)
        self._shards: dict[TensorRef, list[str]] = {}
        self._arrived: dict[tuple[TensorRef, int, int], str] = {}
        self._scaled: dict[tuple[TensorRef, int], str] = {}
        self._sums: dict[tuple[TensorRef, int], str] = {}
        self._combined: dict[TensorRef, Sequence[str]] = {}

    # --- writing ----------------------------------------------------------------------------------------------------

    def file(self) -> GraphFile:
        """Return the rewritten file."""
        nodes = self._divided.nodes
        before = [node for node in nodes if node.id not in self._divided.copied and node.id not in self._divided.after]
        waiting = self._find_waiting(before)
        for replica in range(self._replicas):
            for node in before:
                if node.id in self._divided.mirrored or not (replica or node.id in waiting):
                    self._keep(node, replica)
        for node in before:
            if node.id in waiting:
                self._keep(node)
        self._split_batch()
        for part in self._divided.parts:
            for node in nodes:
                if node.id in self._divided.copied:
                    self._copy(node, part)
            if self._divided.settings.micro_batches > 1 and self._divided.order is None:
                self._end(
                    part, DONE, self._accumulate(part, self._divided.gradients), gpu(part.replica) if self._replicas > 1 else ""
                )
        if self._divided.order is not None:
            self._end_passes(self._divided.order)
        for node in nodes:
            for replica in range(self._replicas if node.id in self._divided.mirrored else 1):
                if node.id in self._divided.after:
                    self._keep(node, replica)
        self._combine(self._divided.training.loss)  # a GraphDef does not say whether it is fetched
        steps = None if self._file.steps is None else tuple(map(self._step, self._file.steps))
        each = None if self._file.each_step is None else tuple(map(self._step, self._file.each_step))
        return replace(
            self._file,
            graph=self._new_graph(),
            steps=steps,
            each_step=each,
            inventory=self._inventory(),
            initial_values=self._initial_values(),
            as_read=None,
        )

    def _find_waiting(self, nodes: Sequence[Node]) -> frozenset[int]:
        """Return the nodes, such as an initializer, that need a mirrored node but are not mirrored."""
        found: set[int] = set()
        for node in nodes:
            needed = (*node.input_nodes, *node.control_inputs)
            if node.id not in self._divided.mirrored and any(i in self._divided.mirrored or i in found for i in needed):
                found.add(node.id)
        return frozenset(found)

    def _keep(self, node: Node, replica: int = 0) -> None:
        """Write a node that is not copied, or if it is mirrored, a replica's own node."""
        inputs = [self._kept_input(ref, replica) for ref in node.inputs]
        controls = dict.fromkeys(self._controls(node, self._divided.parts, replica))
        if node.id in self._divided.updates:
            controls |= dict.fromkeys(f"^{name}" for name in self._divided.awaited)
        device = node.device or (CPU if node.id in self._divided.on_cpu else "")
        if node.id in self._divided.mirrored:
            device = self._device(node, replica)
        name, attrs = self._divided.mirrored.name(node, replica), self._kept_attrs(node, replica)
        self._writer.nodes.append(NodeDef(name, node.op, (*inputs, *sorted(controls)), device, attrs, node.location))

    def _kept_attrs(self, node: Node, replica: int) -> Attrs:
        def holder_name(holder: Node) -> str | None:
            return None if holder.id in self._divided.copied else self._divided.mirrored.name(holder, replica)

        attrs = with_labels(self._graph, node, holder_name)
        if node.id not in self._divided.mirrored or "shared_name" not in attrs:
            return attrs
        return dict(attrs) | {"shared_name": self._divided.mirrored.shared_name(attrs["shared_name"], replica)}

    def _kept_input(self, ref: TensorRef, replica: int) -> str:
        if ref.node in self._divided.copied:
            return self._combine(ref)[replica]
        name = self._divided.mirrored.name(self._graph.nodes[ref.node], replica)
        return f"{name}:{ref.slot}" if ref.slot else name

    def _controls(self, node: Node, parts: Sequence[Part], replica: int) -> Iterator[str]:
        is_copied = node.id in self._divided.copied
        for number in node.control_inputs:
            source = self._graph.nodes[number]
            if number in self._divided.copied:
                yield from (f"^{part.scope}/{source.name}" for part in parts)
            elif number in self._divided.mirrored and not is_copied and node.id not in self._divided.mirrored:
                yield from (f"^{self._divided.mirrored.name(source, i)}" for i in range(self._replicas))
            elif not is_copied or number not in self._divided.after:
                yield f"^{self._divided.mirrored.name(source, replica)}"

    def _split_batch(self) -> None:
        count = len(self._divided.parts)
        held = {TensorRef(number, 0): axis for number, axis in self._divided.shapes.split.items()}
        for ref, axis in {**dict.fromkeys(self._divided.training.batch, 0), **held}.items():
            node = self._graph.nodes[ref.node]
            if ref in held:
                self._writer.add(node.name, node.op, (), CPU, node.attrs)
            name = f"shards/{self._graph.tensor_name(ref).replace(':', '_')}"
            dtype = node.signature.output_dtypes[ref.slot]
            self._shards[ref] = self._writer.split(name, self._graph.tensor_name(ref), axis, count, dtype)

    def _copy(self, node: Node, part: Part) -> None:
        """Write the copy of a node for a part of the batch."""
        if node.id in self._divided.shapes.split:
            return  # its parts are shards of the constant
        inputs = [self._shard(ref, node, part) if ref in self._shards else self._input(ref, part) for ref in node.inputs]
        controls = [*self._controls(node, (part,), part.replica), *self._turn(node, part)]
        name, device, attrs = f"{part.scope}/{node.name}", self._device(node, part.replica), self._attrs(node, part)
        self._writer.nodes.append(NodeDef(name, node.op, (*inputs, *controls), device, attrs, node.location))
        for slot in range(len(node.signature.output_dtypes)) if node.op not in CONSTANTS else ():
            ref = TensorRef(node.id, slot)
            factor = self._divided.dependence.factors.get(ref)
            if factor is not None:
                own = self._input(ref, part)
                scaled = self._writer.scaled(f"{name}/of_part", own, self._divided.dtype(ref), factor, device)
                self._scaled[ref, part.number] = scaled

    def _input(self, ref: TensorRef, part: Part) -> str:
        if ref in self._shards:
            return self._shards[ref][part.number]
        if (ref, part.number) in self._scaled:
            return self._scaled[ref, part.number]
        if ref.node not in self._divided.copied:
            return self._kept_input(ref, part.replica)
        return f"{part.scope}/{self._graph.tensor_name(ref)}"

    def _shard(self, ref: TensorRef, node: Node, part: Part) -> str:
        """Return a node's part of a tensor of the batch. It reaches a stage of a pipeline shortly before the stage reads it."""
        order = self._divided.order
        release = None if order is None else order.release(node.id, part.micro_batch)
        if order is None or release is None:
            return self._shards[ref][part.number]
        key = ref, part.number, order.stage_of[node.id]
        if key not in self._arrived:
            name = f"{part.scope}/stage_{order.stage_of[node.id]}/{self._graph.tensor_name(ref).replace(':', '_')}"
            after = f"{self._part(part.replica, release.micro_batch).scope}/{release.done}"
            shard = self._shards[ref][part.number]
            self._arrived[key] = self._writer.identity(name, shard, self._divided.dtype(ref), CPU, (after,))
        return self._arrived[key]

    def _turn(self, node: Node, part: Part) -> Iterator[str]:
        """Yield the control input with which the first nodes of a part, or of a pass of a pipeline, wait for the one before."""
        if self._divided.order is not None:
            before = self._divided.order.before(node.id, part.micro_batch)
            if before is not None:
                yield f"^{self._part(part.replica, before.micro_batch).scope}/{before.done}"
        elif part.micro_batch and self._begins(node):
            yield f"^{self._divided.parts[part.number - 1].scope}/{DONE}"

    def _part(self, replica: int, micro_batch: int) -> Part:
        return self._divided.parts[replica * self._divided.settings.micro_batches + micro_batch]

    def _begins(self, node: Node) -> bool:
        """Whether a copied node reads no other copied nodes except constants."""
        nodes = self._graph.nodes
        inner = (nodes[i] for i in (*node.input_nodes, *node.control_inputs) if i in self._divided.copied)
        return node.op not in CONSTANTS and all(source.op in CONSTANTS for source in inner)

    def _attrs(self, node: Node, part: Part) -> Attrs:
        """Return a copy's attrs: a constant has its value for a part, and labels name nodes of the same part."""
        labelled = with_labels(self._graph, node, lambda holder: self._holder(holder, part))
        attrs = {name: value for name, value in labelled.items() if name != "_output_shapes"}
        value = self._divided.shapes.constant(node.id)
        if value is not None:
            attrs["value"] = TensorValue(attrs["value"].dtype, value)
        factor = self._divided.dependence.factors.get(TensorRef(node.id, 0)) if node.op in CONSTANTS else None
        if factor is not None:
            dtype, array = attrs["value"]
            attrs["value"] = TensorValue(dtype, (array * factor).astype(array.dtype))
        return attrs

    def _holder(self, node: Node, part: Part) -> str | None:
        """Return the new name of a node in a copy's colocation label; None if the label is dropped."""
        if node.id in self._divided.copied:
            return f"{part.scope}/{node.name}"
        return node.name if self._replicas == 1 else None

    def _device(self, node: Node, replica: int) -> str:
        """Return a request for the replica's GPU, unless the node requests another kind of device or has no kernel there."""
        if self._replicas == 1:
            return node.device
        if any(variable.id in self._divided.on_cpu for variable in find_held_variables(self._graph, node)):
            return CPU
        gpus = self._divided.settings.gpus
        own = (parse_runtime_name(node.device) or DeviceName()).id if gpus > 1 else 0
        if own is None and (node.signature.tied_inputs or "_class" in node.attrs):
            return node.device  # it follows its variable, which may be on any GPU of the replica
        return self._requests.request(node, replica * gpus + (own or 0))

    # --- combined results -------------------------------------------------------------------------------------------

    def _end_passes(self, order: PassOrder) -> None:
        """Write the end of each pass of a pipeline: the gradients are added, and all other nodes of the pass have run."""
        gradients = grouped((order.stage_of[ref.node], ref) for ref in self._divided.gradients)
        added = frozenset(ref.node for ref in self._divided.gradients)
        for replica in range(self._replicas):
            for own in order.passes():
                part = self._part(replica, own.micro_batch)
                sums = self._accumulate(part, gradients.get(own.stage, ()) if own.is_backward else ())
                ends = [f"{part.scope}/{self._graph.nodes[i].name}" for i in order.ends(own) if i not in added]
                device = gpu(replica * self._divided.settings.gpus + order.device(own))
                self._end(part, own.done, [*ends, *sums], device)

    def _accumulate(self, part: Part, gradients: Sequence[TensorRef]) -> list[str]:
        """Add the gradients of a micro-batch to the sums of earlier micro-batches, and return the new sums."""
        for ref in gradients:
            own, earlier = self._input(ref, part), self._sums.get((ref, part.replica))
            if earlier is not None:
                name = f"{part.scope}/accumulated/{self._divided.gradient_name(ref)}"
                device = self._device(self._graph.nodes[ref.node], part.replica)
                own = self._writer.added(name, earlier, own, self._divided.dtype(ref), device)
            self._sums[ref, part.replica] = own
        return [self._sums[ref, part.replica] for ref in gradients]

    def _end(self, part: Part, name: str, tensors: Sequence[str], device: str) -> None:
        """Write the node for which the next micro-batch or pass waits."""
        self._writer.group(f"{part.scope}/{name}", (split_tensor_name(tensor)[0] for tensor in tensors), device)

    def _combine(self, ref: TensorRef) -> Sequence[str]:
        """Return for each replica the tensor of the whole batch, combined from the parts."""
        found = self._combined.get(ref)
        if found is None:
            if ref in self._divided.gradients:
                found = self._combined_gradient(ref)
            elif ref.node in self._divided.backward:
                found = [self._combined_rows_of_gradient(ref)] * self._replicas
            else:
                found = [self._combined_result(ref)] * self._replicas
            self._combined[ref] = found
        return found

    def _combined_gradient(self, ref: TensorRef) -> Sequence[str]:
        """Return the sum or mean of a gradient that has the same shape in each part."""
        name, dtype = self._divided.result_name(ref), self._divided.dtype(ref)
        factor = 1.0 / len(self._divided.parts) if self._divided.is_mean else 1.0
        if self._sums:
            tensors = [self._sums[ref, i] for i in range(self._replicas)]
        else:
            tensors = [self._input(ref, part) for part in self._divided.parts]
        devices = [self._device(self._graph.nodes[ref.node], replica) for replica in range(self._replicas)]
        if self._replicas == 1:
            return [self._writer.scaled(name, tensors[0], dtype, factor, devices[0])]
        shape = self._divided.shapes.full.shape(ref) or ()
        reduction = Reduction(self._writer, self._divided.mirrored.exist)
        return REDUCTIONS[self._divided.settings.reduction](reduction, Gradients(name, tensors, devices, dtype, shape, factor))

    def _combined_rows_of_gradient(self, ref: TensorRef) -> str:
        """Return the rows of all parts, such as those of sparse gradients, and indices or a shape unchanged."""
        name, dtype, axis = self._result(ref)
        tensors = [self._input(ref, part) for part in self._divided.parts]
        if axis is None:
            return self._writer.identity(name, tensors[0], dtype, self._result_device(ref))
        if not (self._divided.is_mean and dtype.is_floating):
            return self._writer.concatenation(name, tensors, axis, dtype, self._result_device(ref))
        joined = self._writer.concatenation(f"{name}/concat", tensors, axis, dtype, self._result_device(ref))
        return self._writer.scaled(name, joined, dtype, 1.0 / len(tensors), self._result_device(ref))

    def _combined_result(self, ref: TensorRef) -> str:
        """Return a tensor of the forward pass for the whole batch."""
        if ref in self._shards:
            return self._graph.tensor_name(ref)
        name, dtype, axis = self._result(ref)
        tensors = [self._input(ref, part) for part in self._divided.parts]
        dependence, is_in_order = self._divided.dependence.of(ref), self._divided.shapes.outer(ref) == 1
        if axis is not None and is_in_order:
            return self._writer.concatenation(name, tensors, axis, dtype, self._result_device(ref))
        if dependence is Dependence.SIZE or self._graph.nodes[ref.node].op in CONSTANTS:
            return self._of_whole_batch(ref)
        if dependence is Dependence.NONE:
            return self._writer.identity(name, tensors[0], dtype)
        if dependence is Dependence.SUM or (dependence is Dependence.MEAN and dtype.is_floating):
            factor = 1.0 / len(tensors) if dependence is Dependence.MEAN else 1.0
            return self._writer.total(name, tensors, dtype, self._result_device(ref), factor)
        why = self._divided.dependence.reason(ref) if is_in_order else "whose rows are not in the order of the batch"
        raise UsageError(
            f"cannot combine the parts' results: got {self._graph.tensor_name(ref)}, {why}, "
            "expected examples, or a mean or a sum over them"
        )

    def _result(self, ref: TensorRef) -> tuple[str, DataType, int | None]:
        """Return a combined tensor's name and type, and the dimension of the batch."""
        divided = self._divided
        return divided.result_name(ref), divided.dtype(ref), divided.shapes.axis(ref)

    def _of_whole_batch(self, ref: TensorRef) -> str:
        """Write the node of a tensor that depends only on the batch size again, for the whole batch."""
        node = self._graph.nodes[ref.node]
        inputs = [self._kept_input(own, 0) for own in node.inputs]
        name = self._writer.add(node.name, node.op, inputs, node.device, node.attrs)
        return f"{name}:{ref.slot}" if ref.slot else name

    def _result_device(self, ref: TensorRef) -> str:
        return CPU if self._replicas > 1 else self._graph.nodes[ref.node].device

    # --- the file ---------------------------------------------------------------------------------------------------

    def _step(self, step: GraphStep) -> GraphStep:
        fetches = tuple(new for fetch in step.fetches for new in self._fetched(fetch))
        feeds = tuple(feed._replace(tensor=text) for feed in step.feeds for text in self._graph.spelled_out(feed.tensor))
        return replace(step, fetches=fetches, feeds=feeds)

    def _fetched(self, fetch: Fetch) -> Iterator[Fetch]:
        for text in self._graph.spelled_out(fetch.name):
            name, slot = split_tensor_name(text.removeprefix("^"))
            number = self._graph.ids.get(name)
            if number is None or number not in self._divided.copied:
                yield fetch._replace(name=text)
                if number is not None and number in self._divided.mirrored:
                    yield from self._writes_of_other_replicas(self._graph.nodes[number], fetch)
            elif text.startswith("^") or not self._graph.nodes[number].signature.output_dtypes:
                yield from (fetch._replace(name=f"^{part.scope}/{name}") for part in self._divided.parts)
            else:
                found = self._combine(TensorRef(number, slot))[0]
                is_same = split_tensor_name(found) == (name, slot)
                yield fetch._replace(name=text) if is_same else fetch._replace(name=found, label=fetch.label or text)

    def _writes_of_other_replicas(self, node: Node, fetch: Fetch) -> Iterator[Fetch]:
        if self._needs_write(node):
            for replica in range(1, self._replicas):
                yield Fetch(f"^{self._divided.mirrored.name(node, replica)}", fetch.location)

    def _needs_write(self, node: Node) -> bool:
        """Whether a mirrored node writes a variable, or reads one after a write."""
        waiting, seen = [node.id], {node.id}
        while waiting:
            current = self._graph.nodes[waiting.pop()]
            if find_written_variable(self._graph, current) is not None:
                return True
            new = {i for i in (*current.input_nodes, *current.control_inputs) if i in self._divided.mirrored} - seen
            seen |= new
            waiting += new
        return False

    def _initial_values(self) -> dict[str, Any]:
        """Return the values of restored variables, also for the copies of mirrored ones."""
        values = dict(self._file.initial_values)
        for node in self._divided.nodes if values else ():
            if node.id in self._divided.mirrored and node.name in values:
                values |= {self._divided.mirrored.name(node, i): values[node.name] for i in range(1, self._replicas)}
        return values

    def _inventory(self) -> tuple[TaskInventory, ...] | None:
        """Return the machine, with the GPUs of all replicas."""
        count = self._replicas * self._divided.settings.gpus
        return self._file.inventory if count == 1 else with_gpus(self._file.inventory, count)

    def _new_graph(self) -> Graph:
        graph = Graph(self._graph.registry, self._graph.functions, self._graph.file)
        graph.versions, graph.files = self._graph.versions, self._graph.files
        graph.extend(self._writer.nodes)
        return graph if self._divided.order is None else graph.in_runtime_order()
