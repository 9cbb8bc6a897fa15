"""The figures of docs/accuracy-search.md, and their plot, from the lines that `replay` wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

FEW_TRIALS = 8
CLOSE, NEAR = 0.02, 0.05
FIRST_UNSEEN_SEED = 8  # the rules of the search were chosen on those before
MONEY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the best run's cost
COLOURS = {
    "ours": "#0b6e4f",
    "ours_4": "#6fb98f",
    "tpe": "#c1121f",
    "gp_sampler": "#e09f3e",
    "cherrypick": "#6a4c93",
    "random": "#555555",
    "brute_force": "#aaaaaa",
}
WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 640, 360, 60, 45, 120, 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One line."""

    data_set: str
    grid: str
    prices: str
    seed: int
    method: str
    trials: int
    has_stopped: bool
    regrets: list[float]
    spent: list[float]

    def regret_after(self, trials: int) -> float:
        """Of the best of the first trials, or of all that the method made."""
        return self.regrets[min(trials, self.trials) - 1]

    def regret_for(self, money: float) -> float:
        """With so much spent; that of the worst trial before the first can be paid."""
        paid = [regret for regret, spent in zip(self.regrets, self.spent, strict=True) if spent <= money]
        return paid[-1] if paid else max(self.regrets)

    def money_to(self, regret: float) -> float:
        """Spent until the best is that near."""
        return next(spent for one, spent in zip(self.regrets, self.spent, strict=True) if one <= regret)


def read(path: Path) -> list[Run]:
    """Every run of the file."""
    return [Run(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def keys(path: Path) -> set[tuple[str, str, str, int, str]]:
    """What the file holds already."""
    if not path.exists():
        return set()
    return {(one.data_set, one.grid, one.prices, one.seed, one.method) for one in read(path)}


def show(path: Path, plot: Path | None) -> None:
    """Print the tables; write the plot."""
    runs = read(path)
    methods = [one for one in COLOURS if any(run.method == one for run in runs)]
    for data_set in ("", *sorted({run.data_set for run in runs})):
        mine = [run for run in runs if data_set in ("", run.data_set)]
        print(f"\n## {data_set or 'All grids'}\n")
        _show(mine, methods)
    unseen = [run for run in runs if run.seed >= FIRST_UNSEEN_SEED and run.prices == "random"]
    if unseen:
        print(f"\n## Random prices, seeds from {FIRST_UNSEEN_SEED} on\n")
        _show(unseen, methods)
    if plot is not None:
        plot.write_text(_plot(runs, methods), encoding="utf-8")


def _show(runs: Sequence[Run], methods: Sequence[str]) -> None:
    ours = {_key(run): run for run in runs if run.method == "ours"}
    print(
        "| method | runs | within 2% after 8 trials | trials made | spent then | regret then | spent to 5% "
        "| against ours | for less than ours |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in methods:
        mine = [run for run in runs if run.method == name]
        money = mean(run.money_to(NEAR) for run in mine)
        against = money / mean(ours[_key(run)].money_to(NEAR) for run in mine)
        cells = (
            name,
            f"{len(mine)}",
            f"{mean(run.regret_after(FEW_TRIALS) <= CLOSE for run in mine):.1%}",
            f"{median(run.trials for run in mine):.0f}",
            f"{mean(run.spent[run.trials - 1] for run in mine):.2%}",
            f"{mean(run.regret_after(run.trials) for run in mine):.2%}",
            f"{money:.2%}",
            f"{against:.1f}x",
            f"{mean(run.money_to(NEAR) < ours[_key(run)].money_to(NEAR) for run in mine):.1%}",
        )
        print(f"| {' | '.join(cells)} |")


def _key(run: Run) -> tuple[str, str, str, int]:
    return run.data_set, run.grid, run.prices, run.seed


def _plot(runs: Sequence[Run], methods: Sequence[str]) -> str:
    """Share of runs within 5%, by money spent (log scale)."""
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12"><title>Share of runs within 5% of the true best, by money spent on trials</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    ]

    def across(index: int) -> float:
        return LEFT + inner_width * index / (len(MONEY) - 1)

    def up(share: float) -> float:
        return TOP + inner_height * (1 - share)

    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path d="M{LEFT} {up(share):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for index, money in enumerate(MONEY):
        parts.append(
            f'<text x="{across(index):.1f}" y="{HEIGHT - BOTTOM + 16}" '
            f'text-anchor="middle">{money:.1%}</text>'
        )
    parts.append(
        f'<text x="{LEFT + inner_width / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        "spent on trials, of the best run's cost</text>"
    )
    ends = []
    for name in methods:
        mine = [run for run in runs if run.method == name]
        shares = [mean(run.regret_for(money) <= NEAR for run in mine) for money in MONEY]
        points = " ".join(f"{across(index):.1f},{up(share):.1f}" for index, share in enumerate(shares))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        ends.append((name, COLOURS[name]))
    for row, (name, colour) in enumerate(ends):
        y = TOP + 30 + 20 * row
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
