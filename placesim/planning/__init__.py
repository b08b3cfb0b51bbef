"""Plans: which device runs what, sought for a short step or a high throughput, with a bound; nothing here knows TensorFlow."""
