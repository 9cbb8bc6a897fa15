"""A provider is one row, and its prices are rows: nothing else changes, from catalog to launch files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import catalogs

ROOT = Path(__file__).parents[2]
PROVIDER = {
    "name": "newcloud",
    "also_called": "nimbus",
    "skypilot_cloud": "nimbus",
    "skypilot_catalog": "nimbus",
    "dstack_backend": "nimbus",
    "dstack_regions": "own",
    "instance_types": "same",
    "accelerators": "H100-80@n1=H100-SXM5-80GB",
    "billing_increment_s": "900",
    "billing_source": "newcloud.example",
    "billing_as_of": "2026-10-01",
    "egress_internet_usd_per_gib": "0.05",
    "egress_same_region_usd_per_gib": "0.01",
    "egress_source": "newcloud.example",
    "egress_as_of": "2026-10-01",
    "spot_notice_s": "45",
    "spot_notice_source": "newcloud.example",
    "spot_notice_as_of": "2026-10-01",
}
OFFERS = (
    "newcloud,n1-h100,moon-1,on-demand,H100-SXM5-80GB,1,26,200,none,,4.0,,,newcloud.example,2026-10-01",
    "newcloud,n1-h100,moon-1,spot,H100-SXM5-80GB,1,26,200,none,,1.5,,,newcloud.example,2026-10-01",
)
VMS = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
    "n1-h100,H100-80,1.0,26.0,200.0,4.10,moon-1,,\n"
)


SOURCE = """
from catalogs.sources.price_source import Imported, PriceSource, Source
from tests.builders import make_offer

def sources(root, gpus, today):
    offers = (make_offer(provider="own", as_of=today),)
    yield Source(provider="own", read=lambda: Imported(provider="own", offers=offers, skipped=()))

SOURCE = PriceSource(
    name="acme",
    title="Acme's list",
    help="A folder of Acme's.",
    rank=9,
    default_root=lambda: None,
    sources=sources,
)
"""


def in_another_catalog(folder: Path, *command: str) -> str:
    """What a process prints that finds the copy of catalogs in ``folder``."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "XDG_DATA_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def copy_catalogs(folder: Path) -> Path:
    table = folder / "catalogs"
    shutil.copytree(Path(catalogs.__file__).parent, table, ignore=shutil.ignore_patterns("__pycache__"))
    return table


def test_a_file_is_all_that_a_new_price_source_needs(tmp_path: Path) -> None:
    (copy_catalogs(tmp_path) / "sources" / "acme.py").write_text(SOURCE)
    said = in_another_catalog(tmp_path, "-m", "planner", "catalog", "refresh", "--help")
    assert "--acme" in said
    assert "Acme's list" in said
    said = in_another_catalog(tmp_path, "-m", "planner", "catalog", "refresh", "--acme", str(tmp_path))
    assert "own: 1 offers" in said


def test_a_row_and_its_prices_are_all_that_a_new_provider_needs(tmp_path: Path) -> None:
    table = copy_catalogs(tmp_path)
    columns = (table / "providers.csv").read_text().splitlines()[0].split(",")
    with (table / "providers.csv").open("a") as file:
        file.write(",".join(PROVIDER.get(name, "") for name in columns) + "\n")
    with (table / "offers.csv").open("a") as file:
        file.write("\n".join(OFFERS) + "\n")
    (tmp_path / "sky" / "nimbus").mkdir(parents=True)
    (tmp_path / "sky" / "nimbus" / "vms.csv").write_text(VMS)

    made = json.loads(in_another_catalog(tmp_path, str(ROOT / "tests" / "catalogs" / "new_provider.py")))

    assert made["offers"] == 2
    assert made["admitted"] == ["n1-h100", "n1-h100"]
    assert made["billing_increment_s"] == 900
    assert made["terms"]["data transfer"] == 0.02
    assert made["terms"]["minimum billing unit"] > 0
    assert "nimbus/moon-1" in made["skypilot.yaml"]
    assert "H100-80" in made["skypilot.yaml"]
    assert "nimbus" in made["train.dstack.yml"]
    assert "moon-1" not in made["train.dstack.yml"]
    assert "newcloud gives 45 s of notice at best" in made["LAUNCH.md"]
    assert made["imported"] == ["H100-SXM5-80GB"]
