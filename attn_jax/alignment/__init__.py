"""Word alignment: links from attention weights, and how well they and the weights match gold."""
