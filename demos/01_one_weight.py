# %% [markdown]
"""One weight on a slope (1 second).

The smallest model there is: one number w, and a loss that is 0 where w is right, L = w². The slope
dL/dw says which way is up, and how steep it is there. Gradient descent steps down, by η times the
slope, again and again:

    w  <-  w - η · dL/dw

Nothing else ever happens in training; a large language model has more weights, and a longer L.
"""

# %%
import tinygrad_edu as tg

START = 3.0


def descend(learning_rate: float, steps: int) -> list[tuple[float, float, float]]:
    """Walk down L = w² from `START`: (w, loss, slope) before each step, and at the end."""
    w = tg.Value(START, name="w")
    path = []
    for _ in range(steps + 1):
        loss = w * w
        w.grad = 0.0
        loss.backward()
        path.append((w.data, loss.data, w.grad))
        w.data -= learning_rate * w.grad
    return path


# %% [markdown]
# A row of the table is a step; on the right, where w stands between -6 and 6, and the valley's
# bottom as a line. `<` and `>`: it has left the picture.

# %%
REACH, HALF = 6.0, 14


def picture(w: float) -> str:
    """A line of 2·HALF + 1 characters from -REACH to REACH, with w on it."""
    cells = ["·"] * (2 * HALF + 1)
    cells[HALF] = "│"
    if abs(w) <= REACH:
        cells[HALF + round(HALF * w / REACH)] = "●"
    else:
        cells[-1 if w > 0 else 0] = ">" if w > 0 else "<"
    return "".join(cells)


def show(learning_rate: float, verdict: str, steps: int = 8) -> None:
    """Print the first steps of a descent, one a line."""
    factor = 1 - 2 * learning_rate
    print(f"\nη = {learning_rate}: each step multiplies w by 1 - 2η = {factor:+.1f}. {verdict}\n")
    print(f"{'step':>4} {'w':>9} {'L = w²':>9} {'dL/dw':>9} {'-η·dL/dw':>9}   -6{'w':^26}6")
    for step, (w, loss, slope) in enumerate(descend(learning_rate, steps)):
        update = -learning_rate * slope + 0.0  # so that no step reads -0.0000
        print(f"{step:>4} {w:>9.4f} {loss:>9.4f} {slope:>9.4f} {update:>9.4f}   {picture(w)}")


# %% [markdown]
# ## Four learning rates

# %%
print("One weight on a slope: L = w², from w = 3, by w <- w - η · dL/dw")
show(0.1, "It converges:\nthe slope flattens near the bottom, so the steps shrink by themselves.")
show(0.5, "One step, and it is there:\nthis slope's own best η, which no one knows beforehand.", 3)
show(1.0, "It swings for ever:\neach step lands just as high on the other side.")
show(1.1, "It diverges:\neach step lands higher than the last.")

# %% [markdown]
# ## The claims, checked
# The slope of w² is 2w, so a step is w - η·2w = w·(1 - 2η): whatever w is, the factor is the same.

# %%
for eta in (0.1, 0.5, 1.0, 1.1):
    factor = 1 - 2 * eta
    for step, (w, loss, slope) in enumerate(descend(eta, steps=50)):
        exact = START * factor**step
        assert abs(w - exact) <= 1e-12 * abs(exact), (eta, step)
        assert loss == w * w
        assert slope == 2 * w

assert abs(descend(0.1, steps=50)[-1][0]) < 1e-4
assert [w for w, _, _ in descend(0.5, steps=3)] == [3.0, 0.0, 0.0, 0.0]
assert {loss for _, loss, _ in descend(1.0, steps=50)} == {9.0}
assert abs(descend(1.1, steps=50)[-1][0]) > 27_000

# %%
print("""
Shown: a step is η times the slope, against it. On L = w² that multiplies w by
1 - 2η, so w reaches 0 for η between 0 and 1, swings for ever at η = 1, and runs
away beyond. (Each number above was checked against 3·(1 - 2η)^step.)

Here the slope was 2w, and one could see that. When L is a long chain of
multiplications, sums and tanhs, who works out the slope of every weight in it?
""")
