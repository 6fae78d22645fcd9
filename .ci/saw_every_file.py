"""Fails unless mypy and import-linter have both seen every module of the package.

    python .ci/saw_every_file.py MYPY_OUTPUT IMPORT_LINTER_OUTPUT

Three folders of the package lie at the top of the checkout, behind links; a checker that does not
follow them sees two thirds of the files and reports success.
"""

import re
import sys
from pathlib import Path

FOLDERS = ("tinygrad_edu", "nn", "optim", "demos")
CLAIMS = {
    "mypy": r"no issues found in (\d+) source files",
    "import-linter": r"Analyzed (\d+) files",
}


def main(outputs: list[str]) -> None:
    """Compare the numbers that the checkers printed with the number of files there are."""
    modules = sum(1 for folder in FOLDERS for _ in Path(folder).rglob("*.py"))
    for (checker, pattern), output in zip(CLAIMS.items(), outputs, strict=True):
        found = re.search(pattern, Path(output).read_text(encoding="utf-8"))
        if found is None:
            raise SystemExit(f"{checker} did not say how many files it saw (expected /{pattern}/)")
        if int(found[1]) != modules:
            raise SystemExit(f"{checker} saw {found[1]} files, and the package has {modules}")
    print(f"mypy and import-linter saw all {modules} modules")


if __name__ == "__main__":
    main(sys.argv[1:])
