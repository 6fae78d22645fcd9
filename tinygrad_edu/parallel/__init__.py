"""Gradients of one batch by several workers, each with its part of it."""

from tinygrad_edu.parallel.threads import ThreadedBackward, split_batch

__all__ = ["ThreadedBackward", "split_batch"]
