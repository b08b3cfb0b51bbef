"""Ways to plan, each `(Problem, Search) -> plans, better and better`."""
