"""The same trials one at a time and side by side, on nodes of one type that this machine pretends to have.

    python -m benchmarks.side_by_side [--nodes 2] [--trials 8] [--seconds 4]

A real Ray cluster of nodes with one pretended GPU each, real groups of workers, and trials that wait for
their seconds and compute nothing, as a host waits for its GPU: so pretended nodes do not contend for this
machine's cores, and what is timed is how trials are handed out. *Cold* starts the groups too, on these cores;
*warm* runs as many trials again in them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.estimate.recorded import measurement_of
from benchmarks.trial_overhead import MODEL
from trials.cluster.attach import attach
from trials.cluster.discovery import discover
from trials.devices import DeviceGroup
from trials.machine.identity import CardIdentity, Machine, read_machine
from trials.measurement import Measurement, Outcome
from trials.model_file.source import hash_workload
from trials.runner import Runner, RunnerSettings, open_runner
from trials.trial import Parallelism, Precision, TrialConfig, Workload

GPU = "T4"
CARD = CardIdentity(name="Pretended", memory_bytes=2**34, is_mig=False)


def probe(entry: Mapping[str, Any]) -> Machine:
    """The machine as it is, with the pretended card."""
    machine = read_machine()
    return Machine(
        cards=(CARD,) * int(entry["Resources"].get("GPU", 0)),
        why_no_cards="",
        cpu_name=machine.cpu_name,
        host_memory_bytes=machine.host_memory_bytes,
        versions=machine.versions,
    )


def identify(device: str) -> str:
    """What a worker reports."""
    del device
    return CARD.name


def measure(workload: Workload, config: TrialConfig, place: Any, seconds: float, *_: Any) -> Outcome:
    """Runs in the workers."""
    del workload, place
    time.sleep(seconds)
    return measurement_of(config, seconds / 20)


def round_s(run: Runner, trial_count: int, width: int) -> float:
    """Wall seconds of trials of one worker, ``width`` at once."""
    configs = [
        TrialConfig(
            gpu=GPU,
            gpu_count=1,
            micro_batch_size=index + 1,
            accumulation=1,
            precision=Precision.FP32,
            parallelism=Parallelism.SINGLE,
        )
        for index in range(trial_count)
    ]
    begun_s = time.perf_counter()
    with ThreadPoolExecutor(max_workers=width) as pool:
        outcomes = list(pool.map(run, configs))
    wall_s = time.perf_counter() - begun_s
    if not all(isinstance(one, Measurement) for one in outcomes):
        raise SystemExit(f"not all trials succeeded: {outcomes}")
    return wall_s


def main() -> None:
    """Print the table."""
    from ray.cluster_utils import Cluster

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    node: dict[str, Any] = {"num_cpus": 1, "num_gpus": 1, "resources": {f"accelerator_type:{GPU}": 1}}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    for _ in range(given.nodes - 1):
        cluster.add_node(**node)
    settings = RunnerSettings(measure=measure, measure_settings=given.seconds, identify=identify)
    try:
        with tempfile.TemporaryDirectory() as folder, attach(cluster.address):
            path = Path(folder) / "model.py"
            path.write_text(MODEL)
            group = DeviceGroup(gpu=GPU, is_cpu=False, device_name=CARD.name, nodes=discover(probe=probe))
            print(f"{given.trials} trials of {given.seconds:g} s on {given.nodes} nodes: wall seconds")
            print(f"{'':16} {'at once':>8} {'cold':>8} {'warm':>8}")
            for label, width in (("one at a time", 1), ("side by side", given.nodes)):
                with open_runner(hash_workload(path), [group], settings) as run:
                    walls_s = [round_s(run, given.trials, width) for _ in range(2)]
                print(f"{label:16} {width:8} {walls_s[0]:8.1f} {walls_s[1]:8.1f}", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
