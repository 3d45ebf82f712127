"""Writing the outputs of results into a folder."""

from __future__ import annotations

from pathlib import Path

from teeny_async.errors import RequestError
from teeny_async.files import write_whole
from teeny_async.report.naming import file_name
from teeny_async.result import CompileResult


class ArtifactWriter:
    """Writes the outputs of each good result; see `report.naming` for what the files are called.

    folder: must exist. The same result may come twice; its files are then written once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unkeyed: dict[str, str] = {}
        """Names of files whose content the key in the name does not settle, and the artifact's digest."""

    async def write(self, result: CompileResult) -> list[str]:
        """The paths written, in the order of the outputs; none for a failure.

        Raises OSError, and RequestError when two results of different contents have one name.
        """
        if not result.ok:
            return []
        artifact = result.artifact
        contents = dict(artifact.outputs)
        if artifact.log is not None:
            contents["log"] = artifact.log.encode()
        paths = []
        for label, data in contents.items():
            path = self._folder / self._name(result, label)
            await write_whole(path, data)
            paths.append(str(path))
        return paths

    def _name(self, result: CompileResult, label: str) -> str:
        request = result.request
        assert result.key is not None, "only a failure has no key"
        target = None if request.target is None else str(request.target)
        name = file_name(request.kernel.name, target, request.params, result.key.digest, label)
        # A key covers all that the compiler reads, unless the result says that it does not.
        if result.uncached is not None:
            digest = result.artifact.digest
            if self._unkeyed.setdefault(name, digest) != digest:
                raise RequestError(f"two results with different contents would be written to {name}")
        return name
