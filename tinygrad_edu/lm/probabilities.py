"""What a model thinks comes next, beside what the text's true source says where that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinygrad_edu import text
from tinygrad_edu.lm.trained import Trained

CANDIDATES = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A symbol that may come next.

    Attributes:
        symbol: the character.
        logit: what the model gives it, before softmax.
        probability: after softmax.
        truth: its true probability; None where the source is not known.
    """

    symbol: str
    logit: float
    probability: float
    truth: float | None


@dataclass(frozen=True, slots=True)
class NextView:
    """The next symbol after a context.

    Attributes:
        context: what came before, as far as the model sees it.
        candidates: the likeliest, by the model or by the truth, the model's favourite first.
        divergence: KL(truth | model) over all symbols, in nats: what believing the model costs
            beyond what cannot be known. None where the truth is not known.
    """

    context: str
    candidates: tuple[Candidate, ...]
    divergence: float | None


def source_of(trained: Trained) -> text.Grammar | None:
    """The source that the model's text was drawn from; None where nobody knows it."""
    corpus = trained.config.corpus
    known = len(corpus) == 1 and corpus[0] in text.corpus_names()
    return text.load_corpus(corpus).source if known else None


def next_view(
    trained: Trained, context: str, source: text.Grammar | None = None, count: int = CANDIDATES
) -> NextView:
    """The `count` likeliest symbols after `context`, with logits and probabilities.

    The source sees no more of the context than the model does.

    Raises:
        TokenizerError: a symbol that the model never saw.
        CorpusError: the source cannot have written the context.
    """
    ids = trained.tokenizer.encode_array(context)[-trained.config.block_size :]
    seen = trained.tokenizer.decode(ids)
    logits = trained.model.next_logits(ids[None, :])[0]
    wide = logits.astype(np.float64)
    wide -= wide.max()
    log_probability = wide - math.log(np.exp(wide).sum())
    truth = None
    if source is not None:
        exact = source.next_probabilities(seen)
        every = range(trained.tokenizer.vocab_size)
        truth = np.array([exact.get(trained.tokenizer.decode([i]), 0.0) for i in every])
    order = np.argsort(-np.exp(log_probability), kind="stable")[:count]
    rows = tuple(
        Candidate(
            trained.tokenizer.decode([int(i)]),
            float(logits[i]),
            math.exp(log_probability[i]),
            None if truth is None else float(truth[i]),
        )
        for i in order
    )
    divergence = None
    if truth is not None:
        some = truth > 0
        divergence = float((truth[some] * (np.log(truth[some]) - log_probability[some])).sum())
    return NextView(seen, rows, divergence)


def view_or_guess(
    trained: Trained, context: str, source: text.Grammar | None, count: int = CANDIDATES
) -> NextView:
    """`next_view`; without the truth after what the source cannot have written."""
    try:
        return next_view(trained, context, source, count)
    except text.CorpusError:
        return next_view(trained, context, None, count)


def table(view: NextView) -> list[str]:
    """The view as lines of a table: symbol, logit, probability, truth, and a bar of each."""
    known = view.divergence is not None
    lines = [f"after {shown(view.context)}"]
    lines.append("  next     logit   model" + ("   truth" if known else ""))
    for row in view.candidates:
        line = f"  {shown(row.symbol):<6} {row.logit:7.2f} {row.probability:7.3f}"
        if row.truth is not None:
            line += f" {row.truth:7.3f}"
        lines.append(f"{line}  {'█' * round(30 * row.probability)}".rstrip())
    if known:
        lines.append(f"  KL(truth | model) = {view.divergence:.4f} nats")
    return lines


def row(symbol: str, view: NextView) -> str:
    """One line for a symbol that was written: what it and its rivals were worth."""
    rivals = "  ".join(
        f"{shown(c.symbol)} {c.probability:.2f}" + ("" if c.truth is None else f"/{c.truth:.2f}")
        for c in view.candidates[:4]
    )
    end = "" if view.divergence is None else f"  KL {view.divergence:.4f}"
    return f"{shown(symbol):<6} {rivals}{end}"


def shown(words: str, width: int = 60) -> str:
    """In quotes, with line breaks and the like as Python writes them; the end of what is long."""
    cut = words if len(words) <= width else "…" + words[-width:]
    return repr(cut)
