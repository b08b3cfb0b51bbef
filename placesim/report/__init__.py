"""Results -> what is printed: the report and its JSON object here, `text/` for lines, `pictures/` for drawings and the page."""
