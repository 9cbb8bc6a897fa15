"""`planner catalog`: list offers or GPUs. Reads with the csv module only, to answer at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

from rich.console import Console
from rich.table import Table

from catalogs.gpus import DeviceKind, Gpu, find_family
from catalogs.history import PricePoint, read_history
from catalogs.offers import Offer
from catalogs.refresh import is_stale, stale
from planner.cli_values import CatalogFlags, OfferFlags
from planner.commands.price_table import history_path
from planner.commands.prices import Prices, read_prices
from planner.exits import Exit
from planner.reports import formats

TABLE_WIDTH_MAX = 400


def run(pricing: OfferFlags, own: CatalogFlags) -> Exit:
    """Print one table."""
    prices = read_prices(pricing)
    if own.history is not None:
        _show_history(own.history, prices)
    elif own.is_gpus:
        wanted = prices.filters.gpus
        gpus = [one for name, one in prices.gpus.items() if not wanted or name in wanted]
        _print(_gpu_table(gpus))
    else:
        today = datetime.now(UTC).date()
        offers = sorted(prices.admitted, key=lambda one: (one.gpu, one.price_usd_per_gpu_hour))
        sources = {
            source: number for number, source in enumerate(dict.fromkeys(one.source for one in offers), 1)
        }
        _print(_offer_table(offers, prices.gpus, sources, today))
        lines = (
            f"{len(offers)} of {len(prices.offers)} offers, in US dollars, of so many GPUs together",
            *prices.notes,
            *(str(one) for one in stale(offers, today)),
            *(f"source {number}: {source}" for source, number in sources.items()),
        )
        print("\n".join(lines))
    return Exit.PLAN


def _show_history(gpu: str, prices: Prices) -> None:
    """What refreshes recorded of a GPU or its family, as far as the filters let it through."""
    path = history_path()
    names = [one.name for one in find_family(gpu, prices.gpus)]
    points = [one for one in read_history(path, names) if prices.filters.refusal(one) is None]
    if not points:
        print(
            f"No earlier prices of {' or '.join(names)} are on record; `planner catalog refresh` adds them."
        )
        return
    _print(_history_table(points))
    offers = {(one.provider, one.instance_type, one.region, one.pricing) for one in points}
    print(
        f"{len(points):,} prices of {len(offers):,} offers, in US dollars, since {points[0].as_of}; "
        f"a price holds until the offer's next row: {path}"
    )


def _history_table(points: Iterable[PricePoint]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("date", "GPU", "provider", "instance", "region", "pricing"):
        table.add_column(name, no_wrap=True)
    for name in ("GPUs", "price", "per GPU", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in points:
        usd, change = one.usd_per_hour, one.change_fraction
        table.add_row(
            one.as_of.isoformat(),
            one.gpu,
            one.provider,
            one.instance_type,
            one.region,
            str(one.pricing),
            str(one.gpu_count),
            "gone" if usd is None else formats.usd_per_hour(usd),
            "-" if usd is None else formats.usd_per_hour(usd / one.gpu_count),
            "-" if change is None else f"{change:+.1%}",
        )
    return table


def _print(table: Table) -> None:
    """Whole, however narrow the terminal is: a cut price helps nobody, and pipes have no width."""
    Console(width=TABLE_WIDTH_MAX).print(table)


def _offer_table(
    offers: Iterable[Offer], gpus: Mapping[str, Gpu], sources: Mapping[str, int], today: date
) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("GPU", "provider", "instance", "region", "pricing"):
        table.add_column(name, no_wrap=True)
    for name in ("GPUs", "vCPUs", "RAM", "price", "per GPU"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("as of", no_wrap=True)
    for name in ("days old", "source"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in offers:
        is_cpu = gpus[one.gpu].kind is DeviceKind.CPU
        table.add_row(
            one.gpu,
            one.provider,
            one.instance_type,
            one.region,
            str(one.pricing),
            "-" if is_cpu else str(one.gpu_count),
            str(one.vcpus),
            formats.size(one.memory_bytes),
            formats.usd_per_hour(one.price_usd_per_hour),
            "-" if is_cpu else formats.usd_per_hour(one.price_usd_per_gpu_hour),
            one.as_of.isoformat(),
            f"{(today - one.as_of).days}{'!' if is_stale(one, today) else ''}",
            str(sources[one.source]),
        )
    return table


def _gpu_table(gpus: Iterable[Gpu]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("GPU", no_wrap=True)
    for name in ("memory", "GB/s", "fp32", "tf32", "bf16", "fp16", "link GB/s", "W"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in gpus:
        flops = (one.fp32_flop_per_s, one.tf32_flop_per_s, one.bf16_flop_per_s, one.fp16_flop_per_s)
        link = "-" if one.link_bytes_per_s is None else f"{one.link} {one.link_bytes_per_s / 1e9:.0f}"
        table.add_row(
            one.name,
            formats.size(one.memory_bytes),
            f"{one.bandwidth_bytes_per_s / 1e9:,.0f}",
            *("-" if rate is None else f"{rate / 1e12:,.3g}" for rate in flops),
            link,
            "-" if one.power_w is None else f"{one.power_w:.0f}",
        )
    table.caption = "FLOP/s in units of 10^12, dense; a CPU's figures are per vCPU"
    return table
