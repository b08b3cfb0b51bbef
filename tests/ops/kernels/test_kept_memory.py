"""What outlives a kernel: elements of stacks and tensor lists, and variables that are copied when they are written."""

from __future__ import annotations

import numpy as np

from placesim.core.dtypes import FLOAT, RESOURCE, VARIANT
from placesim.machine.memory.buffers import Buffer
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.memory_rules import KernelMemory, StoreMemory, TensorMemory, VariableMemory
from tests.ops.kernels.op_memory import RecordingSource

KERNELS = load_kernels()


def run(
    op: str, pool: RecordingSource, inputs: list[TensorMemory], outputs: list[TensorMemory], **resources: object
) -> list[Buffer | None]:
    """One kernel's outputs' buffers; its inputs are let go after it, as the executor does."""
    memory = KernelMemory(op, inputs, outputs, {}, pool, **resources)  # type: ignore[arg-type]
    memory.run(KERNELS[op].memory)
    for tensor in inputs:
        if tensor.buffer is not None:
            tensor.buffer.release()
    return [tensor.buffer for tensor in outputs]


def floats(buffer: Buffer | None = None) -> TensorMemory:
    return TensorMemory((16,), FLOAT, buffer)


def test_stack_holds_what_was_pushed_until_it_is_popped() -> None:
    pool, stack = RecordingSource(), StoreMemory()
    handle = TensorMemory((), RESOURCE)
    pushed = pool.allocate(64, "input")
    (passed_on,) = run("StackPushV2", pool, [handle, floats(pushed)], [floats()], stores={0: stack})
    assert passed_on is pushed
    pushed.release()
    assert not pool.freed
    (popped,) = run("StackPopV2", pool, [handle], [floats()], stores={0: stack})
    assert popped is pushed
    assert not stack.held
    pushed.release()
    assert pool.freed == [pushed]


def test_tensor_list_is_written_over_and_frees_its_elements_with_itself() -> None:
    pool = RecordingSource()
    (made,) = run("EmptyTensorList", pool, [], [TensorMemory((), VARIANT)])
    element = pool.allocate(64, "input")
    (changed,) = run(
        "TensorListPushBack", pool, [TensorMemory((), VARIANT, made), floats(element)], [TensorMemory((), VARIANT)]
    )
    assert changed is made is not None
    made.hold()
    index = TensorMemory((), FLOAT, value=np.array(0))
    (item,) = run("TensorListGetItem", pool, [TensorMemory((), VARIANT, made), index], [floats()])
    assert item is element
    element.release()
    assert not pool.freed
    made.release()
    assert pool.freed == [element, made]


def test_tensor_list_that_others_have_is_copied() -> None:
    pool = RecordingSource()
    made = pool.allocate(64, "list")
    element = pool.allocate(64, "element")
    made.contents = [element]
    made.hold()
    list_now = TensorMemory((), VARIANT)
    (changed, popped) = run("TensorListPopBack", pool, [TensorMemory((), VARIANT, made)], [list_now, floats()])
    assert changed is not made
    assert popped is element
    assert changed is not None
    assert (made.contents, changed.contents) == ([element], [])


def test_variable_is_copied_when_written_while_it_is_read() -> None:
    pool, variable = RecordingSource(), VariableMemory()
    variable.buffer = before = pool.allocate(64, "variable")
    handle = TensorMemory((), RESOURCE)
    (read,) = run("ReadVariableOp", pool, [handle], [floats()], variables={0: variable})
    assert read is before
    run("AssignAddVariableOp", pool, [handle, floats()], [], variables={0: variable})
    assert variable.buffer is not before
    read.release()
    assert pool.freed == [before]


def test_variable_whose_rows_were_touched_is_copied_by_its_readers() -> None:
    pool, variable = RecordingSource(), VariableMemory()
    variable.buffer = before = pool.allocate(64, "variable")
    handle = TensorMemory((), RESOURCE)
    run("ResourceScatterAdd", pool, [handle, floats(), floats()], [], variables={0: variable})
    assert variable.buffer is before
    (read,) = run("ReadVariableOp", pool, [handle], [floats()], variables={0: variable})
    assert read is not before
