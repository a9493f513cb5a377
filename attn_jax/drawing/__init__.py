"""How the weights of a sentence are drawn: figures, pieces of HTML and pages."""
