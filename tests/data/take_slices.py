"""Takes the slices beside this file from the measured sets: ``python -m tests.data.take_slices FOLDER``.

Whole workloads are kept, in the file's own form, so that what reads the sets reads the slices.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
SLICES = {  # file -> column -> what is kept of it
    "llm_foundry/mpt_training_benchmarks.csv": {"Model": {"350m", "1b", "3b", "7b"}},
    "sia_t4/step_times.csv": {"model": {"bert", "imagenet"}},
    "zeus/cost_to_target.csv": {"dataset": {"cifar100", "imagenet", "squad"}},
}


def main(sets: Path) -> None:
    """Write each slice."""
    for name, kept in SLICES.items():
        table = pd.read_csv(sets / name, dtype=str, keep_default_na=False)
        for column, values in kept.items():
            table = table[table[column].isin(values)]
        (HERE / name).parent.mkdir(exist_ok=True)
        table.to_csv(HERE / name, index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
