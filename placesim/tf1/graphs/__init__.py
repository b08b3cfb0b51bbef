"""What a graph has beside its nodes: scopes, collections, and the names that its elements are found by."""
