"""A preparation gives the tokens of the text, in bounded memory, whatever stops it on its way."""

from __future__ import annotations

import errno
import hashlib
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_edu import text
from tinygrad_edu.text.journal import Partial
from tinygrad_edu.text.preparing import Preparation, is_prepared, prepare, read_prepared
from tinygrad_edu.text.token_writing import Progress

SENTENCES = "the cat's on 12 mats.\n\n  We'll see – été! \r\n"
FILES = ("tokens.bin", "tokenizer.json", "prepared.json")


class Stopped(BaseException):
    """Ends a preparation as the death of its process would."""


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, ...]:
    made = []
    for k, count in enumerate((14, 3, 9)):
        path = tmp_path / f"{k}.txt"
        path.write_bytes((f"{k} " + SENTENCES * count).encode()[:-1])
        made.append(str(path))
    return tuple(made)


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    path = tmp_path / "bpe.json"
    text.train_bpe(SENTENCES * 3, 290, special_tokens=["<|end|>"]).tokenizer.save(path)
    return str(path)


def small(asked: Preparation, folder: Path, told: Any = None, **options: Any) -> text.Prepared:
    return prepare(asked, folder, told, **{"block": 50, "piece": 37, "pause": 0, **options})


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stopping_at(call: int, error: type[BaseException] = Stopped) -> Callable[[Progress], None]:
    calls = iter(range(10**6))

    def told(progress: Progress) -> None:
        if next(calls) == call:
            raise error

    return told


@pytest.mark.parametrize("kind", ["characters", "file", "bpe"])
def test_tokens_are_those_of_the_whole_text(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path, kind: str
) -> None:
    asked = Preparation(texts, tokenizer if kind == "file" else kind, vocab_size=280)
    made = small(asked, tmp_path / "out")
    corpus = text.load_corpus(texts)
    if kind == "characters":
        expected: text.Tokenizer = text.CharTokenizer.from_text(corpus.text)
    elif kind == "bpe":
        training = corpus.text[: len(corpus.text) - int(len(corpus.text) * 0.1)]
        expected = text.train_bpe(training, 280).tokenizer
    else:
        expected = text.load_tokenizer(tokenizer)
    assert made.tokenizer == expected
    np.testing.assert_array_equal(made.file.tokens, expected.encode_array(corpus.text))
    digest = hashlib.sha256(corpus.text.encode()).digest()
    assert made.file.header.text == digest
    assert (made.name, made.characters) == (corpus.name, len(corpus.text))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    made.file.verify()


def test_documents_may_be_followed_by_a_token(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    made = small(Preparation(texts, tokenizer, separator="<|end|>"), tmp_path / "out")
    own = text.load_tokenizer(tokenizer)
    assert isinstance(own, text.BPETokenizer)
    expected: list[int] = []
    for path in texts:
        expected += own.encode(text.load_corpus(path).text) + [own.special_tokens["<|end|>"]]
    assert made.file.tokens.tolist() == expected
    learnt = small(Preparation(texts, "bpe", 270, separator="<|end|>"), tmp_path / "learnt")
    assert learnt.file.tokens.tolist().count(269) == 3
    whole = learnt.tokenizer.decode(learnt.file.tokens)
    assert hashlib.sha256(whole.encode()).digest() == learnt.file.header.text


@pytest.mark.parametrize(
    ("kind", "separator"), [("characters", ""), ("file", ""), ("file", "<|end|>"), ("bpe", "")]
)
def test_stopped_anywhere_and_gone_on_with_gives_the_same_bytes(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path, kind: str, separator: str
) -> None:
    asked = Preparation(
        texts, tokenizer if kind == "file" else kind, 280, separator=separator
    )
    calls: list[Progress] = []
    small(asked, tmp_path / "whole", calls.append)
    for stop in range(2, len(calls), max(1, len(calls) // 5)):
        folder = tmp_path / f"parts-{stop}"
        with pytest.raises(Stopped):
            small(asked, folder, stopping_at(stop))
        assert is_prepared(folder) and not (folder / "prepared.json").exists()
        with pytest.raises(text.PreparationError, match="was not finished; give its"):
            read_prepared(folder)
        again: list[Progress] = []
        small(asked, folder, again.append, piece=11, block=23)
        assert bytes_of(folder) == bytes_of(tmp_path / "whole")
    assert again[0].doing == "reading again what was done" and again[-1].share > 0.97


def test_gone_on_with_it_does_not_begin_anew(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, calls = Preparation(texts, tokenizer), []
    small(asked, tmp_path / "whole", calls.append)
    with pytest.raises(Stopped):
        small(asked, tmp_path / "out", stopping_at(len(calls) - 3))
    encoded: list[int] = []
    plain = text.BPETokenizer.encode_chunks
    monkeypatch.setattr(
        text.BPETokenizer, "encode_chunks",
        lambda self, chunks: encoded.append(sum(map(len, chunks))) or plain(self, chunks),
    )  # fmt: skip
    small(asked, tmp_path / "out")
    assert 0 < sum(encoded) < 300


SHARES = st.floats(0, 1)


@settings(max_examples=12)
@given(SHARES, SHARES, SHARES, st.booleans(), st.booleans())
def test_files_cut_or_spoilt_at_any_place_are_made_good(
    tmp_path_factory: pytest.TempPathFactory, stopped: float, of_tokens: float, of_journal: float,
    zeros_for_tokens: bool, zeros_for_journal: bool,
) -> None:  # fmt: skip
    """What a machine that went down may leave: the tail of either file lost, or made of zeros."""
    base = tmp_path_factory.mktemp("cut")
    source = base / "a.txt"
    source.write_text(SENTENCES * 12, encoding="utf-8")
    asked = Preparation((str(source),), "bpe", 270)
    calls: list[Progress] = []
    small(asked, base / "whole", calls.append)
    learning = sum(call.doing != "encoding" for call in calls)
    stop = learning + int(stopped * (len(calls) - 1 - learning))
    with pytest.raises(Stopped):
        small(asked, base / "out", stopping_at(stop))
    spoil(base / "out" / "tokens.bin.partial", 0, of_tokens, zeros_for_tokens)
    journal = base / "out" / "journal.jsonl"
    spoil(journal, journal.read_bytes().index(b"\n") + 1, of_journal, zeros_for_journal)
    small(asked, base / "out")
    assert bytes_of(base / "out") == bytes_of(base / "whole")


def test_tokens_that_were_lost_behind_the_journal_are_made_again(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    """The length is right and the journal whole, but a block of the disk holds zeros."""
    asked = Preparation(texts, tokenizer)
    interrupted(asked, tmp_path / "out")
    partial = tmp_path / "out" / "tokens.bin.partial"
    spoil(partial, 0, 0.6, zeros=True)
    small(asked, tmp_path / "out")
    small(asked, tmp_path / "whole")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")


def spoil(path: Path, least: int, share: float, zeros: bool) -> None:
    content = path.read_bytes()
    end = least + int(share * (len(content) - least))
    path.write_bytes(content[:end] + (b"\0" * (len(content) - end) if zeros else b""))


@pytest.mark.parametrize("place", [("preparing", "_facts"), ("token_writing", "sync_folder")])
def test_stopped_between_the_last_two_files(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    place: tuple[str, str],
) -> None:  # fmt: skip
    asked = Preparation(texts, tokenizer)
    small(asked, tmp_path / "whole")
    def died(*_: Any) -> Any:
        raise Stopped

    with monkeypatch.context() as patched:
        module, name = place
        patched.setattr(f"tinygrad_edu.text.{module}.{name}", died)
        with pytest.raises(Stopped):
            small(asked, tmp_path / "out")
    assert (tmp_path / "out" / "tokens.bin").exists()
    small(asked, tmp_path / "out")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")


def interrupted(asked: Preparation, folder: Path) -> None:
    """Stopped when about a half is encoded."""

    def told(progress: Progress) -> None:
        if progress.doing == "encoding" and progress.share > 0.5:
            raise Stopped

    with pytest.raises(Stopped):
        small(asked, folder, told)


def test_a_text_that_has_changed_is_refused(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    asked, first = Preparation(texts, tokenizer), Path(texts[0])
    interrupted(asked, tmp_path / "out")
    journal = tmp_path / "out" / "journal.jsonl"
    before, content = journal.read_bytes(), first.read_bytes()
    first.write_bytes(content.replace(b"1", b"7", 1))
    with pytest.raises(text.PreparationError, match="the text has changed since the preparation"):
        small(asked, tmp_path / "out")
    first.write_bytes(content + b"more")
    with pytest.raises(text.PreparationError, match=r"have changed since \(they have other sizes"):
        small(asked, tmp_path / "out")
    first.write_bytes(content)
    assert journal.read_bytes() == before
    small(asked, tmp_path / "out")
    small(asked, tmp_path / "whole")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")


def test_a_text_that_changes_behind_its_vocabulary_is_refused(
    texts: tuple[str, ...], tmp_path: Path
) -> None:
    asked, last = Preparation(texts, "bpe", 270), Path(texts[-1])
    interrupted(asked, tmp_path / "out")
    last.write_bytes(last.read_bytes().replace(b"mats", b"cats"))
    with pytest.raises(text.PreparationError, match=r"since the vocabulary in .* was learnt"):
        small(asked, tmp_path / "out")


def test_another_request_is_refused(texts: tuple[str, ...], tokenizer: str, tmp_path: Path) -> None:
    asked = Preparation(texts, tokenizer)
    interrupted(asked, tmp_path / "out")
    for other, said in [
        (replace(asked, tokenizer="bpe"), "begun with other tokenizer"),
        (replace(asked, sources=texts[:2]), "with other sources"),
        (replace(asked, separator="<|end|>"), "with other separator: '' and not '<|end|>'"),
    ]:
        with pytest.raises(text.PreparationError, match=said.replace("|", r"\|")):
            small(other, tmp_path / "out")
    small(asked, tmp_path / "out")
    with pytest.raises(text.PreparationError, match="a finished preparation with other tokenizer"):
        small(replace(asked, tokenizer="characters"), tmp_path / "out")


def test_a_tokenizer_that_has_changed_is_refused(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    interrupted(Preparation(texts, tokenizer), tmp_path / "out")
    text.train_bpe("other " * 9, 260, special_tokens=["<|end|>"]).tokenizer.save(tokenizer)
    with pytest.raises(text.PreparationError, match="not the tokenizer any more"):
        small(Preparation(texts, tokenizer), tmp_path / "out")


def test_done_is_done_and_looked_over(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    asked = Preparation(texts, tokenizer)
    small(asked, tmp_path / "out")
    before = bytes_of(tmp_path / "out")
    small(asked, tmp_path / "out", stopping_at(0))
    assert bytes_of(tmp_path / "out") == before
    path = tmp_path / "out" / "tokens.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(text.CorpusError, match="not those that were written"):
        small(asked, tmp_path / "out")


def test_what_cannot_be_prepared_is_said(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").write_text("mine")
    with pytest.raises(text.PreparationError, match="not an empty folder"):
        small(Preparation(texts, tokenizer), tmp_path / "taken")
    with pytest.raises(text.TokenizerError, match=r"separator '<s>' is no special token.*<\|end"):
        small(Preparation(texts, tokenizer, separator="<s>"), tmp_path / "a")
    letters = tmp_path / "letters.json"
    text.CharTokenizer("the ca's012").save(letters)
    with pytest.raises(text.TokenizerError, match="begins behind 0 characters, 'o' "):
        small(Preparation(texts, str(letters)), tmp_path / "b")
    same = tmp_path / "same.txt"
    same.write_text("a" * 500)
    with pytest.raises(text.CorpusError, match=r"same\.txt holds 500 characters, all of them 'a'"):
        small(Preparation((str(same),)), tmp_path / "c")
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"ok " * 200 + b"\xff")
    with pytest.raises(text.CorpusError, match=r"byte 600 \(line 1\) is 0xff"):
        small(Preparation((str(bad),), tokenizer), tmp_path / "d")


def test_a_full_disk_keeps_what_is_done(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Preparation(texts, tokenizer)
    small(asked, tmp_path / "whole")
    plain = Partial.add

    def full(self: Partial, data: bytes) -> None:
        if self.path.stat().st_size > 400:
            raise OSError(errno.ENOSPC, "No space left on device")
        plain(self, data)

    with monkeypatch.context() as patched:
        patched.setattr(Partial, "add", full)
        with pytest.raises(text.PreparationError, match=r"no room for the tokens .* make room"):
            small(asked, tmp_path / "out")
    lines = (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["tokens"] > 100
    small(asked, tmp_path / "out")
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")


@pytest.mark.parametrize("kind", ["characters", "bpe", "file"])
def test_memory_does_not_grow_with_the_text(tmp_path: Path, tokenizer: str, kind: str) -> None:
    peaks = []
    for count in (1, 8):
        path = tmp_path / f"{count}.txt"
        path.write_text(SENTENCES * (2_500 * count), encoding="utf-8")
        asked = Preparation((str(path),), tokenizer if kind == "file" else kind, 270)
        tracemalloc.start()
        prepare(asked, tmp_path / f"out-{count}", block=1 << 12, piece=1 << 12)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    size = (tmp_path / "8.txt").stat().st_size
    assert peaks[1] < 1.2 * peaks[0] + 50_000 and peaks[1] < size


def test_progress_tells_the_share_and_the_time_left(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    times = iter(np.arange(0.0, 10_000.0))
    heard: list[Progress] = []
    small(Preparation(texts, tokenizer), tmp_path / "out", heard.append, clock=lambda: next(times))
    shares = [p.share for p in heard]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1, abs=0.03)
    assert [p.tokens for p in heard] == sorted(p.tokens for p in heard)
    middle = heard[len(heard) // 2]
    assert middle.left == pytest.approx(middle.seconds * (1 - middle.share) / middle.share)


def test_what_could_not_be_prepared_leaves_the_folder_free(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    letters, same, bad = tmp_path / "letters.json", tmp_path / "same.txt", tmp_path / "bad.txt"
    text.CharTokenizer("\n theca's012").save(letters)
    same.write_text("a" * 500)
    bad.write_bytes(b"ok " * 200 + b"\xff")
    for asked in (
        Preparation(texts, str(letters)),
        Preparation(texts, tokenizer, separator="<s>"),
        Preparation((str(same),)),
        Preparation((str(bad),), "bpe", 260),
        Preparation((str(bad),), tokenizer),
    ):
        with pytest.raises((text.CorpusError, text.TokenizerError)):
            small(asked, tmp_path / "out", pause=60)
        assert bytes_of(tmp_path / "out") == {}
    small(Preparation(texts, tokenizer), tmp_path / "out")


def test_an_error_late_in_the_text_keeps_what_the_journal_has(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path
) -> None:
    last = Path(texts[-1])
    whole = last.read_bytes()
    last.write_bytes(whole[:-1] + b"\xff")
    with pytest.raises(text.CorpusError, match="0xff"):
        small(Preparation(texts, tokenizer), tmp_path / "out")
    last.write_bytes(whole)
    heard: list[Progress] = []
    small(Preparation(texts, tokenizer), tmp_path / "out", heard.append)
    assert heard[0].doing == "reading again what was done" and heard[0].share > 0


@pytest.mark.parametrize("damage", ['{"format": 1}', "[]", "{", "", '{"format": 1, "name": 3}'])
def test_a_damaged_manifest_is_a_sentence(
    texts: tuple[str, ...], tokenizer: str, tmp_path: Path, damage: str
) -> None:
    small(Preparation(texts, tokenizer), tmp_path / "out")
    path = tmp_path / "out" / "prepared.json"
    manifest = json.loads(path.read_bytes())
    path.write_text(damage)
    with pytest.raises(text.PreparationError, match=r"prepared\.json .*prepare the text again"):
        read_prepared(tmp_path / "out")
    for name in ("name", "sources", "characters", "text_sha256"):
        path.write_text(json.dumps({k: v for k, v in manifest.items() if k != name}))
        with pytest.raises(text.PreparationError, match=f"its '{name}' is missing"):
            read_prepared(tmp_path / "out")


@pytest.mark.parametrize("damage", [None, "", "{}", "[]"])
def test_a_vocabulary_whose_text_is_not_known_is_refused(
    texts: tuple[str, ...], tmp_path: Path, damage: str | None
) -> None:
    asked = Preparation(texts, "bpe", 270)
    interrupted(asked, tmp_path / "out")
    path = tmp_path / "out" / "learnt.json"
    path.unlink()
    if damage is not None:
        path.write_text(damage)
    with pytest.raises(text.PreparationError, match=r"learnt\.json is missing or damaged"):
        small(asked, tmp_path / "out")
