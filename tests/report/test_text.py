"""Numbers and failures as people read them."""

from __future__ import annotations

import pytest

from teeny_async.failures import FailureKind
from teeny_async.report.text import (
    failure_text,
    params_text,
    plural,
    request_text,
    seconds_text,
    size_text,
    without_numbers,
)
from teeny_async.result import Diagnostic, Failure
from tests.report.kit import request_for


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (4200, "4.1 KiB"),
        (102_300, "99.9 KiB"),
        (102_400, "100 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (10 * 2**30, "10.0 GiB"),
        (5000 * 2**40, "5000 TiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.10 s"),
        (9.99, "9.99 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1:00"),
        (205, "3:25"),
        (3729, "1:02:09"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_counted_words() -> None:
    assert [plural(1, "slot"), plural(0, "slot"), plural(1234, "slot")] == ["1 slot", "0 slots", "1,234 slots"]


def test_requests() -> None:
    assert request_text(request_for("sm_90", {"TILE": 32, "FAST": True})) == "saxpy sm_90 TILE=32 FAST=true"
    assert request_text(request_for(None)) == "saxpy default"
    assert params_text({}) == ""


def test_the_first_error_is_what_a_failure_is_about() -> None:
    warning = Diagnostic(severity="warning", message="odd", file="kernel.c", line=1)
    error = Diagnostic(severity="error", message="no\nsuch  thing", file="kernel.c", line=3, column=7)
    failure = Failure(kind=FailureKind.DIAGNOSTIC, message="odd", diagnostics=(warning, error))
    assert failure_text(failure) == "kernel.c:3:7: error: no such thing"
    assert failure_text(failure, "src/saxpy.c") == "src/saxpy.c:3:7: error: no such thing"


def test_a_failure_without_a_diagnostic_has_its_message() -> None:
    assert failure_text(Failure(kind=FailureKind.TIMEOUT, message="took longer\nthan 1 s")) == "took longer than 1 s"


def test_other_files_keep_their_names() -> None:
    error = Diagnostic(severity="error", message="bad", file="/usr/include/math.h", line=3)
    failure = Failure(kind=FailureKind.DIAGNOSTIC, message="bad", diagnostics=(error,))
    assert failure_text(failure, "saxpy.c") == "/usr/include/math.h:3: error: bad"


def test_messages_of_one_kind_differ_in_numbers_only() -> None:
    first = "k.c:16:16: error: '8 % 3 == 0' for -1.5e3 in sm_90 and x1"
    assert without_numbers(first) == "k.c:16:16: error: '# % # == #' for # in sm_90 and x1"
    assert without_numbers("k.c:16:16: error") != without_numbers("k.c:17:16: error")
