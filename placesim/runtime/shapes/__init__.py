"""Static shapes over a graph, their checks, and the costs that follow from them."""
