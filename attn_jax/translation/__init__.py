"""Use of a trained model: loading, translating, aligning, scoring and exporting."""
