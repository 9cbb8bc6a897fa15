"""`planner catalog`: list offers or GPUs. Reads with the csv module only, to answer at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from catalogs.gpus import DeviceKind, Gpu
from catalogs.offers import Offer
from planner.commands.prices import read_prices
from planner.exits import Exit
from planner.options import Pricing
from planner.reports import formats

TABLE_WIDTH = 130


def run(pricing: Pricing, is_gpus: bool) -> Exit:  # noqa: FBT001  (a flag)
    """Print one table."""
    prices = read_prices(pricing)
    console = Console()
    console = Console(width=max(console.width, TABLE_WIDTH))  # a cut price helps nobody; pipes have no width
    if is_gpus:
        wanted = prices.filters.gpus
        gpus = [one for name, one in prices.gpus.items() if not wanted or name in wanted]
        console.print(_gpu_table(gpus))
    else:
        offers = sorted(prices.admitted, key=lambda one: (one.gpu, one.price_usd_per_gpu_hour))
        console.print(_offer_table(offers, prices.gpus))
        console.print(f"{len(offers)} of {len(prices.offers)} offers")
    return Exit.PLAN


def _offer_table(offers: Iterable[Offer], gpus: Mapping[str, Gpu]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("GPU", "provider", "instance", "region", "pricing"):
        table.add_column(name, no_wrap=True)
    for name in ("GPUs", "vCPUs", "RAM", "price", "per GPU"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("as of", no_wrap=True)
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
            formats.day(one.as_of),
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
