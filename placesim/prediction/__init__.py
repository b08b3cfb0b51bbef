"""How long would it take?  Costs of nodes on devices."""
