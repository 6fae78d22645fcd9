# %% [markdown]
"""Where a NaN is born, and where a gradient dies (1 second).

Two things stop a network from learning and say nothing: a NaN, which spreads over every weight in
one step, and a gradient of 0, with which a weight never moves. Both have a birthplace.
"""

# %%
import numpy as np

import tinygrad_edu as tg

# %% [markdown]
# ## A NaN
# Probabilities, one of which is 0, and their entropy. 0·log 0 should be 0; a computer says
# 0 · (-∞) = NaN.

# %%
p = tg.tensor([0.5, 0.5, 0.0], requires_grad=True, name="p")
with np.errstate(all="ignore"):
    entropy = -(p * p.log()).sum()
print("The entropy of (½, ½, 0) comes out as", entropy.item(), "\n")
born = tg.why_nan(entropy)
print(born)

# %% [markdown]
# The cure it names: let `log` never see the 0.

# %%
safe = tg.where(p > 0, p, 1.0)
cured = -(p * safe.log()).sum()
cured.backward()
print("\nWith log(where(p > 0, p, 1)) it is", round(cured.item(), 6), "= ln 2, and the gradient is")
slopes = np.asarray(p.grad)
print(np.round(slopes, 4))

# %% [markdown]
# ## A gradient of 0
# Three units of a layer: one gets a number below 0 and one a very large one.

# %%
x = tg.tensor([-2.0, 1.0, 30.0], requires_grad=True, name="x")
for what, loss in (("relu", x.relu().sum()), ("tanh", x.tanh().sum()), ("x - x", (x - x).sum())):
    print(f"\n{what}:\n{tg.why_zero(x, loss)}")

# %% [markdown]
# ## A rule that is wrong
# An operation of one's own, whose derivative was written down wrongly: each operation is held to
# differences by itself, and the first that disagrees is named.

# %%
cube = tg.primitive("slipped_cube", lambda F, x: x * x * x, partials=[lambda x: 3 * x])
y = (cube(x * 0.1).exp() + x).sum()
slip = tg.bisect_gradient(y)
print(f"\nA slip in a rule:\n{slip}")

# %% [markdown]
# ## The claims, checked

# %%
assert born.pattern == "log 0" and born.index == (2,) and born.kind == "inf"
assert np.isnan(entropy.item()) and abs(cured.item() - np.log(2)) < 1e-6
assert np.isfinite(slopes).all()
assert [r.kind for r in tg.why_zero(x, x.relu().sum()).reasons] == ["dead relu"]
assert [r.kind for r in tg.why_zero(x, x.tanh().sum()).reasons] == ["saturated"]
assert [r.kind for r in tg.why_zero(x, (x - x).sum()).reasons] == ["cancels"]
assert slip.event is not None and slip.event.node.op.name == "slipped_cube"

print("""
Shown: a NaN is born in one operation, at one number, and that place can be
asked for; so can the place where a gradient becomes 0, or first is wrong.

How does one look at a hundred operations, such as those of a language model?""")
