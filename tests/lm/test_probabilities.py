"""The next token as the model sees it, beside what is true."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinygrad_edu import lm, text
from tinygrad_edu.lm import probabilities
from tinygrad_edu.lm.trained import Trained
from tinygrad_edu.text import sentences


@pytest.fixture(scope="module")
def trained() -> Trained:
    """An untrained model of the grammar's symbols."""
    tokenizer = text.CharTokenizer.from_text(sentences.text())
    config = lm.TrainConfig(corpus=("grammar",), num_layers=1, num_heads=2, embed_dim=16)
    sizes = lm.GPTConfig(tokenizer.vocab_size, config.block_size, 1, 2, 16)
    return Trained(config, tokenizer, lm.GPT(sizes, np.random.default_rng(0)))


def test_probabilities_are_the_softmax_of_the_logits_and_the_truth_the_grammars(
    trained: Trained,
) -> None:
    grammar = sentences.grammar()
    view = probabilities.next_view(trained, "o gato ", grammar, count=36)
    assert len(view.candidates) == trained.tokenizer.vocab_size == 36
    exponentials = [math.exp(c.logit) for c in view.candidates]
    exact = grammar.next_probabilities("o gato ")
    divergence = 0.0
    for candidate, e in zip(view.candidates, exponentials, strict=True):
        assert candidate.probability == pytest.approx(e / sum(exponentials), rel=1e-9)
        assert candidate.truth == exact.get(candidate.symbol, 0.0)
        if candidate.truth:
            divergence += candidate.truth * math.log(candidate.truth / candidate.probability)
    assert view.divergence == pytest.approx(divergence, rel=1e-9)
    found = [c.probability for c in view.candidates]
    assert found == sorted(found, reverse=True)


def test_both_see_no_more_than_a_block(trained: Trained) -> None:
    long = sentences.text()[:500]
    block = trained.config.block_size
    view = probabilities.next_view(trained, long, sentences.grammar())
    assert view.context == long[-block:]
    assert view == probabilities.next_view(trained, long[-block:], sentences.grammar())


def test_without_a_source_there_is_no_truth(trained: Trained) -> None:
    view = probabilities.next_view(trained, "xqx")
    assert view.divergence is None and {c.truth for c in view.candidates} == {None}
    assert not any("truth" in line for line in probabilities.table(view))


def test_what_the_grammar_cannot_have_written_is_shown_without_truth(trained: Trained) -> None:
    with pytest.raises(text.CorpusError):
        probabilities.next_view(trained, "xqx", sentences.grammar())
    assert probabilities.view_or_guess(trained, "xqx", sentences.grammar()).divergence is None


def test_the_table_fits_80_columns_and_shows_both(trained: Trained) -> None:
    view = probabilities.next_view(trained, "onde está o menino?\n" * 4, sentences.grammar())
    lines = probabilities.table(view)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("after '…") and "\\n" in lines[0]
    assert lines[1].split() == ["next", "logit", "model", "truth"]
    assert len(lines) == 2 + probabilities.CANDIDATES + 1
    assert lines[-1].strip() == f"KL(truth | model) = {view.divergence:.4f} nats"
    assert len(probabilities.row("\n", view)) <= 80


def test_the_source_of_a_model_is_known_from_its_corpus(trained: Trained) -> None:
    from dataclasses import replace

    assert probabilities.source_of(trained) is sentences.grammar()
    docs = replace(trained, config=replace(trained.config, corpus=("python-docs",)))
    assert probabilities.source_of(docs) is None
    file = replace(trained, config=replace(trained.config, corpus=("grammar.txt",)))
    assert probabilities.source_of(file) is None
