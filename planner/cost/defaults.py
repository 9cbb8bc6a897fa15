"""What is assumed of a run's costs where nobody says otherwise. Imports nothing: a help shows them."""

PROVISIONING_S = 300.0
"""From the request of an instance until the first step, where the user does not say: boot, driver and
container image. Five minutes is our assumption, on the careful side for a cached image; a measured value
belongs in its place."""

WAIT_S = 1800.0
"""Mean time until capacity is found again, where nobody knows: the 30 minutes of the record of 32 AWS p3
instances that Parcae (NSDI 2024) published, the only public one with replacements (12 in its first half, 52
in its second). Providers publish nothing."""

ON_DEMAND_SAVE_INTERVAL_S = 3600.0
"""Between two checkpoints on demand: no provider takes the instance away, but machines and programs fail."""

STORAGE_USD_PER_GIB_MONTH = 0.023
"""S3 Standard in us-east-1, first 50 TB (aws.amazon.com/s3/pricing, 2026); others ask 0.015 (Cloudflare R2,
Nebius) to 0.06 (CoreWeave, hot)."""
