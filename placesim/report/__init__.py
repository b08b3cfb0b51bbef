"""Reports on results: reports and JSON objects here, `text/` for lines, `pictures/` for drawings and pages."""
