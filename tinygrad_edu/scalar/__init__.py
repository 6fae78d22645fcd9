"""Autograd on single floats: `Value`, and micrograd's network on it.

`arrays` (imported where it is used) holds arrays of Values as a namespace with NumPy's names.
"""

from tinygrad_edu.scalar.network import MLP, Layer, Module, Neuron
from tinygrad_edu.scalar.value import Value

__all__ = ["MLP", "Layer", "Module", "Neuron", "Value"]
