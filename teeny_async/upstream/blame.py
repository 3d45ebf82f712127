"""Why an artifact is not what its source gives now: which of the two has changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

UNTOLD = "source or compiler"


class Made(NamedTuple):
    """What is known to have made some PTX: the text, None when its prelude is forgotten, and the compiler."""

    text: str | None
    fingerprint: str


def culprit(now: str, beside: str | None, makers: Sequence[Made], fingerprint: str) -> str:
    """What has changed: the source, the compiler, or `UNTOLD`.

    now: the text that it should be made of. beside: the `.rs` that was left with it, where `now` is from elsewhere.
    makers: what is known to have made this very artifact. fingerprint: of the compiler as it is.
    """
    texts = {made.text for made in makers} - {None}
    if texts and now not in texts:
        return "source"
    if any(made.text == now and made.fingerprint != fingerprint for made in makers):
        return "compiler"
    if beside is not None:
        return "source" if beside != now else "compiler"
    return UNTOLD
