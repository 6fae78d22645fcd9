# %% [markdown]
"""A backward pass, walked (1 second).

A loss is made by operations, each on a few numbers; together they are a graph. Its gradients are
found from the end: the loss changes with itself by 1, and each operation hands to its inputs what
has arrived at it, times its own slope:

    ∂L/∂input  +=  ∂L/∂result · ∂result/∂input

That is all there is to backpropagation. Here it is, one operation at a time.
"""

# %%
import tinygrad_edu as tg

a = tg.Value(2.0, name="a")
b = tg.Value(-3.0, name="b")
c = tg.Value(10.0, name="c")
e = a * b
d = e + c
loss = d * e

# %% [markdown]
# ## The graph
# From the result at the top to what it was made from. `e` is used twice, and drawn once:
# `tg.draw(loss).save("loss.svg")` makes a picture of it, `.html` a page to walk around in.

# %%
print("The graph of (a·b + c)·(a·b):\n")
tg.print_graph(loss)

# %% [markdown]
# ## The pass, forward and back
# `n` is the next event, `rn` the one before, `p` looks at a number as it is at that moment. Without
# `commands` it asks at a prompt: try `tg.debug(loss)`.

# %%
print("\nIts backward pass, as tg.debug(loss) walks it:\n")
tg.debug(loss, commands=["n", "n", "rn", "n", "p e.grad", "b second", "n", "ledger e"])

# %% [markdown]
# ## Why is it that number?
# Each way from `a` to the loss adds the product of the slopes along it.

# %%
print("\nThe gradient of a, as the sum over paths that it is:\n")
paths = tg.explain(a, loss)
print(paths)

# %% [markdown]
# ## The claims, checked
# L = e² + c·e with e = a·b, so ∂L/∂e = 2e + c and ∂L/∂a = (2e + c)·b, both of which one may also
# find by changing a a little.

# %%
log = tg.record(loss)
assert float(log.gradient(e)) == 2 * e.data + c.data == -2.0
assert float(log.gradient(a)) == -2.0 * b.data == paths.total == 6.0
assert [path.contribution for path in paths.paths] == [18.0, -12.0]


def value_at(number: float) -> float:
    """The loss with another a."""
    return (number * b.data + c.data) * (number * b.data)


slope = (value_at(2.0 + 1e-6) - value_at(2.0 - 1e-6)) / 2e-6
assert abs(slope - 6.0) < 1e-6
assert a.grad == 0.0  # looking has changed nothing

print(f"""
Shown: from the loss back, each operation hands on what arrived times its slope;
a value used twice adds up what it gets. ∂L/∂a = 6; a nudge of a says {slope:.6f}.

What is it that goes wrong when a gradient comes out as NaN, or as 0?""")
