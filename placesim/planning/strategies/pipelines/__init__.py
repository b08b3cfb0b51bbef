"""A training graph as a pipeline: costs of nodes, cuts into stages, schedules of passes, and the rewritten graph."""
