"""Search for plans with short steps or high throughput, and lower bounds; independent of TensorFlow."""
