"""A graph as a picture: boxes and arrows, folded by module, as svg, html, dot or text."""
