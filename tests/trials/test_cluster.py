"""Attaching: to clusters started by ``ray start``, with and without token, and to what is none."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trials.clusters import OPEN, TOKEN, free_port, started
from trials.cluster.attach import attach
from trials.errors import TrialsError

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DRIVER = """
import json, sys
from dataclasses import replace
from tests.builders import make_config
from trials.cluster.attach import attach
from trials.devices import DeviceGroup
from trials.cluster.discovery import discover
from trials.errors import TrialsError
from trials.runner import open_runner
from trials.model_file.source import hash_workload
workload = hash_workload(sys.argv[2])
try:
    with attach(sys.argv[1], workload) as cluster:
        nodes = discover()
        told = {"nodes": len(nodes), "is_embedded": cluster.is_embedded, "notes": cluster.notes}
        if "trial" in sys.argv:
            group = DeviceGroup(gpu="CPU", is_cpu=True, device_name=nodes[1].device_name, nodes=nodes[1:])
            with open_runner(workload, [group]) as run:
                told["losses"] = run(make_config("CPU", accumulation=1)).losses[:1]
                told["where"] = run(make_config("CPU", accumulation=1, micro_batch_size=33)).reason
except TrialsError as error:
    told = {"error": str(error)}
print(json.dumps(told))
"""


def drive(address, auth, cwd, *arguments):
    """What a process that attaches with `auth` tells; stdout holds nothing else."""
    environment = {**os.environ, **auth, "PYTHONPATH": str(ROOT)}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-c", DRIVER, address, str(HERE / "shipped" / "model.py"), *arguments]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.ray
@pytest.mark.slow
def test_a_cluster_of_two_nodes_with_token_authentication(tmp_path):
    with started(TOKEN, node_count=2) as head:
        told = drive(head.address, TOKEN, tmp_path, "trial")
        refused = drive(head.address, {**TOKEN, "RAY_AUTH_TOKEN": "another-token-0123456789"}, tmp_path)
        forgotten = drive(head.address, OPEN, tmp_path)
    assert (told["nodes"], told["is_embedded"], told["notes"]) == (2, False, [])
    assert told["losses"] == [pytest.approx(1.1, abs=0.6)]  # ln 3, give or take: the model ran
    assert "planner_workload_" in told["where"]  # in the copy that was sent
    assert "shipped/random.py" not in told["where"]
    for error in (refused["error"], forgotten["error"]):
        assert "the cluster refused the token" in error
        assert "RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH" in error


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://head:10001", "Run the sweep as a Ray job (--submit --address http://head:8265)"),
        ("http://head:8265", "http:// is for --submit"),
        ("head", "give host:port, such as 10.0.0.5:6379, or auto"),
        ("head:port", "give host:port"),
    ],
)
def test_addresses_of_another_kind_are_refused_with_the_way_that_works(address, words):
    with pytest.raises(TrialsError) as caught, attach(address):
        pass
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"--address {address}")


def test_an_address_where_nothing_listens_is_refused_at_once():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(TrialsError) as caught, attach(address):
        pass
    assert "nothing answers there" in str(caught.value)
    assert "6379 by default; 10001 is for ray:// and 8265 for jobs" in str(caught.value)
    assert "RAY_AUTH_TOKEN" in str(caught.value)


def test_what_listens_but_is_no_head_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with (
            pytest.raises(TrialsError, match="no Ray head answered within 2 s"),
            attach(address, connect_limit_s=2),
        ):
            pass
