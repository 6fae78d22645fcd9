"""One package, however it comes: from the checkout without installing, installed, editable, built.

Everything is built from a copy of the checkout, so that nothing is written into it, and without
asking an index. An environment made here is empty but for a line that shows it the libraries of the
environment that runs the tests.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import tinygrad_edu

CHECKOUT = Path(__file__).resolve().parents[2]
LINKED = ("demos", "nn", "optim")
LIBRARIES = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = tinygrad_edu.__version__

IMPORT_ALL = (
    "import sys, tinygrad_edu, tinygrad_edu.nn, tinygrad_edu.optim, tinygrad_edu.demos;"
    "print(tinygrad_edu.__file__);"
    "assert tinygrad_edu.nn is sys.modules['tinygrad_edu.nn'] and 'nn' not in sys.modules"
)

has_links = pytest.mark.skipif(
    not (CHECKOUT / "tinygrad_edu" / "nn").is_symlink(),
    reason="this checkout was made without links (git's core.symlinks is false)",
)


def modules_of(tree: Path) -> set[str]:
    """Every module's path as an installed package has it: `tinygrad_edu/nn/layers.py`."""
    places = {"tinygrad_edu": tree / "tinygrad_edu"}
    places |= {f"tinygrad_edu/{name}": tree / name for name in LINKED}
    return {
        f"{prefix}/{path.relative_to(folder).as_posix()}"
        for prefix, folder in places.items()
        for path in folder.rglob("*.py")
        if not (prefix == "tinygrad_edu" and path.relative_to(folder).parts[0] in LINKED)
    }


SHIPPED = [
    f"lm/shipped/{model}/{file}"
    for model in ("grammar", "python-docs")
    for file in ("config.toml", "facts.json", "model.safetensors", "tokenizer.json")
]
"""What the models that come with the package are made of."""


def run(command: list[str | Path], cwd: Path, **variables: str) -> str:
    """What a command prints, run apart from the variables that would show it another package."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, "PYTHONUTF8": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """A virtual environment with tinygrad_edu installed in it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def command(self) -> Path:
        return self.python.parent / ("tinygrad-edu.exe" if os.name == "nt" else "tinygrad-edu")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a build reads, links as links."""
    folder = tmp_path / "tree"
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("tinygrad_edu", *LINKED):
        shutil.copytree(CHECKOUT / name, folder / name, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(CHECKOUT / name, folder / name)
    return folder


@pytest.fixture
def tree_without_links(tree: Path) -> Path:
    """The copy as git lays it where it makes no links: each is a text file with its target."""
    for name in LINKED:
        link = tree / "tinygrad_edu" / name
        link.unlink()
        link.write_text(f"../{name}", encoding="utf-8")
    return tree


@pytest.fixture
def builder() -> None:
    """Skip where the environment that runs the tests cannot build a package by itself."""
    for tool, least in (("pip", 23), ("setuptools", 77)):
        try:
            version = importlib.metadata.version(tool)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{tool} is not installed here: pip install -e '.[test]' brings it")
        if int(version.partition(".")[0]) < least:
            pytest.skip(
                f"{tool} is {version} here, and {least} is needed: pip install -e '.[test]'"
            )


@pytest.fixture
def install(tmp_path: Path, builder: None) -> Callable[..., Environment]:
    """Installs a tree in a fresh environment, as in `install(tree, "--editable")`."""

    def install(tree: Path, *options: str) -> Environment:
        environment = Environment(tmp_path / "environment")
        venv.create(environment.folder)
        place = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = Path(run([environment.python, "-c", place], tmp_path).strip())
        (site / "libraries.pth").write_text("\n".join(LIBRARIES) + "\n", encoding="utf-8")
        # --ignore-installed: what the libraries' environment holds is not this one's to remove
        offline = ["--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
        pip = [sys.executable, "-m", "pip", "--python", environment.python, "install"]
        run([*pip, *offline, *options, tree], tmp_path)
        return environment

    return install


@pytest.fixture
def build(builder: None) -> Callable[[str, Path, Path], Path]:
    """Builds the `"wheel"` or the `"sdist"` of a tree into a folder, by setuptools' own hooks."""

    def build(kind: str, tree: Path, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        program = f"import sys, setuptools.build_meta as b; b.build_{kind}(sys.argv[1])"
        run([sys.executable, "-c", program, folder], tree)
        (built,) = folder.iterdir()
        return built

    return build


# ------------------------------------------------------------------------------ the checkout


@has_links
@pytest.mark.parametrize("name", LINKED)
def test_links_lead_to_the_folders_at_the_top(name: str) -> None:
    assert Path(os.readlink(CHECKOUT / "tinygrad_edu" / name)) == Path("..", name)


@has_links
def test_without_installing_everything_imports_at_the_root() -> None:
    # -S: no site-packages, so no installed or editable tinygrad_edu; the libraries come by hand.
    libraries = os.pathsep.join(LIBRARIES)
    printed = run([sys.executable, "-S", "-c", IMPORT_ALL], CHECKOUT, PYTHONPATH=libraries)
    assert Path(printed.strip()) == CHECKOUT / "tinygrad_edu" / "__init__.py"


@pytest.mark.parametrize("name", LINKED)
def test_a_folder_at_the_top_refuses_to_be_a_second_copy(name: str) -> None:
    program = f"""
try:
    import {name}
except ImportError as error:
    print(error)
"""
    printed = run([sys.executable, "-c", program], CHECKOUT)
    assert "second copy" in printed
    assert f"`from tinygrad_edu import {name}`" in printed


def test_importing_the_package_loads_no_library_but_numpy() -> None:
    declared = [re.split(r"[ ><=;\[]", line)[0] for line in PROJECT["project"]["dependencies"]]
    others = {*declared, "cupy", "hypothesis", "torch"} - {"numpy"}
    program = "import sys, tinygrad_edu; print(*sys.modules)"
    loaded = run([sys.executable, "-c", program], CHECKOUT).split()
    assert "numpy" in loaded
    assert others.isdisjoint(loaded)


def test_pyproject_lists_every_package_once() -> None:
    packages = [Path(path).parent for path in modules_of(CHECKOUT) if path.endswith("__init__.py")]
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(".".join(package.parts) for package in packages)


def test_text_is_kept_apart_from_every_room_there_is() -> None:
    _, apart = PROJECT["tool"]["importlinter"]["contracts"]
    packages = set(PROJECT["tool"]["setuptools"]["packages"])
    rooms = packages - {"tinygrad_edu", "tinygrad_edu.text"}
    assert set(apart["forbidden_modules"]) == rooms | {"tinygrad_edu.graph"}


def test_every_module_lies_in_a_package() -> None:
    modules = modules_of(CHECKOUT)
    assert {f"{Path(path).parent.as_posix()}/__init__.py" for path in modules} <= modules


# ---------------------------------------------------------------------------------- installed


@pytest.mark.slow
def test_plain_install_works_away_from_the_checkout(
    tree: Path, install: Callable[..., Environment], tmp_path: Path
) -> None:
    environment = install(tree)
    shutil.rmtree(tree)
    file = Path(run([environment.python, "-c", IMPORT_ALL], tmp_path).strip())
    assert environment.folder in file.parents
    assert "train" in run([environment.command, "--help"], tmp_path)
    assert "train" in run([environment.python, "-m", "tinygrad_edu", "--help"], tmp_path)
    assert "Shown:" in run([environment.command, "demo", "1"], tmp_path)
    written = run([environment.command, "sample", "grammar", "o gato ", "--seed", "2"], tmp_path)
    assert written.startswith("o gato ") and len(written) > 400
    missing = "import importlib.util; print(importlib.util.find_spec('nn'))"
    assert run([environment.python, "-c", missing], tmp_path).strip() == "None"


@pytest.mark.slow
def test_plain_install_does_not_disturb_the_checkout(
    tree: Path, install: Callable[..., Environment]
) -> None:
    environment = install(tree)
    file = Path(run([environment.python, "-c", IMPORT_ALL], tree).strip())
    assert file == tree / "tinygrad_edu" / "__init__.py"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tree", "tree_without_links"])
def test_editable_install_follows_the_checkout(
    kind: str,
    request: pytest.FixtureRequest,
    install: Callable[..., Environment],
    tmp_path: Path,
) -> None:
    tree: Path = request.getfixturevalue(kind)
    environment = install(tree, "--editable")
    file = Path(run([environment.python, "-c", IMPORT_ALL], tmp_path).strip())
    assert file == tree / "tinygrad_edu" / "__init__.py"
    (tree / "nn" / "added.py").write_text("ANSWER = 42\n", encoding="utf-8")
    program = "from tinygrad_edu.nn import added; print(added.ANSWER)"
    assert run([environment.python, "-c", program], tmp_path).strip() == "42"
    assert "train" in run([environment.command, "--help"], tmp_path)


# -------------------------------------------------------------------------------------- built


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tree", "tree_without_links"])
def test_the_wheel_holds_every_module_once_and_nothing_else(
    kind: str,
    request: pytest.FixtureRequest,
    build: Callable[[str, Path, Path], Path],
    tmp_path: Path,
) -> None:
    wheel = build("wheel", request.getfixturevalue(kind), tmp_path / "dist")
    assert wheel.name == f"tinygrad_edu-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = Counter(name for name in archive.namelist() if not name.endswith("/"))
        entry_points = archive.read(f"tinygrad_edu-{VERSION}.dist-info/entry_points.txt").decode()
    assert set(names.values()) == {1}
    about = {name for name in names if name.startswith(f"tinygrad_edu-{VERSION}.dist-info/")}
    assets = {path.name for path in (CHECKOUT / "tinygrad_edu" / "drawing" / "assets").iterdir()}
    assert {"layout.js", "viewer.js", "viewer.css", "stepper.js"} <= assets
    shown = {f"drawing/assets/{name}" for name in assets}
    data = {f"tinygrad_edu/{path}" for path in ("py.typed", *SHIPPED, *shown)}
    assert set(names) - about == modules_of(CHECKOUT) | data
    assert wheel.stat().st_size < 3_000_000
    assert f"tinygrad_edu-{VERSION}.dist-info/licenses/LICENSE" in about
    assert "tinygrad-edu = tinygrad_edu.cli:main" in entry_points


@pytest.mark.slow
def test_the_sdist_holds_every_module_once_and_builds_the_same_wheel(
    tree: Path, build: Callable[[str, Path, Path], Path], tmp_path: Path
) -> None:
    sdist = build("sdist", tree, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert all(member.isreg() for member in members)
    root = f"tinygrad_edu-{VERSION}"
    sources = Counter(member.name for member in members if member.name.endswith(".py"))
    assert set(sources.values()) == {1}
    places = {f"tinygrad_edu/{name}/": f"{name}/" for name in LINKED}
    expected = set()
    for module in modules_of(CHECKOUT):
        place = next((place for place in places if module.startswith(place)), "")
        expected.add(f"{root}/{places.get(place, '')}{module.removeprefix(place)}")
    assert set(sources) == expected

    from_checkout = build("wheel", tree, tmp_path / "from_checkout")
    from_sdist = build("wheel", tmp_path / "unpacked" / root, tmp_path / "from_sdist")
    with zipfile.ZipFile(from_checkout) as a, zipfile.ZipFile(from_sdist) as b:
        record = f"{root}.dist-info/RECORD"
        assert sorted(a.read(record).splitlines()) == sorted(b.read(record).splitlines())
