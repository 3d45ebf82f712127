"""Which workers may stand in for each other: decisions about answers, without a network.

A key holds the identity of the compiler. So all compiles of a session by one toolchain run on workers whose tool
is the same one, to the path and the digest: a *team*. Where a cluster has several, the largest is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from teeny_async.cluster.worker import Refusal
from teeny_async.toolchains.base import Toolchain, ToolNotFound


class Team(NamedTuple):
    """Workers with the same tool. others: those that have another one, or none."""

    toolchain: Toolchain
    workers: frozenset[str]
    others: frozenset[str]


def largest_team(name: str, answers: Mapping[str, Toolchain | Refusal | Exception]) -> Team:
    """The team to compile with. answers: by worker. Raises ToolNotFound with what most workers say.

    Of teams of one size that with the lesser fingerprint: the same one in every session, which finds its results.
    """
    found = [answer for answer in answers.values() if isinstance(answer, Toolchain)]
    if not found:
        reasons = Counter(_reason(answer) for answer in answers.values())
        raise ToolNotFound(
            f"{reasons.most_common(1)[0][0]} (on {len(answers)} workers)" if reasons else f"{name}: no worker answered"
        )
    sizes = [(-sum(other == tool for other in found), tool.fingerprint, tool.path) for tool in found]
    best = found[sizes.index(min(sizes))]
    workers = frozenset(worker for worker, answer in answers.items() if answer == best)
    return Team(best, workers, frozenset(answers) - workers)


def least_loaded(loads: Mapping[str, tuple[int, int]]) -> str | None:
    """The worker with the fewest jobs for each of its threads. loads: worker -> (jobs, threads)."""
    return min(loads, key=lambda worker: loads[worker][0] / max(1, loads[worker][1]), default=None)


def _reason(answer: Toolchain | Refusal | Exception) -> str:
    return answer.text if isinstance(answer, Refusal) else f"{type(answer).__name__}: {answer}"
