"""The table that says where each kernel is agrees with the families' own tables."""

from placesim.ops.compile_families import op_families_text
from placesim.ops.kernels import join_tables, load_kernels
from placesim.ops.kernels.op_families import PATH


def test_the_written_table_is_that_of_the_families() -> None:
    assert PATH.read_text() == op_families_text(), "run `make tables`"


def test_each_op_is_found_in_its_family() -> None:
    whole = join_tables()
    assert {op: load_kernels()[op] for op in whole} == whole


def test_an_op_without_a_kernel_has_none() -> None:
    assert load_kernels().get("NoSuchOp") is None
