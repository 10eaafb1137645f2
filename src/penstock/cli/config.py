"""`penstock config`: the effective values and their sources, all keys, and problems."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from penstock.cli.help import examples
from penstock.cli.noun import InSession, noun
from penstock.plumbing.config import Config, ConfigSource, Declaration, Effective, Secret, known_keys
from penstock.server.output import make_table

__all__ = ["app", "example_file"]

app = noun(
    "config",
    "Show, check and explain the configuration.",
    try_this=("penstock config show", "penstock config keys wire", "penstock config check --config penstock.toml"),
)


@app.command(
    help_epilogue=examples(
        "penstock config show",
        "penstock config show --changed",
        "PENSTOCK_LOG_LEVEL=debug penstock config show --output json",
    )
)
def show(
    *,
    changed: Annotated[bool, Parameter(help="Only values that differ from their default.")] = False,
    session: InSession,
) -> None:
    """Show every value in force and where it comes from: a flag, the environment, the file or the default.

    Flags count more than the environment (PENSTOCK_SECTION_KEY), that more than the file, and that more than defaults.
    Secrets are never shown.
    """
    effective = session.effective
    names = [
        name for name, origin in effective.origins.items() if not changed or origin.source is not ConfigSource.DEFAULT
    ]
    if effective.file is not None:
        session.say(f"file: {effective.file}")
    rows = [(Text(name), _value(effective, name), _origin(effective, name)) for name in names]
    session.emit([_shown(effective, name) for name in names], make_table(["key", "value", "from"], rows))


@app.command(help_epilogue=examples("penstock config keys", "penstock config keys wire"))
def keys(
    section: Annotated[str | None, Parameter(help="Only the keys of this section.")] = None,
    /,
    *,
    session: InSession,
) -> None:
    """List keys with meaning, allowed values and default."""
    declared = [one for one in known_keys().values() if section in (None, one.section)]
    if not declared:
        from penstock.kernel.errors import InvalidArgument

        sections = ", ".join(dict.fromkeys(one.section for one in known_keys().values()))
        raise InvalidArgument(f"no section is named {section}; there are {sections}", next_step="penstock config keys")
    session.emit([_described(one) for one in declared], *(part for one in declared for part in _entry(one)))


@app.command(help_epilogue=examples("penstock config check", "penstock config check --config /etc/penstock.toml"))
def check(*, session: InSession) -> None:
    """Check the configuration and list every problem, with its place. Exits with 2 if there is one."""
    effective = session.effective
    changed = sum(origin.source is not ConfigSource.DEFAULT for origin in effective.origins.values())
    data = {"ok": True, "file": effective.file, "changed": changed, "keys": len(effective.origins)}
    read = f"{effective.file} is read" if effective.file is not None else "no file is read"
    session.emit(data, f"ok: {read}; {changed} {'key is' if changed == 1 else 'keys are'} not at the default")


@app.command(help_epilogue=examples("penstock config example > penstock.toml"))
def example(*, session: InSession) -> None:
    """Print a configuration file with every key, explained and commented out."""
    text = example_file()
    session.emit_verbatim({"toml": text}, text)


def example_file() -> str:
    """Every key as a commented line of TOML, under its meaning."""
    lines = ["# Penstock's configuration. Every line is the default; take the # away to change one.\n"]
    section = ""
    for one in known_keys().values():
        if one.section != section:
            section = one.section
            doc = (getattr(Config(), section).__doc__ or "").strip()
            lines.append(f"\n# {doc}\n[{section}]\n")
        value = one.write(one.default) if one.default is not None else ""
        lines.append(f"# {one.doc} ({one.allowed})\n")
        lines.append(f'#{one.key} = "{value}"\n' if one.kind.quoted else f"#{one.key} = {value}\n")
    return "".join(lines)


def _value(effective: Effective, name: str) -> Text:
    value = effective.value(name)
    return Text("(none)", "dim") if value in (None, "") else Text(known_keys()[name].write(value))


def _origin(effective: Effective, name: str) -> Text:
    origin = effective.origins[name]
    return Text(str(origin), "dim" if origin.source is ConfigSource.DEFAULT else "")


def _shown(effective: Effective, name: str) -> dict[str, Any]:
    origin = effective.origins[name]
    return {
        "key": name,
        "value": _plain(effective.value(name)),
        "source": origin.source.value,
        "where": origin.where,
    }


def _entry(one: Declaration) -> Iterator[RenderableType]:
    default = Text("(none)", "dim") if one.default in (None, "") else Text(one.write(one.default))
    yield Text.assemble((one.name, "cyan"), " = ", default, (f"   {one.allowed}", "dim"))
    yield Padding(Text(one.doc), (0, 0, 0, 4))


def _described(one: Declaration) -> dict[str, Any]:
    return {
        "key": one.name,
        "variable": one.variable,
        "doc": one.doc,
        "allowed": one.allowed,
        "choices": one.kind.choices,
        "default": _plain(one.default),
        "secret": one.kind.secret,
    }


def _plain(value: Any) -> Any:
    """Return a value for programs: times in seconds, sizes in bytes, the rest as text; a secret stays masked."""
    return str(value) if isinstance(value, Secret | Path) or not isinstance(value, str | int | float | None) else value
