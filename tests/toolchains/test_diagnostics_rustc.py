"""rustc's two forms of text -> diagnostics and rest. The texts are real ones, shortened."""

from __future__ import annotations

import json

import pytest

from teeny_async.toolchains.diagnostics import Parsed, rustc_json, rustc_text

SPOOF = "No space left on device"

RUSTC = f"""\
'+ptx79' is not a recognized feature for this target (ignoring feature)
error: a
       {SPOOF}
       error: fake
 --> m.rs:2:1
  |
2 | / compile_error!("a
3 | |
4 | | {SPOOF}
  | |_____________^

error[E0382]: use of moved value: `x`
 --> m.rs:7:47
  |
7 | pub fn f(x: String) -> (String, String) {{ (x, x) }}
  |                                              ^ value used here after move
  |
help: consider cloning the value
  |
7 | pub fn f(x: String) -> (String, String) {{ (x.clone(), x) }}
  |                                             ++++++++

warning: unstable feature specified for `-Ctarget-feature`: `ptx86`
  |
  = note: this feature is not stably supported

error: linker `cc` not found
  |
  = note: No such file or directory (os error 2)

rustc-LLVM ERROR: PTX version 8.6 does not support target 'sm_120'.
error: aborting due to 2 previous errors; 1 warning emitted

For more information about this error, try `rustc --explain E0382`.
"""


def test_rustc_text() -> None:
    parsed = rustc_text(RUSTC)
    assert [(each.severity, each.code, each.file, each.line, each.column) for each in parsed.diagnostics] == [
        ("error", None, "m.rs", 2, 1),
        ("error", "E0382", "m.rs", 7, 47),
        ("warning", None, None, None, None),
        ("error", None, None, None, None),
        ("fatal error", None, None, None, None),
    ]
    assert parsed.diagnostics[0].message == f"a\n{SPOOF}\nerror: fake"
    assert SPOOF not in parsed.rest
    assert "No such file or directory (os error 2)" in parsed.rest
    assert "rustc-LLVM ERROR" in parsed.rest
    assert "consider cloning" not in parsed.rest
    assert "aborting" not in parsed.rest


def test_rustc_internal_error_keeps_the_panic() -> None:
    text = """\
error: internal compiler error[E0425]: cannot find function `nope` in this scope
 --> unknown.rs:8:102
  |
8 | *o = nope(*a);
  |      ^^^^ not found in this scope


thread 'rustc' (24074) panicked at compiler/rustc_errors/src/lib.rs:1531:17:
aborting due to `-Z treat-err-as-bug=1`
error: the compiler unexpectedly panicked. This is a bug

note: we would appreciate a bug report
"""
    parsed = rustc_text(text)
    assert [(each.severity, each.code, each.line) for each in parsed.diagnostics] == [
        ("internal compiler error", "E0425", 8),
        ("error", None, None),
    ]
    assert "panicked at" in parsed.rest


def _message(**changes: object) -> str:
    span = {"file_name": "k.rs", "line_start": 2, "column_start": 1, "is_primary": True}
    fields = {
        "$message_type": "diagnostic",
        "message": SPOOF,
        "code": None,
        "level": "error",
        "spans": [span],
        "children": [],
        "rendered": f"error: {SPOOF}\n --> k.rs:2:1\n\n",
    }
    return json.dumps(fields | changes)


def test_rustc_json() -> None:
    lines = [
        _message(),
        _message(message="mismatched types", code={"code": "E0308", "explanation": SPOOF}, level="warning"),
        _message(spans=[], message="failed to write", rendered="error: failed to write: disk\n\n"),
        _message(spans=[], message="aborting due to 2 previous errors; 1 warning emitted", rendered=f"error: {SPOOF}"),
        _message(spans=[], level="failure-note", message=f"note {SPOOF}", rendered="note: explain\n"),
        '{"$message_type":"artifact","artifact":"k.ptx","emit":"asm"}',
        _message()[:-20],
        "rustc-LLVM ERROR: IO failure on output stream",
    ]
    parsed = rustc_json("\n".join(lines))
    assert [(each.severity, each.code, each.file) for each in parsed.diagnostics] == [
        ("error", None, "k.rs"),
        ("warning", "E0308", "k.rs"),
        ("error", None, None),
        ("fatal error", None, None),
    ]
    assert SPOOF not in parsed.rest
    assert parsed.rest.split("\n") == [
        "error: failed to write: disk",
        "note: explain",
        "rustc-LLVM ERROR: IO failure on output stream",
    ]
    assert parsed.log.startswith(f"error: {SPOOF}\n --> k.rs:2:1")
    assert "$message_type" not in parsed.log


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1}',
        '{"$message_type":"diagnostic"}',
        '{"$message_type":"diagnostic","spans":{},"code":3,"level":null,"message":null}',
        '{"$message_type":"diagnostic","spans":[1,{"is_primary":true,"line_start":"x"}],"level":"error","message":"m"}',
        '{"a":' + "[" * 100_000,
    ],
)
def test_rustc_json_of_another_shape_is_no_error(line: str) -> None:
    assert isinstance(rustc_json(line), Parsed)
