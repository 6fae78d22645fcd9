r"""Tokenizer files that other tools read and write: Hugging Face's `tokenizer.json`, GPT-2's
`vocab.json` with `merges.txt`, and tiktoken's base64 ranks.

All are UTF-8 with "\\n" at line ends on every system. A file that is none of these is refused with
a sentence that says what is wrong with it.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinygrad_edu.files import write_atomically
from tinygrad_edu.text.bpe import BYTE_ORDER, GPT2_PATTERN, BPETokenizer, Pair
from tinygrad_edu.text.errors import TokenizerError

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
_BYTE = {character: byte for byte, character in _STAND_IN.items()}
_ENDS = "<|endoftext|>"


def _shown(token: bytes) -> str:
    return "".join(_STAND_IN[b] for b in token)


def _hidden(text: str, where: str) -> bytes:
    try:
        return bytes(_BYTE[c] for c in text)
    except KeyError as error:
        raise TokenizerError(
            f"{where}: the token {text!r} holds {error.args[0]!r}, which stands for no byte; this "
            "is no byte-level vocabulary"
        ) from error


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
    names = [_shown(tokenizer.token_bytes(i)) for i in range(_ordinary(tokenizer))]
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
            "vocab": {name: i for i, name in enumerate(names)},
            "merges": [[names[a], names[b]] for a, b in tokenizer.merges],
        },
    }  # fmt: skip
    write_atomically(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _ordinary(tokenizer: BPETokenizer) -> int:
    return len(tokenizer._tokens)


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
    ):  # fmt: skip
        if model.get(what) not in plain:
            raise TokenizerError(
                f"{path} has {what} = {model[what]!r}, which byte-level BPE in GPT-2's manner has "
                "not"
            )
    if content.get("normalizer") is not None:
        raise TokenizerError(
            f"{path} has a normalizer ({content['normalizer'].get('type')}), which changes the "
            "text before it is encoded: nothing is normalized here, so that nothing is lost"
        )
    vocab, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise TokenizerError(f"{path} has no vocab and merges, so it was damaged or edited")
    special = {t["content"]: t["id"] for t in content.get("added_tokens", ())}
    pairs = [m.split(" ") if isinstance(m, str) else m for m in merges]
    pattern = _pattern_of(content.get("pre_tokenizer"), path)
    return _assembled(vocab, pairs, special, pattern, str(path))


def _pattern_of(before: Any, path: Path) -> str:
    parts = before.get("pretokenizers", [before]) if isinstance(before, dict) else []
    kinds = [part.get("type") for part in parts]
    if kinds == ["ByteLevel"] and parts[0].get("use_regex", True):
        pattern = GPT2_PATTERN
    elif kinds == ["Split", "ByteLevel"] and "Regex" in parts[0].get("pattern", {}):
        pattern = str(parts[0]["pattern"]["Regex"])
    else:
        raise TokenizerError(
            f"{path} splits text by {' and '.join(map(str, kinds)) or 'nothing'}; this reads "
            "ByteLevel, or a Split by a regex with ByteLevel behind it"
        )
    if parts[-1].get("add_prefix_space"):
        raise TokenizerError(
            f"{path} adds a space before each text (add_prefix_space), so that decoding gives "
            "another text; set it to false, as GPT-2 has it"
        )
    return pattern


def _assembled(
    vocab: Mapping[str, int], merges: list[Any], special: Mapping[str, int], pattern: str,
    where: str,
) -> BPETokenizer:  # fmt: skip
    """A tokenizer whose ids are those of the file, which have to be GPT-2's: bytes, then merges."""
    for byte, number in zip(BYTE_ORDER, range(256), strict=True):
        found = vocab.get(_STAND_IN[byte])
        if found is None:
            raise TokenizerError(f"{where} lacks the byte 0x{byte:02x}; a vocabulary has all 256")
        if found != number:
            raise TokenizerError(
                f"{where} gives byte 0x{byte:02x} id {found}, where GPT-2's order gives {number}; "
                "vocabularies in another order cannot be read"
            )
    pairs: list[Pair] = []
    for n, merge in enumerate(merges):
        if len(merge) != 2 or merge[0] not in vocab or merge[1] not in vocab:
            raise TokenizerError(f"{where}: merge {n}, {merge!r}, joins what the vocabulary lacks")
        pairs.append((vocab[merge[0]], vocab[merge[1]]))
    made = BPETokenizer(pairs, special, pattern)
    for text, number in vocab.items():
        if text in special:
            continue
        if number >= _ordinary(made) or made.token_bytes(number) != _hidden(text, where):
            raise TokenizerError(
                f"{where} gives {text!r} id {number}, which its merges do not make; ids follow "
                "the merges here, as in GPT-2"
            )
    return made


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise TokenizerError(f"the tokenizer file {path} cannot be read ({reason})") from error
    except ValueError as error:
        raise TokenizerError(f"{path} is not a tokenizer file: it is not JSON ({error})") from error


# GPT-2


def save_gpt2(tokenizer: BPETokenizer, folder: str | Path) -> tuple[Path, Path]:
    """Write `vocab.json` and `merges.txt` into a folder; their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = [_shown(tokenizer.token_bytes(i)) for i in range(_ordinary(tokenizer))]
    vocab = {name: i for i, name in enumerate(names)} | tokenizer.special_tokens
    lines = ["#version: 0.2", *(f"{names[a]} {names[b]}" for a, b in tokenizer.merges), ""]
    write_atomically(folder / "vocab.json", json.dumps(vocab, ensure_ascii=False) + "\n")
    write_atomically(folder / "merges.txt", "\n".join(lines))
    return folder / "vocab.json", folder / "merges.txt"


def load_gpt2(vocab: str | Path, merges: str | Path, pattern: str = GPT2_PATTERN) -> BPETokenizer:
    """Read `vocab.json` and `merges.txt` (OpenAI's `encoder.json` and `vocab.bpe`).

    Tokens that no merge makes, such as <|endoftext|>, are special.

    Raises:
        TokenizerError: a file that is not there, or not of this kind, or two that do not belong
            together.
    """
    vocab, merges = Path(vocab), Path(merges)
    ids = _json(vocab)
    if not isinstance(ids, dict) or not all(isinstance(i, int) for i in ids.values()):
        raise TokenizerError(f"{vocab} is no vocabulary: it has to give each token an id")
    try:
        text = merges.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"the merges {merges} cannot be read ({error})") from error
    lines = [line for line in text.split("\n") if line and not line.startswith("#version")]
    pairs = [line.split(" ") for line in lines]
    made = set(_STAND_IN.values()) | {"".join(pair) for pair in pairs}
    special = {token: i for token, i in ids.items() if token not in made}
    return _assembled(ids, list(pairs), special, pattern, str(merges))


# tiktoken


def save_tiktoken(tokenizer: BPETokenizer, path: str | Path) -> Path:
    """Write a token a line in base64, with its rank, which is its id; special tokens are not in
    such a file, and are given to `tiktoken.Encoding` beside it.
    """
    lines = [
        f"{base64.b64encode(tokenizer.token_bytes(i)).decode()} {i}\n"
        for i in range(_ordinary(tokenizer))
    ]
    write_atomically(Path(path), "".join(lines))
    return Path(path)


def load_tiktoken(
    path: str | Path, special_tokens: Mapping[str, int] | None = None,
    pattern: str = GPT2_PATTERN,
) -> BPETokenizer:  # fmt: skip
    """Read a `.tiktoken` file, and find the merges behind its ranks: the last pair that each token
    is joined from when only earlier tokens are known.

    Raises:
        TokenizerError: not such a file; bytes in another order; a token that no pair makes.
    """
    path = Path(path)
    tokens = _ranked(path)
    if tokens[:256] != [bytes([b]) for b in BYTE_ORDER]:
        raise TokenizerError(
            f"the first 256 tokens of {path} are not the bytes in GPT-2's order; vocabularies in "
            "another order cannot be read"
        )
    ids = {token: i for i, token in enumerate(tokens)}
    pairs: list[Pair] = []
    for number in range(256, len(tokens)):
        parts = _parts(tokens[number], ids, number)
        if len(parts) != 2:
            raise TokenizerError(
                f"token {number} of {path}, {tokens[number]!r}, is made of {len(parts)} earlier "
                "ones and of no two; its merges cannot be recovered"
            )
        pairs.append((parts[0], parts[1]))
    return BPETokenizer(pairs, special_tokens or (), pattern)


def _ranked(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TokenizerError(f"the tokenizer file {path} cannot be read ({error})") from error
    tokens: list[bytes] = []
    for n, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            tokens.append(base64.b64decode(token, validate=True))
            if int(rank) != len(tokens) - 1:
                raise ValueError(f"rank {int(rank)} where {len(tokens) - 1} is due")
        except (ValueError, binascii.Error) as error:
            raise TokenizerError(
                f"line {n} of {path} is no token in base64 with its rank: {error}"
            ) from error
    return tokens


def _parts(token: bytes, ids: Mapping[bytes, int], below: int) -> list[int]:
    """The ids that a token is joined from with only the tokens below a rank."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 1:
        joined = [
            (ids[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(parts))
            if ids.get(a + b, below) < below
        ]  # fmt: skip
        if not joined:
            break
        _, at = min(joined)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [ids[part] for part in parts]
