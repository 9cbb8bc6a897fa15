"""A rented machine with a GPU has torch and little else: recording, claims and tests/gpu load there."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = """
import importlib.util, sys
missing = {"ray", "optuna", "pydantic", "sqlalchemy", "platformdirs"}
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in missing else find(name, package)
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import benchmarks.claims, benchmarks.gpu_run, benchmarks.mfu, benchmarks.record
import tests.gpu.test_device_facts, tests.gpu.test_out_of_memory, tests.gpu.test_techniques
import trials.first_step, trials.trace.tracing
"""


def test_recording_and_the_gpu_tests_load_without_ray_optuna_and_pydantic() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
