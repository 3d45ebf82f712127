"""Every recorded run of a real compiler is judged to its recorded kind."""

from __future__ import annotations

from typing import Any

import pytest

from teeny_async.failures import POLICIES, FailureKind
from teeny_async.result import Artifact, Failure
from teeny_async.toolchains.verdict import judge

from .samples import Sample, samples


def judged_sample(sample: Sample, **changes: Any) -> Artifact | Failure:
    ended = sample.ended(**changes)
    return judge(sample.action, ended, tool=sample.tool, parse=sample.parse, check=sample.check)


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.file)
def test_recorded(sample: Sample) -> None:
    found = judged_sample(sample)
    assert ("OK" if isinstance(found, Artifact) else found.kind.name) == sample.kind
    if isinstance(found, Failure):
        assert found.message
        assert "\n" not in found.message
        assert found.command == sample.argv


@pytest.mark.parametrize(
    "sample", [each for each in samples() if each.kind in ("CANCELLED", "TIMEOUT")], ids=lambda sample: sample.file
)
def test_a_stop_that_was_not_ours_is_never_remembered(sample: Sample) -> None:
    found = judged_sample(sample, stopped=None)
    assert isinstance(found, Failure)
    assert not POLICIES[found.kind].cached
    assert found.kind is not FailureKind.CRASH
