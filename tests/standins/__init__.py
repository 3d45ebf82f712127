"""Stand-ins for compilers that cannot be installed where the tests run."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = Path(__file__).with_name("teenyc")


@dataclass(frozen=True, kw_only=True)
class Call:
    """One compile that a stand-in was asked for, as it saw it."""

    argv: tuple[str, ...]
    environ: dict[str, str]


@dataclass(frozen=True)
class Teenyc:
    """A stand-in for teenyc, installed in a folder of its own, which `rustup toolchain link` takes too."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "bin" / "teenyc"

    @property
    def calls(self) -> list[Call]:
        """The compiles so far, counted by the stand-in itself; probes are no compiles."""
        try:
            lines = self._file("calls").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [_call(line) for line in lines]

    def misbehave(self, fault: str | None) -> None:
        """Have every compile fail in this way (see the script); None: none from now on."""
        if fault is None:
            self._file("fault").unlink(missing_ok=True)
        else:
            self._file("fault").write_text(f"{fault}\n", encoding="utf-8")

    def claim_sysroot(self, path: str) -> None:
        """What `--print sysroot` answers from now on, instead of the stock compiler's own."""
        self._file("sysroot").write_text(f"{path}\n", encoding="utf-8")

    def _file(self, name: str) -> Path:
        return self.folder / "bin" / name


def install_teenyc(folder: Path) -> Teenyc:
    """Put the stand-in into `folder`, beside a link to the stock rustc that it runs."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    shutil.copy(_SCRIPT, folder / "bin" / "teenyc")
    (folder / "bin" / "rustc").symlink_to(stock_rustc())
    return Teenyc(folder)


def link_toolchain(name: str, teenyc: Teenyc, rustup_home: Path) -> None:
    """Make a stand-in a rustup toolchain of a private RUSTUP_HOME."""
    environ = {**os.environ, "RUSTUP_HOME": str(rustup_home)}
    command = ["rustup", "toolchain", "link", name, str(teenyc.folder)]
    subprocess.run(command, env=environ, check=True, capture_output=True)


@functools.cache
def stock_rustc() -> Path:
    """The real rustc, not rustup's shim."""
    rustup = shutil.which("rustup")
    command = [rustup, "which", "rustc"] if rustup else ["which", "rustc"]
    return Path(subprocess.check_output(command, text=True).strip())


def _call(line: str) -> Call:
    argv, _, environ = line.partition("\t|\t")
    variables = (entry.partition("=") for entry in environ.split("\t") if entry)
    return Call(argv=tuple(argv.split("\t")), environ={name: value for name, _, value in variables})
