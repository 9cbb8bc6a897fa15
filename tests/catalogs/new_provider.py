"""Run by test_new_provider.py in a process whose catalogs have a provider more."""

import json
import sys

from catalogs.gpus import load_gpus
from catalogs.offers import load_offers
from catalogs.providers import load_egress
from catalogs.sources.registry import sources_of
from planner.cli_values import OfferFlags
from planner.commands.prices import read_prices
from planner.cost.bill.allin import all_in_bill
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.launch.files import launch_files
from planner.launch.wheel import Wheel
from tests.builders import make_config, make_estimate
from tests.planner.run_plans import make_run_plan

GPUS = load_gpus()
pricing = OfferFlags(providers=("newcloud",))
prices = read_prices(pricing)
spot, full = sorted(prices.admitted, key=lambda offer: offer.price_usd_per_hour)
data = CostAssumptions(data_bytes=2 << 30, data_from="newcloud/moon-1")
bill = all_in_bill(full, 1, make_estimate(100.0), data, load_egress())
run = make_run_plan(offer=spot, config=make_config("H100-SXM5-80GB"))
files = launch_files(
    run,
    GPUS[spot.gpu],
    {"gpt.py": ""},
    [],
    wheel=Wheel(name="planner.whl", contents=b""),
    has_requirements=False,
)
(source,) = sources_of({"skypilot": "sky"}, GPUS, spot.as_of, ["newcloud"])
sys.stdout.write(
    json.dumps(
        {
            "offers": len([offer for offer in load_offers() if offer.provider == "newcloud"]),
            "admitted": [offer.instance_type for offer in (spot, full)],
            "billing_increment_s": full.billing_increment_s,
            "terms": {term.name: term.expected_usd for term in bill.breakdown.terms},
            "skypilot.yaml": files.texts["skypilot.yaml"],
            "train.dstack.yml": files.texts["train.dstack.yml"],
            "LAUNCH.md": files.texts["LAUNCH.md"],
            "imported": [offer.gpu for offer in source.read().offers],
        }
    )
)
