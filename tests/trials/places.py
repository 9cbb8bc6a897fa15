"""What runs inside fake nodes: they say which device they pretend to have."""

import asyncio
import os

import ray

from tests.builders import make_environment, make_measurement
from trials.machine.identity import CardIdentity, read_machine

CARDS = {"A100": "NVIDIA A100-SXM4-80GB", "L4": "NVIDIA L4", "T4": "Tesla T4"}


def pretended_name(entry):
    types = [key.partition(":")[2] for key in entry["Resources"] if key.startswith("accelerator_type:")]
    return CARDS[types[0]]


def probe(entry):
    """A probe for `discover`: the real machine, with the cards that the node pretends to have."""
    machine = read_machine()
    card = CardIdentity(name=pretended_name(entry), memory_bytes=24 * 2**30, is_mig=False)
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
    """A measurement that tells where it was taken, by a worker that NCCL's watchdog leaves alone."""
    assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0"
    return make_measurement(config, environment=make_environment(device_name=identify(place.device)))


class Register:
    """An actor: which trials are under way on which node, and how many were at once."""

    def __init__(self, guest_count):
        self._guest_count = guest_count  # that wait for each other
        self._changed = asyncio.Condition()
        self._here = []  # (node, rank)
        self.arrivals = []  # (nodes at work, as the trial began), the shape of the trial

    async def arrive(self, node_id, shape):
        """A rank begins when all the others of its kind have."""
        async with self._changed:
            assert node_id not in self._here, "two trials on one node"
            self._here.append(node_id)
            self.arrivals.append((shape, len(self._here)))
            self._changed.notify_all()
            count = self._guest_count if shape == 1 else shape  # a wide trial has a rank on each node
            await self._changed.wait_for(lambda: self._count(shape) >= count)

    async def leave(self, node_id):
        self._here.remove(node_id)

    async def seen(self, count):
        """The arrivals, once there have been so many."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.arrivals) >= count)
        return self.arrivals

    async def expect(self, guest_count):
        self._guest_count = guest_count

    def _count(self, shape):
        return sum(one == shape for one, _ in self.arrivals)


def measure_in_company(workload, config, place, register, extras):
    """Tells the register; a trial on one node ends when as many as it was made for are under way at once."""
    here = ray.get_runtime_context().get_node_id()
    ray.get(register.arrive.remote(here, config.node_count))
    outcome = measure(workload, config, place, register, extras)
    ray.get(register.leave.remote(here))
    return outcome
