"""Neural network modules with PyTorch's names, arguments, defaults and starting weights.

model = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 1))
loss = nn.MSELoss()(model(x), y)
loss.backward()
"""

if __name__ == "nn":
    raise ImportError(
        "`import nn` would make a second copy of the package's modules, with classes of their own: "
        "write `from tinygrad_edu import nn`."
    )

from tinygrad_edu.nn import functional, init
from tinygrad_edu.nn.activations import GELU, Identity, LogSoftmax, ReLU, Sigmoid, Softmax, Tanh
from tinygrad_edu.nn.attention import MultiHeadAttention, TransformerBlock
from tinygrad_edu.nn.containers import ModuleDict, ModuleList, Sequential
from tinygrad_edu.nn.hooks import HookHandle
from tinygrad_edu.nn.layers import MLP, Dropout, Embedding, LayerNorm, LearnedPositions, Linear
from tinygrad_edu.nn.losses import CrossEntropyLoss, MSELoss
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.nn.state import LoadResult, StateDictError

__all__ = [
    "GELU",
    "MLP",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "HookHandle",
    "Identity",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "LoadResult",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "StateDictError",
    "Tanh",
    "TransformerBlock",
    "functional",
    "init",
]
