"""What runs inside fake nodes: they say which device they pretend to have."""

import ray

from tests.builders import make_environment, make_measurement
from trials.cluster.identity import Card, read_machine

CARDS = {"A100": "NVIDIA A100-SXM4-80GB", "L4": "NVIDIA L4"}


def pretended_name(entry):
    types = [key.partition(":")[2] for key in entry["Resources"] if key.startswith("accelerator_type:")]
    return CARDS[types[0]]


def probe(entry):
    """A probe for `discover`: the real machine, with the cards that the node pretends to have."""
    machine = read_machine()
    card = Card(name=pretended_name(entry), memory_bytes=24 * 2**30, is_mig=False)
    return type(machine)(
        cards=(card,) * int(entry["Resources"]["GPU"]),
        why_no_cards="",
        cpu_name=machine.cpu_name,
        host_memory_bytes=machine.host_memory_bytes,
        versions=machine.versions,
    )


def identify(device):
    """What a worker on a fake node reports."""
    here = ray.get_runtime_context().get_node_id()
    (entry,) = [one for one in ray.nodes() if one["NodeID"] == here]
    return pretended_name(entry)


def measure(workload, config, place, settings, extras):
    """A measurement that tells where it was taken."""
    return make_measurement(config, environment=make_environment(device_name=identify(place.device)))
