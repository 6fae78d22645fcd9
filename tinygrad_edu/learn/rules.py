"""The derivative of each operation in one sentence, as one would say it to a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygrad_edu.drawing import facts

if TYPE_CHECKING:
    from tinygrad_edu.debugger.log import Use

__all__ = ["rule_of"]

_RULES = {
    "add": "A sum hands on what arrives to each of its terms, unchanged: its local derivative is 1",
    "subtract": "A difference hands on what arrives; what is taken away gets it with a minus",
    "multiply": "Of a product, the derivative by one factor is the other factor",
    "divide": "a / b changes by 1/b as a grows, and by -a/b² as b grows",
    "negative": "A minus sign turns what arrives around",
    "power": "aⁿ has derivative n · aⁿ⁻¹: the exponent comes down, and is one less above",
    "tanh": "tanh has derivative 1 - tanh², and its tanh is the result that is there already",
    "exp": "exp is its own derivative, so the local derivative is the result itself",
    "log": "ln a has derivative 1/a",
    "sqrt": "√a has derivative 1/(2√a): one half, over the result",
    "sigmoid": "A sigmoid s has derivative s · (1 - s), written with its result",
    "relu": "relu lets everything through where its input is above 0, and nothing elsewhere",
    "sin": "The derivative of sin is cos, at the same input",
    "cos": "The derivative of cos is -sin, at the same input",
    "abs": "|a| has derivative 1 where a is above 0, and -1 where it is below",
    "maximum": "A maximum hands everything to the larger of its two inputs",
    "minimum": "A minimum hands everything to the smaller of its two inputs",
    "square": "a² has derivative 2a",
    "matmul": "For y = x @ w:  ∂L/∂x = ∂L/∂y @ wᵀ,  and  ∂L/∂w = xᵀ @ ∂L/∂y",
    "sum": "A sum hands what arrives to every number that was summed, unchanged",
    "mean": "A mean over n numbers hands 1/n of what arrives to each of them",
    "reshape": "Reshaping moves numbers and changes none, so their gradients move back",
    "transpose": "Transposing moves numbers and changes none, so their gradients move back",
}


def rule_of(use: Use) -> str:
    """The rule that a use goes by, as a sentence."""
    found = _RULES.get(facts.word(use.event.node))
    if found is not None:
        return found + "."
    local = use.formula.local
    if local:
        return f"The derivative of {facts.word(use.event.node)} by {use.name} is {local}."
    return f"{facts.word(use.event.node)} hands on {use.formula.names}."
