"""Reports: tables, figures and pages from the files that runs leave."""
