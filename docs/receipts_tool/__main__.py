"""`python -m docs.receipts_tool`, in a checkout: where the numbers of the documentation come from,
and whether they hold.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.markup import escape
from typer import Argument, Typer, prompt

from docs.receipts_tool.measurement import Measurement, record_page
from docs.receipts_tool.records import Checkout, Receipt, Rerun
from docs.receipts_tool.rerun import NamedReceipt, all_receipts, full_form, rerun
from docs.receipts_tool.scan import Scan, page_of
from regard.cli.display.console import note, out, print_error
from regard.cli.options.shared_options import flag, option
from regard.errors import RegardError, SettingsError
from regard.settings import counted

ROOT = Path(__file__).parents[2]

app = Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


@app.callback()
def command() -> None:
    """Every number that the documentation gives is computed by the build, has a receipt (command,
    machine, date) in docs/receipts/, or is cited from docs/citations.yaml.
    """


@app.command("list")
def list_receipts(
    names: list[str] = Argument(None, metavar="[NAME…]", help="Pages, or PAGE#SECTION."),
) -> None:
    """List receipts: how each can be checked here, and which are stale.

    A receipt is stale if its recipe or program has changed since.

    Examples:

        python -m docs.receipts_tool list
        python -m docs.receipts_tool list performance results#memory
    """
    scan = Scan(Checkout(ROOT))
    for one in _chosen(scan, names or []):
        out.print(f"[bold]{escape(one.name)}[/bold]: {_way(one.receipt)}")
        for line in _details(scan, one.receipt):
            out.print(f"  {escape(line)}")


def _way(receipt: Receipt) -> str:
    """How a receipt can be checked."""
    if receipt.short:
        return "short form"
    if receipt.gpu:
        return "not checked here: needs a GPU"
    if receipt.prints:
        minutes = f", {receipt.minutes:g} min" if receipt.minutes else ""
        return f"checked by --full{minutes}"
    return "by hand" if receipt.command else "its command was not kept"


def _details(scan: Scan, receipt: Receipt) -> Iterator[str]:
    yield "; ".join(said for said in (receipt.command, receipt.machine, receipt.date) if said)
    if receipt.unknown:
        yield f"not known: {', '.join(receipt.unknown)}"
    changed = receipt.stale_sources(scan.checkout.root)
    if changed:
        yield f"stale: {', '.join(changed)} changed since"


@app.command()
def check(
    names: list[str] = Argument(None, metavar="[NAME…]", help="Pages, or PAGE#SECTION."),
    full: bool = flag("--full", "Run whole commands, not short forms: minutes to hours each."),
) -> None:
    """Compare the numbers of all pages with the recorded ones.

    Runs the short forms of receipts again and compares what they print. Receipts that are stale,
    and those that need a GPU, are listed. The exit code is 1 if a number differs.

    Examples:

        python -m docs.receipts_tool check
        python -m docs.receipts_tool check results --full
    """
    scan = Scan(Checkout(ROOT))
    chosen = _chosen(scan, names or [])
    findings = scan.findings()
    for finding in findings:
        out.print(f"[red]differs[/] {escape(str(finding))}")
    failed = [one for one in chosen if not _check(scan, one, full=full)]
    changed = [(one, one.receipt.stale_sources(scan.checkout.root)) for one in chosen]
    stale = [(one, ", ".join(files)) for one, files in changed if files]
    for one, files in stale:
        out.print(f"[yellow]stale[/] {escape(f'{one.name}: {files} changed since')}")
    left = [one for one in chosen if _form(one.receipt, full=full) is None]
    _list_unchecked("needs a GPU", [one for one in left if one.receipt.gpu])
    _list_unchecked("no short form", [one for one in left if not one.receipt.gpu])
    unknown = sum(bool(one.receipt.unknown) for one in chosen)
    if unknown:
        out.print(f"[dim]without command, machine or date:[/] {counted(unknown, 'receipt')}")
    if findings or failed:
        sections = {(one.page, one.anchor) for one in findings}
        raise SettingsError(
            f"{counted(len(sections), 'section')} and {counted(len(failed), 'receipt')} differ; "
            "after an intended change: python -m docs.receipts_tool record PAGE"
        )
    out.print(f"all numbers are as recorded; {counted(len(stale), 'receipt')} stale")


def _list_unchecked(why: str, receipts: list[NamedReceipt]) -> None:
    names = list(dict.fromkeys(one.name for one in receipts))
    if names:
        out.print(f"[dim]not checked here, {why}:[/] {escape(', '.join(names))}")


def _form(receipt: Receipt, *, full: bool) -> Rerun | None:
    """The command of a receipt to run again; None: there is none."""
    whole = full_form(receipt) if full and not receipt.gpu else None
    return whole or receipt.short


def _check(scan: Scan, one: NamedReceipt, *, full: bool) -> bool:
    """Run a receipt again if possible; whether nothing differs."""
    form = _form(one.receipt, full=full)
    if form is None:
        return True
    if form.data and "REGARD_DATA" not in os.environ:
        note(f"{one.name}: left out, it needs the corpora of $REGARD_DATA")
        return True
    outcome = rerun(scan.checkout.root, form, one.receipt.data)
    said = f"{one.name} ({outcome.seconds:.0f} s): {form.command}"
    if outcome.same:
        out.print(f"[green]as recorded[/] {escape(f'{form.prints}  {said}')}")
        return True
    why = outcome.failed or f"does not print {' '.join(map(str, outcome.missing))}"
    out.print(f"[red]differs[/] {escape(f'{said}: {why}')}")
    return False


def _chosen(scan: Scan, names: list[str]) -> list[NamedReceipt]:
    """The receipts of some pages or sections; of all, if none is named."""
    found = list(all_receipts(scan.checkout))
    if not names:
        return found
    wanted = []
    for name in names:
        page, anchor = _place(scan, name)
        matching = [one for one in found if one.page == page and anchor in ("", one.anchor)]
        if anchor and not matching:
            known = ", ".join(dict.fromkeys(one.anchor for one in found if one.page == page))
            raise SettingsError(f"{page} has no receipt #{anchor}; it has {known or 'none'}")
        wanted += matching
    return wanted


def _place(scan: Scan, name: str) -> tuple[str, str]:
    """The page and the anchor of PAGE#SECTION; of a PAGE, an empty anchor."""
    given, _, anchor = name.partition("#")
    page = page_of(scan.checkout, given)
    if not page:
        raise SettingsError(f"{given}: there is no such page; pages are README.md, docs/*.md, …")
    return page, anchor


@app.command()
def record(
    pages: list[str] = Argument(metavar="PAGE…", help="Pages that were changed, or PAGE#SECTION."),
    measured_by: str = option("The command that measured new numbers.", "--command", default=""),
    machine: str = option("The machine, such as 'one NVIDIA H200'.", default=""),
    date: str = option("The day, such as 2026-11-18.", default=""),
    gpu: bool = flag("--gpu", "The command needs a GPU."),
) -> None:
    """Record the current numbers of a page.

    Details that are not given are taken from the page's section and its last receipt, or asked for
    if they are not there either.

    Examples:

        python -m docs.receipts_tool record docs/systems.md
        python -m docs.receipts_tool record performance --command "python -m bench gpt_gpu"
    """
    ask = prompt if sys.stdin.isatty() else None
    scan = Scan(Checkout(ROOT))
    said = Measurement(measured_by, machine, date, gpu, ask)
    for name in pages:
        page, anchor = _place(scan, name)
        known = [section.anchor for section in scan.sections(page)]
        if anchor and anchor not in known:
            raise SettingsError(f"{page} has no numbers at #{anchor}; it has {', '.join(known)}")
        for change in record_page(scan, page, said, anchor) or [f"{page}: as recorded"]:
            out.print(escape(change))
        for finding in scan.page_findings(page):
            note(str(finding))


if __name__ == "__main__":
    try:
        app(prog_name="python -m docs.receipts_tool")
    except RegardError as error:
        print_error(str(error))
        sys.exit(1)
