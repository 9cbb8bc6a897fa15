"""The flags of the bill in the words of the formulas."""

from __future__ import annotations

from catalogs.gpus import GIB
from planner.cost.bill.parameters import STORAGE_USD_PER_GIB_MONTH, AllIn, Stated
from planner.given import BillFlags


def stated_by(bill: BillFlags, provisioning_s: float) -> Stated:
    """What the user says of the bill; the flags were checked when the prices were read."""
    provider, _, region = (bill.data_from or "").partition("/")
    speed, price = bill.checkpoint_gib_per_s, bill.storage_price
    return Stated(
        all_in=AllIn(
            provisioning_s=provisioning_s,
            set_up_s=bill.setup_minutes * 60,
            evaluation_s=bill.evaluation_minutes * 60,
            data_bytes=None if bill.data_gib is None else round(bill.data_gib * GIB),
            data_provider=provider.lower() or None,
            data_region=region or None,
            storage_usd_per_gib_month=STORAGE_USD_PER_GIB_MONTH if price is None else price,
            egress_usd_per_gib=bill.egress_price,
        ),
        interruptions_per_hour=bill.interruptions_per_hour,
        checkpoint_bytes_per_s=None if speed is None else speed * GIB,
        save_interval_s=bill.checkpoint_minutes * 60,
        spot_wait_s=bill.spot_wait_minutes * 60,
        grid_g_per_kwh=bill.grid_g_per_kwh,
    )
