"""What studies of earlier versions hold can still be read."""

import json
from dataclasses import fields

from planner.codec import from_json, to_json
from tests.builders import make_config, make_measurement
from trials.measurement import Measurement
from trials.trial import TrialConfig

ADDED = {"checkpoint", "links", "noise", "extras_s", "foreign_cpu_fraction"}  # since the first schema
ADDED_KNOBS = {"loader_worker_count", "loader_prefetch_count", "is_pinned"}


def test_a_measurement_of_the_first_version_is_read():
    now = make_measurement()
    old = {name: value for name, value in json.loads(to_json(now)).items() if name not in ADDED}
    old["config"] = {name: value for name, value in old["config"].items() if name not in ADDED_KNOBS}
    assert len(old) == len(fields(Measurement)) - len(ADDED)
    assert from_json(json.dumps(old), Measurement, where="a study") == now


def test_a_configuration_of_an_earlier_version_keeps_its_techniques() -> None:
    older = json.loads(to_json(make_config()))
    del older["techniques"]
    older |= {"is_checkpointed": True, "is_compiled": False}
    found = from_json(json.dumps(older), TrialConfig, where="a study")
    assert found == make_config(techniques=("activation_checkpointing",))
