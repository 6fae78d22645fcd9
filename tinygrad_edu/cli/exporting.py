"""`tinygrad-edu export`: a model in the form that other tools read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tinygrad_edu import lm

__all__ = ["Export"]

_WHAT = {
    "config.json": "its sizes and settings", "model.safetensors": "its weights",
    "tokenizer.json": "its vocabulary", "tokenizer_config.json": "how the vocabulary is used",
}  # fmt: skip


@dataclass(frozen=True)
class Export:
    """Write a model as other tools read it: a folder in Hugging Face's layout.

    A GPT is written as GPT-2, a Llama as Llama; adapters are merged first (`merge`).

    Attributes:
        run_folder: the folder of a run, or a model that comes with the package.
        output: the folder to write, a new or an empty one.
        dtype: of the weights; the last two halve the file, and round.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional]
    output: Annotated[Path, tyro.conf.arg(metavar="FOLDER"), tyro.conf.Positional]
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"

    def run(self) -> int:
        """Write it, and say what was written and how it is loaded."""
        folder = self.output
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise lm.RunError(
                f"{folder} exists and is not an empty folder; export into a new one, so that "
                "nothing is written over"
            )
        trained = lm.load_trained(self.run_folder)
        lm.save_huggingface(trained.model, folder, trained.tokenizer, self.dtype)
        model = trained.model
        print(f"{folder}: {type(model).__name__}, {model.num_parameters():,} numbers, {self.dtype}")
        for name, what in _WHAT.items():
            if (folder / name).exists():
                print(f"  {name:<22} {(folder / name).stat().st_size:>13,} bytes  {what}")
        whole = (folder / "tokenizer.json").exists()
        print("here:")
        if whole:
            print(f'  tinygrad-edu sample {folder} "prompt"')
        print(f'  lm.load_huggingface("{folder}")')
        print("with transformers:")
        print(f'  AutoModelForCausalLM.from_pretrained("{folder}")')
        if whole:
            print(f'  AutoTokenizer.from_pretrained("{folder}")')
        else:
            print("its tokenizer is another package's, and is not written")
        return 0
