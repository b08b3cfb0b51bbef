"""Definition of a transfer, used by all transfer counts in reports."""

from __future__ import annotations

from enum import Enum


class TransferKind(Enum):
    """Purpose of a pair of a send and a receive."""

    TENSOR = "a tensor copied between devices: a transfer"
    HOST = "a tensor copied between device memory and host memory"
    SIGNAL = "a control edge, or an empty tensor, between devices: no bytes"


def transfer_kind(source: str, target: str, num_bytes: int | None) -> TransferKind:
    """Return the kind of a transfer of `num_bytes` bytes (None if unknown); reports count only the kind TENSOR."""
    if source == target:
        return TransferKind.HOST
    return TransferKind.SIGNAL if num_bytes == 0 else TransferKind.TENSOR
