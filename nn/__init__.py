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
from tinygrad_edu.nn.activations import (
    ELU,
    GELU,
    SELU,
    Flatten,
    Hardtanh,
    Identity,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from tinygrad_edu.nn.attention import MultiHeadAttention, TransformerBlock
from tinygrad_edu.nn.cache import KeyValueCache
from tinygrad_edu.nn.containers import ModuleDict, ModuleList, Sequential
from tinygrad_edu.nn.convolution import AvgPool1d, AvgPool2d, Conv1d, Conv2d, MaxPool1d, MaxPool2d
from tinygrad_edu.nn.grouped_attention import GroupedQueryAttention, LlamaBlock, SwiGLU
from tinygrad_edu.nn.hooks import HookHandle
from tinygrad_edu.nn.layers import MLP, Dropout, Embedding, LayerNorm, Linear, RMSNorm
from tinygrad_edu.nn.lora import LoRA, LoRALinear, add_lora
from tinygrad_edu.nn.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.nn.positions import LearnedPositions, SinusoidalPositions
from tinygrad_edu.nn.state import LoadResult, StateDictError

__all__ = [
    "ELU",
    "GELU",
    "MLP",
    "SELU",
    "AvgPool1d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "Conv1d",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupedQueryAttention",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HookHandle",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "KeyValueCache",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "LearnedPositions",
    "Linear",
    "LlamaBlock",
    "LoRA",
    "LoRALinear",
    "LoadResult",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "NLLLoss",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SinusoidalPositions",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Softsign",
    "StateDictError",
    "SwiGLU",
    "Tanh",
    "TransformerBlock",
    "add_lora",
    "functional",
    "init",
]
