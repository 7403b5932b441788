"""The table of `regard doctor --devices`."""

from rich.markup import escape

from regard.cli.display.console import out
from regard.cli.display.tables import plain_table
from regard.recipes.memory import format_bytes
from regard.tasks.translation.trial.device_plan import DevicePlan

COLUMNS = ("devices", "step", "exchange", "tokens/s", "efficiency", "memory")
SHARDED_COLUMNS = ("sharded: step", "memory")


def print_device_plan(plan: DevicePlan) -> None:
    """A row for each number of devices, and what it is computed from."""
    rows = [
        [
            f"{row.devices:,}",
            f"{row.step_seconds:.3g} s",
            f"{row.exchange_seconds:.2g} s",
            f"{row.tokens_per_second:,.0f}",
            f"{row.efficiency:.0%}",
            format_bytes(row.memory),
            f"{row.sharded_seconds:.3g} s",
            format_bytes(row.sharded_memory),
        ]
        for row in plan.rows
    ]
    columns = (*COLUMNS, *SHARDED_COLUMNS)
    out.print(plain_table(*columns, right=columns, rows=rows))
    size = format_bytes(plan.gradient_bytes)
    out.print(
        f"[dim]each like this one ({escape(plan.device)}), with its own batch; {size} of "
        f"gradients at {plan.bandwidth:g} GB/s (--bandwidth), without overlap[/dim]",
        soft_wrap=False,
    )
    most = f"{plan.most_devices:,} devices" if plan.most_devices > 1 else "no second device"
    out.print(
        f"Dividing the tokens of the current step pays on {most}: on more, the exchange takes "
        "longer than the rest.",
        soft_wrap=False,
    )
