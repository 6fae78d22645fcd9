"""Tensors: arrays that remember how they were made, and the functions that differentiate them."""

from tinygrad_edu.autograd import methods, twin
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.autograd.tensor import Tensor, get_default_dtype, set_default_dtype

__all__ = ["Tensor", "apply", "get_default_dtype", "methods", "set_default_dtype", "twin"]
