"""`CommandMeasurer`: any program as a measurement: `--measure "bench {artifact} {config}"`."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.execution.runner import LocalRunner, RunLimits
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact
from teeny_async.target import Target
from teeny_async.tuning.facts import main_output
from teeny_async.tuning.measurement import MeasureContext, MeasureFailed
from teeny_async.tuning.space import Config

_ARTIFACT, _CONFIG = "artifact", "config.json"
_TAIL = 300


class CommandMeasurer:
    """Runs a command for each configuration, one at a time for each device, in a scratch folder of its own.

    command: a line as a shell would read it, without a shell. {artifact} is the path of the main output,
    {config} of a JSON file: {"config", "target", "kernel", "device", "fidelity", "confirming", "best",
    "give_up_above"}; {device} the device's name. It prints one JSON object, on the last line that is one: {"time": seconds}, and if it likes
    "p20", "p80", "runs", "correct", "device", "clocks", or {"error": "...", "kind": "wrong"}.
    environ: of the command. timeout: seconds, after which it is killed with its group.
    """

    flags: Sequence[str] = ()

    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        *,
        devices: Sequence[str] = ("default",),
        timeout: float = 120.0,
        scratch_dir: str | None = None,
    ) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise RequestError(f"measure command {command!r}: {error}") from None
        program = shutil.which(self._words[0], path=environ.get("PATH")) if self._words else None
        if program is None:
            raise RequestError(f"measure command {command!r}: there is no such program")
        self._program = str(Path(program).absolute())
        # It runs in a folder of its own: a file that it is told of must be found from there.
        self._words = [str(Path(word).absolute()) if Path(word).is_file() else word for word in self._words]
        self._environ = dict(environ)
        self._devices = devices
        self._limits = RunLimits(wall=timeout)
        self._scratch_dir = scratch_dir or tempfile.gettempdir()
        self.problem = {"command": command}

    def refusal(self, target: Target | None) -> str | None:
        return None

    def devices(self) -> Sequence[str]:
        return self._devices

    async def __aenter__(self) -> CommandMeasurer:
        self._stack = AsyncExitStack()
        self._runner = await self._stack.enter_async_context(LocalRunner(self._scratch_dir))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def __call__(self, artifact: Artifact, config: Config, context: MeasureContext) -> Mapping[str, Any]:
        label = main_output(artifact)
        assert label is not None
        told = {
            "config": dict(config),
            "target": str(context.target),
            "kernel": context.request.kernel.name,
            "device": context.device,
            "fidelity": context.fidelity,
            "confirming": context.confirming,
            "best": context.best,
            "give_up_above": context.give_up_above,
        }
        places = {"{artifact}": _ARTIFACT, "{config}": _CONFIG, "{device}": context.device}
        action = Action(
            argv=[_replaced(word, places) for word in self._words],
            executable=self._program,
            neutral=FrozenMap(self._environ),
            inputs=(Input(_CONFIG, (json.dumps(told),)),),
            chained=FrozenMap({_ARTIFACT: label}),
        )
        exit = await self._runner.run(action, {_ARTIFACT: artifact[label]}, self._limits)
        if exit.stopped is not None:
            raise MeasureFailed("error", f"the command was stopped ({exit.stopped}) after {exit.usage.wall:.1f} s")
        found = last_object(exit.stdout.decode("utf-8", "replace"))
        if exit.code != 0 or found is None:
            said = exit.stderr.decode("utf-8", "replace").strip()[-_TAIL:]
            raise MeasureFailed("error", f"the command ended with {exit.code} and no JSON object: {said}")
        return found

    async def extras(self, artifact: Artifact, context: MeasureContext) -> Mapping[str, bytes]:
        return {}


def last_object(text: str) -> dict[str, Any] | None:
    """The last line of a text that is a JSON object."""
    for line in reversed(text.splitlines()):
        if line.lstrip().startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            return dict(found)
    return None


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        word = word.replace(name, value)
    return word
