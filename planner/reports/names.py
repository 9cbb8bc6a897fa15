"""Names that a person knows: of GPUs, of providers and of where their regions are."""

from __future__ import annotations

import re

PROVIDERS = {
    "aws": "AWS",
    "azure": "Azure",
    "coreweave": "CoreWeave",
    "gcp": "Google Cloud",
    "hyperstack": "Hyperstack",
    "jarvislabs": "Jarvislabs",
    "lambda": "Lambda",
    "nebius": "Nebius",
    "oci": "Oracle Cloud",
    "ovh": "OVHcloud",
    "paperspace": "Paperspace",
    "runpod": "Runpod",
    "verda": "Verda",
}
_PLACES = (  # provider and region, in this order; what none matches is shown as the provider writes it
    (r"aws eu-central-1", "Germany"),
    (r"aws eu-north-1", "Sweden"),
    (r"aws eu-west-1", "Ireland"),
    (r"nebius eu-north|verda FIN|gcp europe-north1", "Finland"),
    (r"gcp europe-west4|azure westeurope|oci eu-amsterdam", "Netherlands"),
    (r"\w+ norway", "Norway"),
    (r"\w+ canada", "Canada"),
    (r"jarvislabs in", "India"),
    (r"ovh (gra|rbx|sbg)", "France"),
    (r"\w+ (us-|us\d|(east|west|central|southcentral|northcentral)us|nyc)", "United States"),
    (r"\w+ any$", "any region"),
)
_FORM_FACTOR = re.compile(r"-SXM\d?(?=-)")
_MEMORY = re.compile(r"-(\d+)GB$")


def gpu(name: str) -> str:
    """V100 16 GB for V100-SXM2-16GB."""
    spaced = _MEMORY.sub(r" \1 GB", _FORM_FACTOR.sub("", name))
    return spaced.replace("-PCIE", " PCIe").replace("-", " ")


def provider(name: str) -> str:
    """As the company writes itself."""
    return PROVIDERS.get(name, name)


def place(provider_name: str, region: str) -> str:
    """The country of a region, or the region where that is not known."""
    wanted = f"{provider_name} {region}"
    return next((place for pattern, place in _PLACES if re.match(pattern, wanted, re.IGNORECASE)), region)
