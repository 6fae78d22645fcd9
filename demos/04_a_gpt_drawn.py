# %% [markdown]
"""A language model, drawn (2 seconds).

A GPT of four layers is a graph of some ninety operations and weights, and most of it is the same
block again and again. Drawn whole it is a wall; folded it is a page: modules become boxes, and
blocks that are equal in every operation, shape and arrow are drawn once.
"""

# %%
import tempfile
from pathlib import Path

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu import lm

tg.manual_seed(0)
model = lm.GPT(
    lm.GPTConfig(vocab_size=31, block_size=16, num_layers=4, num_heads=2, embed_dim=32)
)
ids = np.random.default_rng(0).integers(0, 31, (2, 16))
loss = tg.cross_entropy(model(ids), ids)
loss.backward()

# %% [markdown]
# ## From everything to one box

# %%
print("One picture, folded more and more:\n")
for collapse, what in (
    ("none", "everything"), ("auto", "readable: equal blocks once"), (2, "two levels of modules"),
    (1, "one level"), ("all", "the model as a box"),
):  # fmt: skip
    picture = tg.draw(loss, collapse=collapse).picture()
    print(f"  collapse={collapse!r:<8} {len(picture.boxes):>3} boxes   {what}")

# %% [markdown]
# ## One level, in the terminal

# %%
print("\nOne level deep, from the loss down to the tokens:\n")
tg.print_graph(loss, collapse=1)

# %% [markdown]
# ## As a picture, coloured by the size of each gradient
# Blue where it vanishes, orange where it explodes, beside the median of the picture.

# %%
drawing = tg.draw(loss, overlay="gradient")
with tempfile.TemporaryDirectory() as folder:
    try:
        size = drawing.save(Path(folder) / "gpt.svg").stat().st_size
        print(f"\ntg.draw(loss, overlay='gradient').save('gpt.svg'): {size // 1000} kB")
    except tg.DrawingError as error:
        print(f"\nNo picture here: {error}")

# %% [markdown]
# ## The claims, checked
# Folding hides no difference: a module with another operation is not folded with the rest, and the
# same numbers come out.

# %%
auto = tg.draw(loss).picture()
assert any("blocks.0 … blocks.3 × 4" in name for box in auto.boxes for name in box.module)
opened = tg.draw(loss, collapse="none").picture()
assert sum(box.count for box in auto.boxes) == len(opened.boxes)

print(f"""
Shown: {len(opened.boxes)} boxes fold to {len(auto.boxes)} without hiding a difference, and to a few
where one level is enough; colours show where gradients vanish or explode.

Can such a model be trained, from the first step to the last, on real text?""")
