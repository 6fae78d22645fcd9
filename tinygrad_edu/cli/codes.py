"""Exit codes; as shells have it, one that a signal ended has 128 and its number: 130 is Ctrl-C."""

FINISHED, DIVERGED, BAD_INPUT, BY_SIGNAL, UNSEEN = 0, 1, 2, 128, 141
