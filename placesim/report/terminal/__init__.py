"""Reports on a terminal, with colour and tables."""
