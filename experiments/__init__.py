"""Programs, each with flags for what a user may choose, and presets of such flags."""
