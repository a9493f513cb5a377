"""`report.html`: one file with tables, curves and a viewer of alignments, without a network."""
