"""Settings: dataclass fields with a help text and bounds, and values that text can name."""
