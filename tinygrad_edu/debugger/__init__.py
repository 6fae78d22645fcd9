"""The event log of a backward pass, and what reads it: prompt, page, notebook, questions."""
