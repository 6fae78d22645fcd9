"""What a model thinks comes next, beside what the text's true source says where that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinygrad_edu import text
from tinygrad_edu.lm.sampling import SamplingOptions, log_probabilities, probabilities
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
        drawn: the probability that it is drawn with, after temperature and filters; None where
            none are given.
    """

    symbol: str
    logit: float
    probability: float
    truth: float | None
    drawn: float | None = None


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
    """The source that the model's text was drawn from; None where nobody knows it.

    It knows symbols only: of longer tokens it cannot say how likely they are.
    """
    corpus = trained.config.corpus
    if not isinstance(trained.tokenizer, text.CharTokenizer):
        return None
    known = len(corpus) == 1 and corpus[0] in text.corpus_names()
    return text.load_corpus(corpus).source if known else None


def next_view(
    trained: Trained,
    context: str,
    source: text.Grammar | None = None,
    count: int = CANDIDATES,
    options: SamplingOptions | None = None,
) -> NextView:
    """The `count` likeliest symbols after `context`, with logits and probabilities.

    The source sees no more of the context than the model does. `options` tell how the next symbol
    is drawn.

    Raises:
        TokenizerError: a symbol that the model never saw.
        CorpusError: the source cannot have written the context.
        SamplingError: logits that are not finite.
    """
    whole = trained.tokenizer.encode_array(context)
    ids = whole[-trained.config.block_size :]
    seen = trained.tokenizer.decode(ids)
    rows = trained.predictor(cache=False)(ids[None, :])
    drawn = None if options is None else probabilities(rows, options, whole[None, :])[0]
    log_probability = log_probabilities(rows)[0]
    truth = None
    if source is not None:
        exact = source.next_probabilities(seen)
        every = range(trained.tokenizer.vocab_size)
        truth = np.array([exact.get(trained.tokenizer.decode([i]), 0.0) for i in every])
    order = np.argsort(-np.exp(log_probability), kind="stable")[:count]
    candidates = tuple(
        Candidate(
            trained.tokenizer.decode([int(i)]),
            float(rows[0, i]),
            math.exp(log_probability[i]),
            None if truth is None else float(truth[i]),
            None if drawn is None else float(drawn[i]),
        )
        for i in order
    )
    divergence = None
    if truth is not None:
        some = truth > 0
        divergence = float((truth[some] * (np.log(truth[some]) - log_probability[some])).sum())
    return NextView(seen, candidates, divergence)


def view_or_guess(
    trained: Trained,
    context: str,
    source: text.Grammar | None,
    count: int = CANDIDATES,
    options: SamplingOptions | None = None,
) -> NextView:
    """`next_view`; without the truth after what the source cannot have written."""
    try:
        return next_view(trained, context, source, count, options)
    except text.CorpusError:
        return next_view(trained, context, None, count, options)


def table(view: NextView) -> list[str]:
    """The view as lines of a table: symbol, logit, probability, how likely it is drawn, truth, and
    a bar of the probability; the rest that is not known is left out.
    """
    known, drawn = view.divergence is not None, view.candidates[0].drawn is not None
    lines = [f"after {shown(view.context)}"]
    heading = "  next     logit   model"
    lines.append(heading + ("   drawn" if drawn else "") + ("   truth" if known else ""))
    for row in view.candidates:
        line = f"  {shown(row.symbol):<6} {row.logit:7.2f} {row.probability:7.3f}"
        for more in (row.drawn, row.truth):
            if more is not None:
                line += f" {more:7.3f}"
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
