"""`teeny-async doctor`: what is installed, what is missing, and what this machine has to give."""

from __future__ import annotations

from typing import Any

import click


@click.command(short_help="Show the toolchains found, the cache and the machine.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def doctor(as_json: bool) -> int:
    """Show which toolchains are installed and how to get the others, the cache, and the machine.

    The exit code is 0 whatever is missing: every toolchain is optional.
    """
    import os

    from teeny_async.cli.look import cache_state, machine_state, scratch_state, toolchain_states
    from teeny_async.settings import Settings

    settings = Settings.from_environ(os.environ)
    state = {
        "schema": 1,
        **_versions(),
        "toolchains": toolchain_states(settings),
        "cache": cache_state(settings.cache_dir),
        "machine": machine_state(),
        "scratch": scratch_state(settings),
    }
    if as_json:
        import json

        click.echo(json.dumps(state, indent=2))
    else:
        _show(state)
    return 0


def _versions() -> dict[str, Any]:
    import importlib.metadata
    import platform

    from teeny_async import __version__

    packages: dict[str, str | None] = {}
    for name in ("anyio", "tenacity", "diskcache", "aiofiles", "trio", "uvloop", "obstore", "distributed"):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = None
    return {"version": __version__, "python": platform.python_version(), "packages": packages}


def _show(state: dict[str, Any]) -> None:
    packages = ", ".join(f"{name} {version or 'not installed'}" for name, version in state["packages"].items())
    click.echo(f"{click.style('teeny_async', bold=True)} {state['version']} on Python {state['python']}")
    click.echo(f"  {packages}")
    click.echo(f"\n{click.style('Toolchains', bold=True)}")
    for tool in state["toolchains"]:
        _show_tool(tool)
    _show_cache(state["cache"])
    _show_machine(state["machine"], state["scratch"])


def _show_tool(tool: dict[str, Any]) -> None:
    languages = ", ".join(tool["languages"]) or "what others write"
    name = f"{tool['name']:<8}"
    if not tool["found"]:
        what, _, cure = tool["problem"].partition("; ")
        click.echo(f"  {click.style('missing', fg='yellow')}  {name} {what}")
        if cure:
            click.echo(f"           {'':8} {cure}")
        return
    click.echo(f"  {click.style('found', fg='green')}    {name} {tool['version']}")
    click.echo(f"           {'':8} {languages} to {', '.join(tool['emits'])}")
    click.echo(f"           {'':8} {tool['path']}")
    click.echo(f"           {'':8} {click.style('fingerprint ' + tool['fingerprint'][:16], dim=True)}")


def _show_cache(cache: dict[str, Any]) -> None:
    from teeny_async.report.text import size_text

    click.echo(f"\n{click.style('Cache', bold=True)}     {cache['location']}")
    if not cache["exists"]:
        click.echo("  not there yet: the first compile makes it")
    elif cache["trouble"]:
        click.echo(f"  {click.style('trouble', fg='red')}: {cache['trouble']}")
    else:
        click.echo(f"  {cache['entries']:,} entries, {size_text(cache['bytes'])} of {size_text(cache['size_limit'])}")


def _show_machine(machine: dict[str, Any], scratch: dict[str, Any]) -> None:
    from teeny_async.report.text import size_text

    quota = f", of which the control group allows {machine['cpu_quota']:.4g}" if machine["cpu_quota"] else ""
    click.echo(f"\n{click.style('Machine', bold=True)}")
    click.echo(f"  {machine['jobs']} compilers at a time ({machine['cpus']} CPUs{quota}); -j changes it")
    memory = machine["memory_available"]
    limit = machine["memory_limit"]
    click.echo(
        f"  {size_text(memory) if memory is not None else 'unknown'} of memory available, "
        + (f"{size_text(limit)} allowed by the control group" if limit else "no limit by a control group")
    )
    click.echo(f"\n{click.style('Scratch', bold=True)}   {scratch['location']}")
    if scratch["problem"]:
        click.echo(f"  {click.style('trouble', fg='red')}: {scratch['problem']}")
    else:
        sessions = f", {scratch['sessions']} sessions at work" if scratch["sessions"] else ""
        click.echo(f"  {size_text(scratch['free'])} free{sessions}")
