"""Kernels, requests and preludes: reading them, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from teeny_async import CompileRequest, Kernel, RequestError
from teeny_async.prelude import read_prelude
from tests.support import KERNELS

# -- from a file --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "language"),
    [
        (".c", "c"),
        (".cu", "cuda"),
        (".hip", "hip"),
        (".rs", "rust"),
        (".zig", "zig"),
        (".py", "triton"),
        (".ttir", "ttir"),
    ],
)
def test_name_language_and_folder(tmp_path: Path, suffix: str, language: str) -> None:
    path = tmp_path / f"vector.add{suffix}"
    path.write_text("text é\n", encoding="utf-8")
    kernel = Kernel.from_file(path)
    assert (kernel.name, kernel.language, kernel.source) == ("vector.add", language, "text é\n")
    assert kernel.include_dirs == (str(tmp_path.resolve()),)
    assert Kernel.from_file(str(path)) == kernel


def test_fields_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "k.inc"
    path.write_text("int x;")
    kernel = Kernel.from_file(path, language="c", name="other", id="k__f32", defines={"N": 1}, entry_point="k")
    assert (kernel.name, kernel.language, kernel.id, kernel.entry_point) == ("other", "c", "k__f32", "k")
    assert dict(kernel.defines) == {"N": 1}


def test_the_folder_of_a_linked_kernel_is_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "k.c").write_text("")
    (tmp_path / "k.c").symlink_to("real/k.c")
    assert Kernel.from_file(tmp_path / "k.c").include_dirs == (str((tmp_path / "real").resolve()),)


def test_every_shipped_kernel_can_be_read() -> None:
    kernels = [Kernel.from_file(path) for path in KERNELS.iterdir()]
    assert {kernel.language for kernel in kernels} >= {"c", "cuda", "rust"}


def test_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"cannot tell the language from '.xyz' .*\.c \.cu .*pass language="):
        Kernel.from_file(tmp_path / "k.xyz")
    with pytest.raises(RequestError, match="cannot tell the language from ''"):
        Kernel.from_file(tmp_path / "k")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"k\.c: cannot read the kernel: No such file or directory"):
        Kernel.from_file(tmp_path / "k.c")


def test_folder(tmp_path: Path) -> None:
    (tmp_path / "k.c").mkdir()
    with pytest.raises(RequestError, match="cannot read the kernel: Is a directory"):
        Kernel.from_file(tmp_path / "k.c")


def test_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_bytes(b"ok \xff")
    with pytest.raises(RequestError, match=r"not UTF-8 text \(invalid start byte at byte 3\)"):
        Kernel.from_file(tmp_path / "k.c")


@pytest.mark.parametrize("fields", [{"source": "// \ud800"}, {"source": "", "prelude": "\udfff\n"}])
def test_half_a_character_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(RequestError, match="kernel 'k': not a text: surrogates not allowed"):
        Kernel(**{"name": "k", "language": "c", **fields})  # type: ignore[arg-type]  # all of them are texts


def test_unknown_language() -> None:
    with pytest.raises(RequestError, match="kernel 'k': unknown language 'fortran'; known are c, cuda"):
        Kernel(name="k", source="", language="fortran")


# -- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flags": "-g"}, r"write flags=\('-g',\)"),
        ({"timeout": 0}, "above 0"),
        ({"timeout": -1.0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"params": {"N": None}}, "param 'N' is a number, a text, or true or false, not None"),
        ({"params": {"N": [1]}}, "param 'N' is a number"),
        ({"params": {"N": "\ud800"}}, "the request: not a text: surrogates not allowed"),
        ({"flags": ("-DN=\ud800",)}, r"the request: not a text: surrogates not allowed \(character 4\)"),
    ],
)
def test_refused_requests(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        CompileRequest(Kernel(name="k", source="", language="c"), **options)


def test_an_opt_level_may_be_written_as_text() -> None:
    kernel = Kernel(name="k", source="", language="c")
    assert CompileRequest(kernel, opt_level="3") == CompileRequest(kernel)
    assert CompileRequest(kernel, opt_level="s").opt_level == "s"


# -- preludes -----------------------------------------------------------------------------------

TEXT = "#![no_core]\npub trait Sized {}\n"
CONSTANTS = {
    "plain": 'pub const TRITON: &str = r#"{}"#;',
    "static": 'pub const TRITON: &\'static str = r"{}";',
    "a static": 'pub static PRELUDE : & str = r##"{}"##;\n',
    "commented": '// Generated by build.rs\n#[allow(dead_code)]\n#![allow(x)]\n\npub const TRITON: &str =\n    r#"{}"#;',
}


@pytest.mark.parametrize("form", CONSTANTS)
def test_a_generated_constant_is_unwrapped(tmp_path: Path, form: str) -> None:
    wrapped = CONSTANTS[form].replace("{}", TEXT)
    path = tmp_path / "triton_lang.rs"
    path.write_text(wrapped)
    assert read_prelude(path) == TEXT
    assert read_prelude(str(path)) == TEXT
    assert read_prelude(wrapped) == TEXT


def test_quotes_inside_the_constant() -> None:
    assert read_prelude('pub const T: &str = r##"a "quoted"# b"##;') == 'a "quoted"# b'


def test_a_constant_without_an_end() -> None:
    with pytest.raises(RequestError, match=r'a raw string constant \(r#"\.\.\.\) that does not end'):
        read_prelude('pub const T: &str = r#"abc"')


@pytest.mark.parametrize("text", [TEXT, "// comment\n" + TEXT, "pub const N: u32 = 1;\n", "not a file"])
def test_plain_text_stays(text: str) -> None:
    assert read_prelude(text) == text


@pytest.mark.parametrize("suffix", [".rs", ".txt", ".prelude"])
def test_a_file_of_plain_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"prelude{suffix}"
    path.write_text(TEXT)
    assert read_prelude(path) == TEXT


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"prelude .*gone\.rs: cannot read it: No such file"):
        read_prelude(os.fspath(tmp_path / "gone.rs"))
    (tmp_path / "bytes.rs").write_bytes(b"\xff")
    with pytest.raises(RequestError, match="not UTF-8"):
        read_prelude(tmp_path / "bytes.rs")


def test_a_kernel_reads_its_prelude(tmp_path: Path) -> None:
    path = tmp_path / "triton_lang.rs"
    path.write_text(CONSTANTS["plain"].replace("{}", TEXT))
    for prelude in (TEXT, str(path), path):
        assert Kernel(name="k", source="", language="rust", prelude=prelude).prelude == TEXT  # type: ignore[arg-type]
