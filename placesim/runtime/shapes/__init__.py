"""Static shapes over a graph, checks of them, and the costs that follow from them."""
