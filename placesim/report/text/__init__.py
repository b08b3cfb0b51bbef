"""Reports as plain text and JSON objects, one module per kind of report."""
