"""An output whose reader has gone: told once, and never an error again."""

from __future__ import annotations

import errno
import io

import pytest

from tinygrad_edu.lm.output import Output


class Pipe(io.StringIO):
    """Refuses what its reader, who leaves after a while, no longer takes."""

    def __init__(self, refuse: str) -> None:
        super().__init__()
        self.refuse = refuse
        self.gone = False

    def write(self, text: str) -> int:
        if self.gone and self.refuse == "write":
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        return super().write(text)

    def flush(self) -> None:
        if self.gone and self.refuse == "flush":
            raise OSError(errno.EINVAL, "Invalid argument")  # as Windows says it


@pytest.mark.parametrize("refuse", ["write", "flush"])
def test_what_can_no_longer_be_written_is_dropped_and_told_once(refuse: str) -> None:
    told: list[OSError] = []
    pipe = Pipe(refuse)
    output = Output(pipe, told.append)
    print("first", file=output, flush=True)
    assert (pipe.getvalue(), told, output.lost) == ("first\n", [], None)
    pipe.gone = True
    for _ in range(3):
        print("second", file=output, flush=True)
    assert told == [output.lost]
    pipe.gone = False
    print("third", file=output, flush=True)
    assert "third" not in pipe.getvalue()


def test_freed_after_its_stream_was_closed_it_flushes_nothing() -> None:
    stream = io.StringIO()
    output = Output(stream, lambda error: None)
    output.write("text")
    stream.close()
    output.close()  # what freeing it does
