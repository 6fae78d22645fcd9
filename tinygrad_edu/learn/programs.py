"""The small programs that a bug hunt takes place in: expressions, a neuron, networks by hand.

Each draws its numbers from a generator, names its nodes, and gives back the loss. Numbers are few
and short, so that a step can be followed on paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd.functions import exp, log, mean, sqrt, sum, tanh
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.scalar.value import Value

__all__ = ["PROGRAMS", "Program"]

Rng = np.random.Generator


@dataclass(frozen=True)
class Program:
    """A program that computes a loss.

    Attributes:
        title: what it is, in a few words.
        build: makes the graph from random numbers, and gives its loss.
        trains: a hunt shows the second step of training it, after one step of gradient descent.
    """

    title: str
    build: Callable[[Rng], Any]
    trains: bool = False


def _named(**nodes: Any) -> Any:
    """Give nodes their names; returns the last one."""
    for name, node in nodes.items():
        node.name = name
    return next(reversed(nodes.values()))


def _values(rng: Rng, names: str, low: float = 1.0, high: float = 3.0) -> list[Value]:
    """Leaves of different sizes between low and high, in halves, some of them negative."""
    words = names.split()
    steps = int((high - low) / 0.25)
    sizes = low + 0.25 * (1 + rng.choice(steps, size=len(words), replace=False))
    signs = rng.choice([-1.0, 1.0], size=len(words))
    return [Value(float(s * x), w) for s, x, w in zip(signs, sizes, words, strict=True)]


def _positive(rng: Rng, names: str, low: float = 1.0, high: float = 3.0) -> list[Value]:
    return [Value(abs(v.data), v.name) for v in _values(rng, names, low, high)]


def product(rng: Rng) -> Value:
    """L = (a·b + c) · f."""
    a, b, c, f = _values(rng, "a b c f")
    e = a * b
    d = e + c
    loss: Value = _named(e=e, d=d, L=d * f)
    return loss


def reuse(rng: Rng) -> Value:
    """L = (x·y + x) · y: both inputs are used twice."""
    x, y = _values(rng, "x y")
    p = x * y
    s = p + x
    loss: Value = _named(p=p, s=s, L=s * y)
    return loss


def neuron(rng: Rng) -> Value:
    """L = (tanh(x1·w1 + x2·w2 + b) - y)²."""
    x1, x2, w1, w2 = _values(rng, "x1 x2 w1 w2", 0.25, 1.5)
    b, y = _values(rng, "b y", 0.0, 0.75)
    p, q = x1 * w1, x2 * w2
    s = p + q
    z = s + b
    h = z.tanh()
    d = h - y
    loss: Value = _named(p=p, q=q, s=s, z=z, h=h, d=d, L=d**2)
    return loss


def diamond(rng: Rng) -> Value:
    """L = tanh(s) · (s + c), s = a·b: two paths part at s and meet again."""
    a, b, c = _values(rng, "a b c", 0.25, 1.25)
    s = a * b
    h = s.tanh()
    t = s + c
    loss: Value = _named(s=s, h=h, t=t, L=h * t)
    return loss


def powers(rng: Rng) -> Value:
    """L = 2x³ - y²/x."""
    x, y = _positive(rng, "x y", 1.25, 2.5)
    cube = x**3
    twice = cube * 2.0
    square = y**2
    q = square / x
    loss: Value = _named(cube=cube, twice=twice, square=square, q=q, L=twice - q)
    return loss


def logistic(rng: Rng) -> Value:
    """L = -ln p, p = sigmoid(w·x + b): logistic regression on one example of class 1."""
    w, x = _values(rng, "w x", 0.25, 1.75)
    (b,) = _values(rng, "b", 0.0, 1.0)
    p = w * x
    z = p + b
    s = z.sigmoid()
    n = s.log()
    loss: Value = _named(u=p, z=z, p=s, n=n, L=-n)
    return loss


def distance(rng: Rng) -> Value:
    """L = a·√(x² + y²) / y."""
    x, y, a = _positive(rng, "x y a", 0.75, 2.25)
    u, v = x * x, y * y
    s = u + v
    r = s.sqrt()
    m = a * r
    loss: Value = _named(u=u, v=v, s=s, r=r, m=m, L=m / y)
    return loss


def network(rng: Rng) -> Value:
    """Two inputs, two neurons, one output: L = (v1·h1 + v2·h2 - y)²."""
    x1, x2, w11, w12, w21, w22 = _values(rng, "x1 x2 w11 w12 w21 w22", 0.0, 1.75)
    v1, v2, y = _values(rng, "v1 v2 y", 0.5, 2.0)
    p11, p12, p21, p22 = x1 * w11, x2 * w12, x1 * w21, x2 * w22
    z1, z2 = p11 + p12, p21 + p22
    h1, h2 = z1.tanh(), z2.tanh()
    o1, o2 = v1 * h1, v2 * h2
    out = o1 + o2
    d = out - y
    loss: Value = _named(
        p11=p11, p12=p12, p21=p21, p22=p22, z1=z1, z2=z2, h1=h1, h2=h2, o1=o1, o2=o2, out=out,
        d=d, L=d**2,
    )  # fmt: skip
    return loss


def softmax_of_two(rng: Rng) -> Value:
    """L = -ln(eᵃ / (eᵃ + eᵇ)): the cross entropy of two scores, by hand."""
    a, b = _values(rng, "a b", 0.25, 1.75)
    ea, eb = a.exp(), b.exp()
    total = ea + eb
    p = ea / total
    n = p.log()
    loss: Value = _named(ea=ea, eb=eb, total=total, p=p, n=n, L=-n)
    return loss


def _array(rng: Rng, name: str, *shape: int, tracked: bool = True) -> Tensor:
    """Tenths between -1.5 and 1.5, none of them 0."""
    sizes = 0.1 * rng.integers(2, 16, size=shape)
    signs = rng.choice([-1.0, 1.0], size=shape)
    return Tensor(np.round(sizes * signs, 1), requires_grad=tracked, name=name)


def regression(rng: Rng) -> Tensor:
    """loss = mean((x @ w + b - y)²), four examples, two outputs."""
    x, y = _array(rng, "x", 4, 3, tracked=False), _array(rng, "y", 4, 2, tracked=False)
    w, b = _array(rng, "w", 3, 2), _array(rng, "b", 2)
    p = x @ w
    out = p + b
    d = out - y
    square = d**2
    loss: Tensor = _named(p=p, out=out, d=d, square=square, L=mean(square))
    return loss


def layers(rng: Rng) -> Tensor:
    """Two layers with square weights: L = mean((tanh(x @ w1 + b1) @ w2 + b2 - y)²)."""
    x, y = _array(rng, "x", 3, 3, tracked=False), _array(rng, "y", 3, 3, tracked=False)
    w1, b1 = _array(rng, "w1", 3, 3), _array(rng, "b1", 3)
    w2, b2 = _array(rng, "w2", 3, 3), _array(rng, "b2", 3)
    p = x @ w1
    z = p + b1
    h = tanh(z)
    q = h @ w2
    out = q + b2
    d = out - y
    square = d**2
    loss: Tensor = _named(p=p, z=z, h=h, q=q, out=out, d=d, square=square, L=mean(square))
    return loss


def residual(rng: Rng) -> Tensor:
    """A residual block: e = x @ w0, then L = mean((e + tanh(e @ w))²)."""
    x = _array(rng, "x", 2, 3, tracked=False)
    w0, w = _array(rng, "w0", 3, 3), _array(rng, "w", 3, 3)
    e = x @ w0
    p = e @ w
    h = tanh(p)
    s = e + h
    square = s * s
    loss: Tensor = _named(e=e, p=p, h=h, s=s, square=square, L=mean(square))
    return loss


def softmax(rng: Rng) -> Tensor:
    """Softmax and cross entropy by hand, for three examples of three classes."""
    x = _array(rng, "x", 3, 2, tracked=False)
    target = Tensor(np.eye(3)[rng.permutation(3)], name="target")
    w, b = _array(rng, "w", 2, 3), _array(rng, "b", 3)
    p = x @ w
    z = p + b
    e = exp(z)
    total = sum(e, axis=1, keepdims=True)
    probs = e / total
    logs = log(probs)
    picked = logs * target
    s = sum(picked)
    loss: Tensor = _named(
        p=p, z=z, e=e, total=total, probs=probs, logs=logs, picked=picked, s=s, L=s * (-1 / 3)
    )
    return loss


def normalized(rng: Rng) -> Tensor:
    """A layer norm by hand: L = mean(((x - mean) / std · g + b) · y)."""
    x, y = _array(rng, "x", 3, 3), _array(rng, "y", 3, 3, tracked=False)
    g, b = _array(rng, "g", 3), _array(rng, "b", 3)
    mu = mean(x, axis=1, keepdims=True)
    c = x - mu
    square = c * c
    var = mean(square, axis=1, keepdims=True)
    std = sqrt(var)
    n = c / std
    scaled = n * g
    out = scaled + b
    weighted = out * y
    loss: Tensor = _named(
        mu=mu, c=c, square=square, var=var, std=std, n=n, scaled=scaled, out=out,
        weighted=weighted, L=mean(weighted),
    )  # fmt: skip
    return loss


def attention(rng: Rng) -> Tensor:
    """One head over three tokens: softmax(q @ kᵀ / √d) @ v, by hand."""
    x, y = _array(rng, "x", 3, 3), _array(rng, "y", 3, 3, tracked=False)
    wq, wk, wv = _array(rng, "wq", 3, 3), _array(rng, "wk", 3, 3), _array(rng, "wv", 3, 3)
    q, k, v = x @ wq, x @ wk, x @ wv
    kt = k.T
    s = q @ kt
    scores = s * float(3**-0.5)
    e = exp(scores)
    total = sum(e, axis=1, keepdims=True)
    weights = e / total
    out = weights @ v
    picked = out * y
    loss: Tensor = _named(
        q=q, k=k, v=v, kT=kt, s=s, scores=scores, e=e, total=total, A=weights, out=out,
        picked=picked, L=sum(picked),
    )  # fmt: skip
    return loss


PROGRAMS: dict[str, Program] = {
    "product": Program("a product of a sum", product),
    "reuse": Program("two inputs, each used twice", reuse),
    "neuron": Program("a neuron", neuron, trains=True),
    "diamond": Program("two paths that part and meet", diamond),
    "powers": Program("powers and a quotient", powers),
    "logistic": Program("logistic regression", logistic, trains=True),
    "distance": Program("a square root", distance),
    "network": Program("a network of three neurons", network, trains=True),
    "softmax of two": Program("a softmax of two scores", softmax_of_two),
    "regression": Program("linear regression", regression, trains=True),
    "layers": Program("two layers", layers, trains=True),
    "residual": Program("a residual block", residual, trains=True),
    "softmax": Program("softmax and cross entropy by hand", softmax, trains=True),
    "normalized": Program("a layer norm by hand", normalized, trains=True),
    "attention": Program("one head of attention by hand", attention, trains=True),
}
