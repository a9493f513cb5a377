"""Programs: train, evaluate, translate, align, sweep and report."""
