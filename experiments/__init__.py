"""Programs: train, evaluate, translate, align, export, sweep, report, catalogue and bench."""
