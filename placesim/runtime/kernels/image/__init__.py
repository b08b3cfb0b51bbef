"""Images: resizing, colors, boxes and their suppression, patches and projections."""
