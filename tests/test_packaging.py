"""What ships: `rules/` comes along as `screen.rules` in a wheel, in an sdist, and in the wheel of the sdist."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.shared import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
RULES = {path.name for path in (ROOT / "rules").glob("*.py")}


def _build(source: Path, out: Path, hook: str) -> Path:
    """Runs one hook of the build backend on a source tree, in a process of its own."""
    out.mkdir(parents=True, exist_ok=True)
    code = f"import setuptools.build_meta as b; print(b.{hook}({str(out)!r}))"
    run = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stderr
    return out / run.stdout.split()[-1]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that packaging reads, copied away; the symlink stays one."""
    copy = tmp_path_factory.mktemp("tree")
    for name in FILES:
        shutil.copy(ROOT / name, copy / name)
    for name in ("screen", "rules"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tree, tmp_path_factory.mktemp("wheel"), "build_wheel")


def _contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def _expected() -> set[str]:
    """Every file under `screen/`, rules included, that is not a cache."""
    found = set()
    for folder, _, files in os.walk(ROOT / "screen", followlinks=True):
        found |= {str((Path(folder) / f).relative_to(ROOT)) for f in files if "__pycache__" not in folder}
    return found


def test_the_symlink_is_one() -> None:
    link = ROOT / "screen" / "rules"
    assert link.is_symlink() and os.readlink(link) == "../rules"


def test_wheel_holds_everything(wheel: Path) -> None:
    assert _contents(wheel) == _expected()
    assert {f"screen/rules/{name}" for name in RULES} <= _contents(wheel)


def test_no_build_folder_is_left_in_the_tree(tree: Path, wheel: Path) -> None:
    """What a rule that is gone from the sources would be installed from the next time."""
    assert not (tree / "build").exists()


def test_sdist_gives_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    sdist = _build(tree, tmp_path / "sdist", "build_sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # since 3.11.4
    [unpacked] = (tmp_path / "unpacked").iterdir()
    again = _build(unpacked, tmp_path / "again", "build_wheel")
    assert _contents(again) == _contents(wheel)


def test_wheel_runs_and_finds_its_rules(wheel: Path, tmp_path: Path) -> None:
    """From a folder without a checkout, the unpacked wheel lists every rule that the source has."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
        scripts = archive.read(next(n for n in archive.namelist() if n.endswith("entry_points.txt"))).decode()
    assert {line.split(" = ")[0] for line in scripts.splitlines() if " = " in line} >= {"screen", "archscreen"}
    code = (
        "import screen, screen.verdict.discover as d, sys; "
        "assert not d.catalogue().faults, d.catalogue().faults; "
        "print(screen.__file__, len(d.catalogue().rules), 'torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    place, count, torch = run.stdout.split()
    assert place.startswith(str(tmp_path)) and int(count) == len(RULES - {"__init__.py"}) and torch == "False"


def test_constraints_meet_the_requirements() -> None:
    """Every requirement of the project and its test extra has one pinned version that meets it, and no pin has a local tag."""
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    pins = {name.lower(): version for name, version in (line.split("==") for line in lines)}
    assert not [line for line in lines if "+" in line or "nvidia" in line or line.startswith("triton")]
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["hf"], *extras["plots"], *extras["test"]]
    for requirement in map(Requirement, wanted):
        if requirement.name != "archscreen":
            assert requirement.specifier.contains(pins[requirement.name.lower()]), requirement


def test_timm_is_no_extra() -> None:
    """It asks for a torchvision built for CUDA, after which no class of `transformers` imports."""
    assert not [r for extra in PROJECT["project"]["optional-dependencies"].values() for r in extra if r.startswith("timm")]
