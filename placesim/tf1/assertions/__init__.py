"""What is asserted of tensors, as the graph is built and as it runs."""
