"""Arguments in, exit code out. Nothing is judged here.

`main` is the only way in and out: every exception, `SystemExit(0)` from somebody's code included, becomes exit code 2 and one sentence on
stderr; Ctrl-C becomes 130. Modules are imported where they are used, so that `--help` and a misspelt option answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import rich_click as click

from screen.command import complete, console
from screen.errors import INTERRUPTED, UsageError

NOT_JUDGED = 2
COMPLETE = "_SCREEN_COMPLETE"
"""Variable of the environment with which a shell asks for completions, e.g. `bash_source`."""
INPUT = (
    "An input of forward, e.g. 'x=float32[1,16,512]', 'lengths=int64[2]=17' (one value for all entries), 'batch.ids=int64[2,16]' (an entry of a "
    "dictionary); repeatable. In the file: `example_inputs`."
)
RECIPE = (
    "How it will be trained: a TOML, YAML or JSON file, a saved TrainingArguments, a nanoGPT-like config.py (read, never run), a name of "
    "`screen recipe`, or one field, e.g. lr=3e-4; repeatable, later ones win."
)
TRUSTED = (
    "Settings, the baseline and comments that ignore come from this commit (e.g. origin/main) or .toml file, and none from the tree that is judged."
)
SANDBOX = (
    "auto (default): the code of TARGET runs without network, writes to a temporary folder alone and does not see reports and keys, where the system "
    "can do that (`screen doctor`); require: else exit 2; off: it runs with your rights."
)
SELECT = "Only rules whose codes start so, e.g. G1,R201."
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

GROUPS = (
    ("What is screened", ("--recipe", "--set", "--config", "--input", "--depth", "--width", "--skip-without-model")),
    ("Rules and exit code",
     ("--select", "--ignore", "--fail-on", "--allow-unknown", "--strict-rules", "--baseline", "--update-baseline", "--trusted-config")),
    ("Reports", ("--format", "--report", "--output", "--short", "--color", "--quiet", "--verbose")),
    ("Measuring",
     ("--spot-check", "--second-opinion", "--require-opinion", "--probe", "--device", "--dtype", "--seed", "--probe-seconds", "--stress")),
    ("Limits", ("--timeout", "--memory", "--sandbox", "--jobs", "--watch")),
    ("Help", ("--help",)),
)  # fmt: skip
"""Of `check` and of `probe`, which has all but `--probe`."""
click.rich_click.OPTION_GROUPS = {
    f"screen {name}": [{"name": title, "options": [option for option in options if option not in lacks]} for title, options in GROUPS]
    for name, lacks in (("check", ()), ("probe", ("--probe",)))
}


class Group(click.RichGroup):
    """Commands with a did-you-mean."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; what is wrong in the words of a command says which."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            if error.ctx is None and name is not None and (command := self.get_command(ctx, name)) is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that the first word names. Raises `UsageError` with the nearest one."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from difflib import get_close_matches

            commands = [name for name in self.list_commands(ctx) if not getattr(self.get_command(ctx, name), "hidden", False)]
            near = get_close_matches(args[0], commands, 1, 0.6)
            looks_like_target = any(mark in args[0] for mark in (".", ":", "/"))
            near = ["--help"] if args[0] == "help" else near
            hint = f"Did you mean `screen {near[0]}`?" if near else f"Did you mean `screen check {args[0]}`?" if looks_like_target else ""
            raise UsageError("the first word must be a command: " + ", ".join(f"`{c}`" for c in commands), f"it is `{args[0]}`", hint)
        return super().resolve_command(ctx, args)


@click.group(cls=Group, context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(None, "--version", package_name="archscreen", prog_name="screen")
@click.pass_context
def app(context: click.Context) -> int:
    """Reads a transformer's residual streams off its code and judges whether the architecture trains stably.

    Exit codes: 0 nothing found, 1 a slip or unstable (`check --fail-on`), 2 not judged (usage, load, trace, limits), 130 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    return NOT_JUDGED


def _probe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How it is measured."""
    for option in (
        click.option("--probe-seconds", metavar="SECONDS", help="Budget of the probe, in counted work (default 60)."),
        click.option("--stress", is_flag=True, help="Also train it for a few hundred steps over learning rates."),
        click.option("--seed", metavar="N", help="Of weights and inputs of the probe (default 0)."),
        click.option("--dtype", metavar="TYPE", help="auto (default: float64 where it fits, else float32), float64 or float32."),
        click.option("--device", metavar="NAME", help="auto (default: a GPU where there is one), cpu or cuda."),
    ):
        command = option(command)
    return command


def _target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that change what is captured, and its limits."""
    for option in (
        click.option("-v", "--verbose", is_flag=True, help="Tracebacks, the target's own output, findings that hold."),
        click.option("-o", "--output", metavar="PATH", help="Write there instead of to stdout."),
        click.option("--sandbox", metavar="WHEN", help=SANDBOX),
        click.option("--memory", metavar="SIZE", help="For the processes of one target together (default 8GiB, 0 is no limit)."),
        click.option("--timeout", metavar="SECONDS", help="Time for one target: capture and analysis (default 120)."),
        click.option("--width", metavar="D", help="Hidden size that a config is built with; heads and sizes inside go with it."),
        click.option("--recipe", multiple=True, metavar="FILE|NAME|FIELD=VALUE", help=RECIPE),
        click.option("--depth", metavar="N", help="How many times a target that is one block will be stacked (default 24)."),
        click.option("--input", multiple=True, metavar="'NAME=DTYPE[SHAPE]'", help=INPUT),
        click.option("--config", metavar="FILE", help="Values of the config: YAML, JSON, TOML or Python (read only), or FILE:part; `--set` wins."),
        click.option("--set", multiple=True, metavar="KEY=VALUE", help="A value of the config or an argument of the class; repeatable."),
    ):
        command = option(command)
    return command


def _check_options(fail_on: str, formats: str, quiet: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Every option of `check` and of `probe`, but for `--probe` itself: what a command says in words of its own is given."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            _probe_options,
            click.option("--require-opinion", is_flag=True, help="A file or a module of which no second opinion was had exits 2."),
            click.option("--second-opinion/--no-second-opinion", default=None, help="Capture a file or a module twice and compare (default: on)."),
            click.option("--spot-check/--no-spot-check", default=None, help="Compare what is said with a short run on real tensors (default: on)."),
            click.option("-q", "--quiet", is_flag=True, help=quiet),
            click.option("--short", is_flag=True, help="Markdown without tables and details, short enough for a comment on GitHub."),
            click.option("--color", metavar="WHEN", help="auto (default), always or never."),
            click.option("--update-baseline", is_flag=True, help="Write everything that is found to the file of --baseline."),
            click.option("--baseline", metavar="FILE", help="Findings that stand in this file do not fail: only what is new does."),
            click.option("--strict-rules", is_flag=True, help="A rule that does not load or raises exits 2; else it is named in the report."),
            click.option("--trusted-config", metavar="REF|FILE", help=TRUSTED),
            click.option("--allow-unknown", is_flag=True, help="The verdict `unknown` exits 0 (an error still exits 2)."),
            click.option("--fail-on", multiple=True, metavar="WHAT", shell_complete=complete.one_of(complete.gates), help=fail_on),
            click.option("--ignore", multiple=True, metavar="CODES", help="No rules whose codes start so."),
            click.option("--select", multiple=True, metavar="CODES", shell_complete=complete.one_of(complete.rules), help=SELECT),
            click.option("--report", multiple=True, metavar="FORMAT=PATH", help="Also write a report there, its folders made; repeatable."),
            click.option("--format", metavar="FORMAT", shell_complete=complete.one_of(complete.formats), help=formats),
            click.option("--skip-without-model", is_flag=True, help="Files in which no model can be read are left out (for hooks)."),
            click.option("-j", "--jobs", metavar="N", help="Targets that are judged at the same time (default 1; auto: one for each core)."),
            click.option("--watch", is_flag=True, help="Judge again whenever a file changes that the targets stand in or import; Ctrl-C ends."),
            _target_options,
            click.argument("targets", metavar="[TARGET...]", nargs=-1, shell_complete=complete.files),
        ):
            command = option(command)
        return command

    return add


@app.command(context_settings=CONTEXT)
@click.option("--probe/--no-probe", default=None, help="Also measure what is predicted, on one block at a time.")
@_check_options(
    "What exits 1: slip (default: unstable, or a warning or error that is violated), unstable, conditional, never, or rule codes.",
    "text (default), concise, markdown, html, json, sarif, github, gitlab or junit.",
    "`path:line: verdict: reason` for each target, and nothing else.",
)
def check(targets: tuple[str, ...], watch: bool, **options: Any) -> int:
    """Trace, judge and report: the gate for CI.

    A TARGET is `path/to/model.py`, `path/to/model.py::Name`, `package.module:attr`, a Hugging Face `config.json` or its folder,
    `hf:TYPE[:ClassName]`, `timm:NAME`, or the name of an entry of the file of settings. Without one, every entry of `[[tool.screen.targets]]` is
    checked (`[[targets]]` in screen.toml). A file is executed, as an import does, on Linux in a sandbox; nothing is downloaded.
    """
    from screen.command import commands

    return _watched(watch, targets, lambda: commands.check(targets, options))


@app.command(context_settings=CONTEXT)
@click.argument("target", shell_complete=complete.files)
@_target_options
@click.option("--format", metavar="FORMAT", help="text (default), mermaid, dot, json or graphml.")
def graph(target: str, **options: Any) -> int:
    """The residual streams of TARGET, with what stands at each position."""
    from screen.command import commands

    return commands.graph(target, options)


@app.command(context_settings=CONTEXT)
@_check_options(
    "Findings exit 1 too, as in `check`: slip, unstable, conditional, never, or rule codes (default: only a prediction that is refuted).",
    "text (default), markdown or json: what was measured. `--report` writes whole reports, in every format of `check`.",
    "One line for each target.",
)
def probe(targets: tuple[str, ...], watch: bool, **options: Any) -> int:
    """Measure what the analysis predicts of each TARGET, on real weights, one block at a time.

    It takes the targets and the options of `screen check`. Findings count for the exit code where `--fail-on` or `--baseline` is given.
    Exit codes: 0 nothing refuted, 1 a prediction refuted, 2 nothing measured (usage, load, trace, limits), 130 interrupted.
    """
    from screen.command import commands

    return _watched(watch, targets, lambda: commands.probe(targets, options))


def _watched(watch: bool, targets: tuple[str, ...], run: Callable[[], int]) -> int:
    """Once, or with `--watch` after each change."""
    if not watch:
        return run()
    from screen.command.watch import watch as again

    return again(run, targets)


def _compare(name: str, hidden: bool) -> None:
    """The command under one of its two names."""

    @app.command(name, context_settings=CONTEXT, hidden=hidden)
    @click.argument("targets", metavar="A B [C ...]", nargs=-1, shell_complete=complete.files)
    @_target_options
    @click.option("--format", metavar="FORMAT", help="text (default), markdown or json.")
    def compare(targets: tuple[str, ...], **options: Any) -> int:
        """Targets, or reports saved as JSON, side by side: what differs in structure, channels and claims. With -v also what is equal.

        Exit codes: 0, 1 when a channel is worse than in the first, 2 not judged, 130 interrupted.
        """
        from screen.command import commands

        return commands.compare(targets, options)


_compare("compare", hidden=False)
_compare("diff", hidden=True)


@app.command(context_settings=CONTEXT)
@click.argument("code", required=False, shell_complete=complete.one_of(complete.rules))
@click.option("--all", "everything", is_flag=True, help="Every page.")
def rule(code: str | None, everything: bool) -> int:
    """The page of a rule; without CODE a list of all rules."""
    from screen.command import pages

    return pages.rule(code, everything)


@app.command(context_settings=CONTEXT)
@click.argument("name", required=False, shell_complete=complete.one_of(complete.recipes))
@click.option("--fields", is_flag=True, help="What a recipe can state, each with its unit.")
def recipe(name: str | None, fields: bool) -> int:
    """A named recipe with its sources, or what a file is read as, as TOML; without NAME a list of all names."""
    from screen.command import pages

    return pages.recipe(name, fields)


@app.command(context_settings=CONTEXT)
@click.argument("term", nargs=-1, shell_complete=complete.one_of(complete.terms))
def explain(term: tuple[str, ...]) -> int:
    """What a word of a report means, or a channel's letter, or a rule's code; without TERM all words."""
    from screen.command import pages

    return pages.explain(" ".join(term))


@app.command(context_settings=CONTEXT)
def schema() -> int:
    """The JSON Schema of a report."""
    from screen.command import pages

    return pages.schema()


@app.command(context_settings=CONTEXT)
def config() -> int:
    """The settings in effect, each with its origin."""
    from screen.command import pages

    return pages.config()


@app.command(context_settings=CONTEXT)
@click.option("--dry-run", is_flag=True, help="Show the changes as a diff, and write nothing.")
@click.option("--install", metavar="REQUIREMENT", help="What pip installs in CI to have screen, e.g. 'git+https://…'.")
def init(dry_run: bool, install: str | None) -> int:
    """Settings, a workflow and a hook for this repository, from the models that are found by reading it. Nothing is executed or overwritten."""
    from screen.command.init import init

    return init(dry_run, install)


@app.command(context_settings=CONTEXT)
def doctor() -> int:
    """Versions, device, isolation, plugins, and which `screen` this is: what a report of a fault needs."""
    from screen.command import pages

    return pages.doctor()


def _not_yet(name: str, what: str) -> None:
    """A command of the contract that a later version will have."""

    @app.command(name, context_settings={**CONTEXT, "ignore_unknown_options": True}, help=f"(Not in this version.) {what}", hidden=True)
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def refuse(words: tuple[str, ...]) -> int:
        from screen.settings import later

        raise later(f"`screen {name}`", "it was called")


_not_yet("fix", "Remedies, each tried on the graph.")
_not_yet("sweep", "A space of designs.")


def main(argv: Sequence[str] | None = None) -> int:
    """The whole command. Returns the exit code and raises nothing."""
    words = list(sys.argv[1:] if argv is None else argv)
    console.verbose = any(word in ("-v", "--verbose") for word in words)
    try:
        console.prepare()
        if sys.flags.optimize > 1:
            found = "Python runs without them (`-OO`, `PYTHONOPTIMIZE=2`)"
            raise UsageError("`screen` must have docstrings, of which the pages of its rules are made", found, "Leave that out")
        if COMPLETE in os.environ:  # a shell asks, or sets itself up: click's own way ends in `SystemExit(0)`
            from click.shell_completion import shell_complete

            try:
                done = shell_complete(app, {}, "screen", COMPLETE, os.environ[COMPLETE]) == 0
            except (KeyError, ValueError) as error:
                found = f"{type(error).__name__}: {error}"
                raise UsageError("a shell must say what was typed in `COMP_WORDS` and `COMP_CWORD`", found, f"`{COMPLETE}` is for shells") from None
            if done:
                console.flush()
                return 0
            raise UsageError(f"`{COMPLETE}` must be `bash_source`, `zsh_source` or `fish_source`", f"it is `{os.environ[COMPLETE]}`")
        code = app.main(args=words, prog_name="screen", standalone_mode=False)
        console.flush()
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, click.Abort):
        console.line("interrupted")
        console.settle()
        return INTERRUPTED
    except BaseException as error:  # `SystemExit(0)` and `GeneratorExit` included: only a report may end in 0 or 1
        console.about(error)
        console.settle()
        return NOT_JUDGED


__all__ = ["app", "main"]
