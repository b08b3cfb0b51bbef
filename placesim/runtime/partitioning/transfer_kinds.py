"""What counts as a transfer: the one rule behind every number of transfers that a command tells."""

from __future__ import annotations

from enum import Enum


class TransferKind(Enum):
    """What a send and its receive are for."""

    TENSOR = "a tensor copied between devices: a transfer"
    HOST = "a tensor copied between device memory and host memory"
    SIGNAL = "a control edge, or an empty tensor, between devices: no bytes"


def transfer_kind(source: str, target: str, num_bytes: int | None) -> TransferKind:
    """The kind by the devices at both ends and the bytes, None where they are not known; only TENSOR is counted."""
    if source == target:
        return TransferKind.HOST
    return TransferKind.SIGNAL if num_bytes == 0 else TransferKind.TENSOR
