r"""Tokenizer files that other tools read and write: Hugging Face's `tokenizer.json`, GPT-2's
`vocab.json` with `merges.txt`, and tiktoken's base64 ranks.

All are UTF-8 with "\\n" at line ends on every system. A file that is none of these, or that would
give other ids here than there, is refused with a sentence that says why. Ids are kept, whatever
their order. What is not of the vocabulary is left aside: what a tokenizer.json adds around a text
(post_processor), and where it cuts or pads one (truncation, padding).
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tinygrad_edu.files import write_atomically
from tinygrad_edu.text.bpe import BPETokenizer
from tinygrad_edu.text.chunks import BYTE_ORDER, GPT2_PATTERN
from tinygrad_edu.text.errors import TokenizerError
from tinygrad_edu.text.joining import Pair

__all__ = [
    "load_gpt2", "load_tiktoken", "read_tokenizer_json", "save_gpt2", "save_tiktoken",
    "write_tokenizer_json",
]  # fmt: skip

_STAND_IN = dict(
    zip(
        BYTE_ORDER,
        [chr(b) for b in BYTE_ORDER if chr(b).isprintable() and chr(b) != " "]
        + [chr(256 + n) for n in range(68)],
        strict=True,
    )
)
"""The character that stands for each byte in vocab.json and merges.txt: itself where it can be
printed, else one from U+0100 on."""

_DIGITS = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
"""GPT-2's split of what lies between digits, each of which is a chunk of its own."""
_WHOLE = r"[\s\S]+"


def _shown(token: bytes) -> str:
    return "".join(_STAND_IN[b] for b in token)


def _vocabulary(tokenizer: BPETokenizer, where: Path) -> dict[str, int]:
    """The names of all tokens that are not special, with their ids.

    Raises:
        TokenizerError: a special token has the name of another, which such a file cannot hold.
    """
    found = dict(zip(map(_shown, tokenizer.tokens), tokenizer.numbers, strict=True))
    both = sorted(set(found) & set(tokenizer.special_tokens))
    if both:
        raise TokenizerError(
            f"{where} was not written: the special token {both[0]!r} is an ordinary token's name "
            "as well, and such a file has one id a name; give it a name that no text has, such as "
            f"'<|{both[0]}|>'"
        )
    return found


# Hugging Face


def write_tokenizer_json(tokenizer: BPETokenizer, path: Path) -> None:
    """Write what `tokenizers.Tokenizer.from_file` reads."""
    split: dict[str, Any] = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
        "use_regex": tokenizer.pattern == GPT2_PATTERN,
    }  # fmt: skip
    if tokenizer.pattern != GPT2_PATTERN:
        split = {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split", "pattern": {"Regex": tokenizer.pattern},
                    "behavior": "Isolated", "invert": False,
                },
                split,
            ],
        }  # fmt: skip
    vocab = _vocabulary(tokenizer, path)
    names = list(vocab)
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number, "content": name, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True,
            }
            for name, number in sorted(tokenizer.special_tokens.items(), key=lambda s: s[1])
        ],
        "normalizer": None,
        "pre_tokenizer": split,
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True,
        },
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False,
            # Special ones too: of those that are not here, other readers do not keep the ids.
            "vocab": dict(sorted((vocab | tokenizer.special_tokens).items(), key=lambda t: t[1])),
            "merges": [[names[a], names[b]] for a, b in tokenizer.merges],
        },
    }  # fmt: skip
    write_atomically(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def read_tokenizer_json(path: Path) -> BPETokenizer:
    """Read a `tokenizer.json` of byte-level BPE.

    Raises:
        TokenizerError: no such file, or a tokenizer of another kind; says in what it differs.
    """
    content = _json(path)
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        kind = model.get("type") if isinstance(model, dict) else None
        raise TokenizerError(f"{path} holds no BPE model but {kind!r}; this reads byte-level BPE")
    for what, plain in (
        ("continuing_subword_prefix", (None, "")), ("end_of_word_suffix", (None, "")),
        ("byte_fallback", (None, False)), ("ignore_merges", (None, False)),
        ("dropout", (None, 0)),
    ):  # fmt: skip
        if model.get(what) not in plain:
            raise TokenizerError(
                f"{path} has {what} = {model[what]!r}, which byte-level BPE in GPT-2's manner has "
                "not"
            )
    if content.get("normalizer") is not None:
        raise TokenizerError(
            f"{path} has a normalizer ({_kind(content['normalizer'])}), which changes the "
            "text before it is encoded: nothing is normalized here, so that nothing is lost"
        )
    vocab, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise TokenizerError(f"{path} has no vocab and merges, so it was damaged or edited")
    pairs = [m.split(" ") if isinstance(m, str) else m for m in merges]
    pattern = _pattern_of(content.get("pre_tokenizer"), path)
    return _assembled(vocab, pairs, _added(content, path), pattern, str(path))


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else part


def _added(content: Mapping[str, Any], path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for token in content.get("added_tokens") or ():
        if not isinstance(token, dict) or not (
            isinstance(token.get("content"), str) and isinstance(token.get("id"), int)
        ):
            raise TokenizerError(
                f"{path} has an added token {token!r}; each has a content, its text, and an id"
            )
        for what in ("lstrip", "rstrip", "single_word"):
            if token.get(what):
                raise TokenizerError(
                    f"{path} has {what} at its added token {token['content']!r}, which makes it "
                    "more or less than its text; here a special token is its text and nothing else"
                )
        found[token["content"]] = token["id"]
    return found


def _pattern_of(before: Any, path: Path) -> str:
    """The split of a tokenizer.json, as one pattern."""
    parts = before.get("pretokenizers", [before]) if isinstance(before, dict) else []
    parts = [part for part in parts if isinstance(part, dict)]
    kinds = [part.get("type") for part in parts]
    by_regex = bool(parts) and parts[-1].get("use_regex", True)
    pattern = None
    if kinds == ["ByteLevel"]:
        pattern = GPT2_PATTERN if by_regex else _WHOLE
    elif kinds == ["Digits", "ByteLevel"] and by_regex and parts[0].get("individual_digits"):
        pattern = _DIGITS
    elif kinds == ["Split", "ByteLevel"] and not by_regex:
        pattern = _split_pattern(parts[0])
    if pattern is None:
        raise TokenizerError(
            f"{path} splits text by {' and '.join(map(str, kinds)) or 'nothing'}, in a way that is "
            "not had here; this reads ByteLevel, behind single Digits too, or a Split by a regex, "
            "isolated, with a ByteLevel behind it that has use_regex = false"
        )
    if parts[-1].get("add_prefix_space"):
        raise TokenizerError(
            f"{path} adds a space before each text (add_prefix_space), so that decoding gives "
            "another text; set it to false, as GPT-2 has it"
        )
    return pattern


def _split_pattern(split: Mapping[str, Any]) -> str | None:
    pattern = split.get("pattern")
    regex = pattern.get("Regex") if isinstance(pattern, dict) else None
    plain = split.get("behavior") == "Isolated" and not split.get("invert")
    return regex if plain and isinstance(regex, str) else None


def _assembled(
    vocab: Mapping[str, Any], merges: list[Any], special: Mapping[str, int], pattern: str,
    where: str,
) -> BPETokenizer:  # fmt: skip
    """A tokenizer with the ids of a file."""
    for name, number in vocab.items():
        if not isinstance(number, int) or isinstance(number, bool):
            raise TokenizerError(f"{where} gives {name!r} id {number!r}, which is no whole number")
    places = {_STAND_IN[byte]: place for place, byte in enumerate(BYTE_ORDER)}
    for byte in range(256):
        if _STAND_IN[byte] not in vocab:
            raise TokenizerError(f"{where} lacks the byte 0x{byte:02x}; a vocabulary has all 256")
    pairs: list[Pair] = []
    for n, merge in enumerate(merges):
        if (
            not isinstance(merge, list)
            or len(merge) != 2
            or not all(isinstance(part, str) and part in vocab for part in merge)
        ):
            raise TokenizerError(f"{where}: merge {n}, {merge!r}, joins what the vocabulary lacks")
        late = [part for part in merge if part not in places]
        if late:
            raise TokenizerError(
                f"{where}: merge {n}, {merge!r}, joins {late[0]!r}, which no earlier merge makes"
            )
        whole = merge[0] + merge[1]
        if whole not in vocab:
            raise TokenizerError(
                f"{where}: merge {n} makes {whole!r}, to which the vocabulary gives no id"
            )
        pairs.append((places[merge[0]], places[merge[1]]))
        places.setdefault(whole, len(places))
    for name, number in vocab.items():
        if name not in places and name not in special:
            raise TokenizerError(
                f"{where} gives {name!r} id {number}, which its merges do not make; the vocabulary "
                "and the merges do not belong together, or one was cut short"
            )
    try:
        return BPETokenizer(pairs, special, pattern, [vocab[name] for name in places])
    except TokenizerError as error:
        raise TokenizerError(f"{where}: {error}") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise TokenizerError(f"the tokenizer file {path} cannot be read ({reason})") from error
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is not a tokenizer file: it is not JSON ({error})") from error


# GPT-2


def save_gpt2(tokenizer: BPETokenizer, folder: str | Path) -> tuple[Path, Path]:
    """Write `vocab.json` and `merges.txt` into a folder; their paths.

    Raises:
        TokenizerError: a special token has the name of an ordinary one.
    """
    folder = Path(folder)
    ordinary = _vocabulary(tokenizer, folder / "vocab.json")
    folder.mkdir(parents=True, exist_ok=True)
    names = list(ordinary)
    lines = ["#version: 0.2", *(f"{names[a]} {names[b]}" for a, b in tokenizer.merges), ""]
    vocab = json.dumps(ordinary | tokenizer.special_tokens, ensure_ascii=False)
    write_atomically(folder / "vocab.json", vocab + "\n")
    write_atomically(folder / "merges.txt", "\n".join(lines))
    return folder / "vocab.json", folder / "merges.txt"


_MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)


def load_gpt2(
    vocab: str | Path, merges: str | Path, pattern: str = GPT2_PATTERN,
    special_tokens: Collection[str] | None = None,
) -> BPETokenizer:  # fmt: skip
    """Read `vocab.json` and `merges.txt` (OpenAI's `encoder.json` and `vocab.bpe`).

    Args:
        vocab: ids by token.
        merges: a pair a line.
        pattern: splits text into chunks; the files do not say it.
        special_tokens: names in the vocabulary that no merge makes; the files do not say which
            these are. None: those in <…> or […], such as <|endoftext|>, and what no two tokens of
            the vocabulary are together, so that no lost merge can have made it.

    Raises:
        TokenizerError: a file that is not there, or not of this kind, or two that do not belong
            together.
    """
    vocab, merges = Path(vocab), Path(merges)
    ids = _json(vocab)
    if not isinstance(ids, dict):
        raise TokenizerError(f"{vocab} is no vocabulary: it has to give each token an id")
    try:
        text = merges.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"the merges {merges} cannot be read ({error})") from error
    lines = text.split("\n")
    if lines[0].startswith("#version"):
        del lines[0]
    pairs = [line.split(" ") for line in lines if line]
    made = set(_STAND_IN.values()) | {"".join(pair) for pair in pairs}
    if special_tokens is None:
        special_tokens = {name for name in ids if name not in made and not _joined(name, ids)}
    special = {name: number for name, number in ids.items() if name in special_tokens}
    return _assembled(ids, list(pairs), special, pattern, f"{vocab} with {merges.name}")


def _joined(name: str, ids: Mapping[str, Any]) -> bool:
    """Whether a merge may have made a token: two others of the vocabulary are its parts."""
    if _MARKER.fullmatch(name):
        return False
    return any(
        left in ids and right in ids and not _MARKER.fullmatch(left)
        for left, right in ((name[:i], name[i:]) for i in range(1, len(name)))
    )


# tiktoken


def save_tiktoken(tokenizer: BPETokenizer, path: str | Path) -> Path:
    """Write a token a line in base64, with its rank, which is its id; special tokens are not in
    such a file, and are given to `tiktoken.Encoding` beside it.

    Raises:
        TokenizerError: the merges have another order than the ids of what they make, or make a
            token in two ways: a rank is both id and order there.
    """
    numbers = tokenizer.numbers
    made = [numbers[place] for place in tokenizer.made]
    for n, (before, number) in enumerate(itertools.pairwise(made), 1):
        if number <= before:
            raise TokenizerError(
                f"{path} was not written: merge {n} makes the token of id {number}, behind one of "
                f"id {before}; a .tiktoken file joins in the order of ids. Write tokenizer.json"
            )
    ranked = sorted(zip(numbers, tokenizer.tokens, strict=True))
    lines = [f"{base64.b64encode(token).decode()} {number}\n" for number, token in ranked]
    write_atomically(Path(path), "".join(lines))
    return Path(path)


def load_tiktoken(
    path: str | Path, special_tokens: Mapping[str, int] | None = None,
    pattern: str = GPT2_PATTERN,
) -> BPETokenizer:  # fmt: skip
    """Read a `.tiktoken` file, and find the merges behind its ranks: the last pair that each token
    is joined from when only earlier tokens are known.

    Raises:
        TokenizerError: not such a file; a byte that is missing; a token that no pair makes.
    """
    path = Path(path)
    ranks = _ranked(path)
    places: dict[bytes, int] = {bytes([byte]): place for place, byte in enumerate(BYTE_ORDER)}
    for byte in range(256):
        if bytes([byte]) not in ranks:
            raise TokenizerError(f"{path} lacks the byte 0x{byte:02x}; a vocabulary has all 256")
    pairs: list[Pair] = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = _parts(token, ranks, rank)
        if len(parts) != 2:
            raise TokenizerError(
                f"token {rank} of {path}, {token!r}, is made of {len(parts)} earlier "
                "ones and of no two; its merges cannot be recovered"
            )
        pairs.append((places[parts[0]], places[parts[1]]))
        places[token] = len(places)
    return BPETokenizer(pairs, special_tokens or (), pattern, [ranks[token] for token in places])


def _ranked(path: Path) -> dict[bytes, int]:
    """The tokens of a file with their ranks."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TokenizerError(f"the tokenizer file {path} cannot be read ({error})") from error
    found: dict[bytes, int] = {}
    taken: set[int] = set()
    for n, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            shown, rank = line.split()
            token, number = base64.b64decode(shown, validate=True), int(rank)
            if not token or token in found or number in taken or number < 0:
                raise ValueError(f"token {token!r} of rank {number} is empty, or not the first")
        except (ValueError, binascii.Error) as error:
            raise TokenizerError(
                f"line {n} of {path} is no token in base64 with its rank: {error}"
            ) from error
        found[token] = number
        taken.add(number)
    return found


def _parts(token: bytes, ranks: Mapping[bytes, int], below: int) -> list[bytes]:
    """What a token is joined from with only the tokens below a rank."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 1:
        joined = [
            (ranks[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(parts))
            if ranks.get(a + b, below) < below
        ]  # fmt: skip
        if not joined:
            break
        _, at = min(joined)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
