"""The YAML files against what SkyPilot's and dstack's own packages accept; skipped where they are missing.

make schemas     # with both in an environment of their own
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from catalogs.gpus import DeviceKind, load_gpus
from catalogs.offers import Offer, load_offers
from planner.launch.files import launch_files
from planner.launch.wheel import Wheel
from tests.builders import make_config
from tests.planner.run_plans import make_run_plan

GPUS = load_gpus()


def texts_of(name: str) -> dict[tuple[str, str, int], str]:
    """The file for every shipped offer that has one, on one instance and on two, each text once."""
    texts = {}
    for offer in load_offers():
        for instance_count in (1, 2):
            text = text_of(name, offer, instance_count)
            if text is not None:
                texts[offer.instance_type, str(offer.pricing), instance_count] = text
    return texts


def text_of(name: str, offer: Offer, instance_count: int) -> str | None:
    config = make_config(offer.gpu, gpu_count=offer.gpu_count * instance_count, node_count=instance_count)
    is_cpu = GPUS[offer.gpu].kind is DeviceKind.CPU
    run = make_run_plan(offer=offer, instance_count=instance_count, config=config, is_cpu=is_cpu)
    files = launch_files(
        run,
        GPUS[offer.gpu],
        {"gpt.py": ""},
        ["A test."],
        wheel=Wheel(name="planner.whl", contents=b""),
        has_requirements=True,
    )
    return files.texts.get(name)


@pytest.mark.slow
def test_skypilots_schema_takes_every_file() -> None:
    schemas = pytest.importorskip("sky.utils.schemas", reason="skypilot is not installed")
    jsonschema = pytest.importorskip("jsonschema")
    texts = texts_of("skypilot.yaml")
    assert len(texts) > 200
    for where, text in texts.items():
        task: dict[str, Any] = yaml.safe_load(text)
        for value, schema in (
            (task, schemas.get_task_schema()),
            (task["resources"], schemas.get_resources_schema()),
        ):
            problems = list(jsonschema.Draft7Validator(schema).iter_errors(value))
            assert problems == [], where


@pytest.mark.slow
def test_dstacks_models_take_every_file() -> None:
    models = pytest.importorskip(
        "dstack._internal.core.models.configurations", reason="dstack is not installed"
    )
    texts = texts_of("train.dstack.yml")
    assert len(texts) > 200
    for where, text in texts.items():
        task = models.parse_apply_configuration(yaml.safe_load(text))
        assert type(task).__name__ == "TaskConfiguration", where
        assert task.resources.gpu.count.min == task.resources.gpu.count.max, where
