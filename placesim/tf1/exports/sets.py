"""Sets, and composite tensors."""

ROWS = {
    "sets": (
        "sets.set_size sets.size=set_size sets.set_intersection sets.intersection=set_intersection sets.set_union "
        "sets.union=set_union sets.set_difference sets.difference=set_difference"
    ),
    "sparse.values": "convert_to_tensor_or_sparse_tensor convert_to_tensor_or_indexed_slices",
}
