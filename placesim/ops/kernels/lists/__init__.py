"""Lists of tensors: tensor arrays and stacks, which a step holds, and tensor lists, which are values."""
