"""Optimizers, learning-rate schedules and gradient clipping, with PyTorch's names, arguments and
numbers.

optimizer = optim.AdamW(model.parameters(), lr=1e-3)
optimizer.zero_grad()
loss.backward()
optim.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
"""

if __name__ == "optim":
    raise ImportError(
        "`import optim` would make a second copy of the package's optimizers: write "
        "`from tinygrad_edu import optim`."
    )

from tinygrad_edu.optim import schedules
from tinygrad_edu.optim.clip import clip_grad_norm_, clip_grad_value_
from tinygrad_edu.optim.optimizer import Optimizer
from tinygrad_edu.optim.rules import SGD, Adam, AdamW, Momentum

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Momentum",
    "Optimizer",
    "clip_grad_norm_",
    "clip_grad_value_",
    "schedules",
]
