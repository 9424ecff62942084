"""What is shipped: a wheel and an archive of real files although the checkout holds links."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("storage", "actors", "runtime")

pytestmark = pytest.mark.long


def build(source: Path, target: Path, *what: str) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", str(target)]
    subprocess.run([*command, str(source)], check=True, capture_output=True, text=True)
    (built,) = target.iterdir()
    return built


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {n for n in archive.namelist() if "dist-info" not in n}


def expected() -> set[str]:
    """Every file of the three packages and of the public face, below ``neverforget/``."""
    here = {
        f"neverforget/{path.relative_to(ROOT).as_posix()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    face = ROOT / "src" / "neverforget"
    for path in face.rglob("*"):
        name = path.relative_to(face)
        if path.is_file() and "__pycache__" not in name.parts and name.parts[0] not in PACKAGES:
            here.add(f"neverforget/{name.as_posix()}")
    return here


def run_installed(site: Path, cwd: Path, code: str) -> str:
    """Run ``code`` where only ``site`` has neverforget; its requirements come from this Python."""
    script = f"import sys; sys.path = [p for p in sys.path if {str(ROOT)!r} not in p]\n{code}"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_the_wheel_holds_every_file_once_and_nothing_called_storage(tmp_path: Path) -> None:
    wheel = build(ROOT, tmp_path / "dist", "--wheel")
    assert names(wheel) == expected()


def test_the_source_archive_builds_the_same_wheel(tmp_path: Path) -> None:
    archive = build(ROOT, tmp_path / "sdist", "--sdist")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert names(build(source, tmp_path / "dist", "--wheel")) == expected()


def test_an_installed_wheel_keeps_a_conversation(tmp_path: Path) -> None:
    wheel = build(ROOT, tmp_path / "dist", "--wheel")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    said = run_installed(
        site,
        tmp_path,
        "import neverforget as nf\n"
        "with nf.open('memory', inline=True) as store:\n"
        "    store.session('chat').append('user', 'hello')\n"
        "print(nf.__file__)",
    )
    assert said.startswith(str(site))


def test_an_editable_install_runs_this_checkout(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*pip, "--target", str(site), "--editable", str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (link,) = site.glob("*.pth")
    assert Path(link.read_text().strip()) == ROOT / "src"
