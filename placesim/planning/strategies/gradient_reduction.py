"""Reduction of the replicas' gradients to a sum or mean: on the CPU, around a ring or along a tree of GPUs, or by NCCL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placesim.core.dtypes import INT32, DataType
from placesim.planning.strategies.node_writer import CPU, NodeWriter


class Gradients(NamedTuple):
    """A gradient of each replica, on the replica's device. The result `name` is their sum times `factor`."""

    name: str
    tensors: Sequence[str]
    devices: Sequence[str]
    dtype: DataType
    shape: tuple[int, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class Reduction:
    """Writer of a reduction's nodes. The result is on each replica with `is_mirrored`, otherwise on the CPU."""

    writer: NodeWriter
    is_mirrored: bool

    def on_cpu(self, gradients: Gradients) -> list[str]:
        """Add and scale all gradients on the CPU."""
        name, tensors, _, dtype, _, factor = gradients
        return [self.writer.total(name, tensors, dtype, CPU, factor)] * len(tensors)

    def by_nccl(self, gradients: Gradients) -> list[str]:
        """Add with one `NcclAllReduce` per GPU, and scale on each GPU.

        All of these nodes must run, so if only one result is read, it waits for the others.
        """
        name, tensors, devices, dtype, *_ = gradients
        attrs = {"reduction": "sum", "T": dtype, "num_devices": len(tensors), "shared_name": name}
        totals = [
            self.writer.add(f"{name}/all_reduce_{i}", "NcclAllReduce", (tensor,), devices[i], attrs)
            for i, tensor in enumerate(tensors)
        ]
        if self.is_mirrored:
            return [self._finished(gradients, total, i) for i, total in enumerate(totals)]
        first = self.writer.identity(f"{name}/all_reduced", totals[0], dtype, devices[0], totals[1:])
        return [self._finished(gradients, first, 0)] * len(tensors)

    def along_tree(self, gradients: Gradients) -> list[str]:
        """Add in pairs, then in pairs of pairs, and send the result back along the same tree."""
        name, tensors, devices, dtype, *_ = gradients
        sums, width = [*tensors], 1
        passes: list[tuple[int, int]] = []
        while width < len(sums):
            for i in range(0, len(sums) - width, 2 * width):
                sums[i] = self.writer.added(f"{name}/tree_{width}_{i}", sums[i], sums[i + width], dtype, devices[i])
                passes.append((i, i + width))
            width *= 2
        found = [self._finished(gradients, sums[0], 0)] * len(tensors)
        if self.is_mirrored:
            for source, target in reversed(passes):
                found[target] = self.writer.identity(f"{name}/from_{source}_to_{target}", found[source], dtype, devices[target])
        return found

    def around_ring(self, gradients: Gradients) -> list[str]:
        """Divide each gradient into one chunk per GPU.

        Sum each chunk around the ring, then send the sums around in a second round.
        """
        name, tensors, devices, dtype, shape, factor = gradients
        count, size = len(tensors), 1
        for dim in shape:
            size *= dim
        sizes = [size * (i + 1) // count - size * i // count for i in range(count)]
        chunks = [self._chunks(f"{name}/chunks_{i}", tensor, sizes, dtype, devices[i]) for i, tensor in enumerate(tensors)]
        held: list[list[str]] = [[""] * count for _ in range(count)]
        for chunk in range(count):
            total = chunks[(chunk + 1) % count][chunk]
            for step in range(2, count + 1):
                i = (chunk + step) % count
                total = self.writer.added(f"{name}/chunk_{chunk}_at_{i}", total, chunks[i][chunk], dtype, devices[i])
            held[chunk][chunk] = self.writer.scaled(f"{name}/chunk_{chunk}", total, dtype, factor, devices[chunk])
            for step in range(1, count if self.is_mirrored else 1):
                i = (chunk + step) % count
                before = held[(i - 1) % count][chunk]
                held[i][chunk] = self.writer.identity(f"{name}/chunk_{chunk}_to_{i}", before, dtype, devices[i])
        if not self.is_mirrored:
            return [self._joined(name, [held[i][i] for i in range(count)], dtype, shape, CPU)] * count
        return [self._joined(self._numbered(name, i), held[i], dtype, shape, devices[i]) for i in range(count)]

    def _chunks(self, name: str, tensor: str, sizes: Sequence[int], dtype: DataType, device: str) -> list[str]:
        flat = self.writer.reshape(f"{name}/flat", tensor, [-1], dtype, device)
        lengths = self.writer.constant(f"{name}/size_splits", sizes, INT32, device)
        dimension = self.writer.constant(f"{name}/split_dim", 0, INT32, device)
        attrs = {"num_split": len(sizes), "T": dtype, "Tlen": INT32}
        found = self.writer.add(name, "SplitV", (flat, lengths, dimension), device, attrs)
        return [f"{found}:{i}" if i else found for i in range(len(sizes))]

    def _joined(self, name: str, chunks: Sequence[str], dtype: DataType, shape: Sequence[int], device: str) -> str:
        joined = self.writer.concatenation(f"{name}/concat", chunks, 0, dtype, device)
        return self.writer.reshape(name, joined, shape, dtype, device)

    def _finished(self, gradients: Gradients, total: str, replica: int) -> str:
        name, device = self._numbered(gradients.name, replica), gradients.devices[replica]
        return self.writer.scaled(name, total, gradients.dtype, gradients.factor, device)

    @staticmethod
    def _numbered(name: str, replica: int) -> str:
        return f"{name}/replica_{replica}" if replica else name


REDUCTIONS: Mapping[str, Callable[[Reduction, Gradients], list[str]]] = {
    "cpu": Reduction.on_cpu,
    "ring": Reduction.around_ring,
    "tree": Reduction.along_tree,
    "nccl": Reduction.by_nccl,
}
"""Functions that add the nodes of a reduction, and return the tensor that each replica reads."""
