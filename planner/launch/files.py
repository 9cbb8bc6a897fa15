"""A plan as files that start it: a training script, and what SkyPilot, dstack, Ray and KubeRay want."""

from __future__ import annotations

import functools
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from catalogs.gpus import Gpu
from catalogs.offers import Pricing
from catalogs.providers import load_providers
from planner.launch.names import (
    dstack_accelerator,
    dstack_backend,
    dstack_instance,
    dstack_region,
    job_name,
    node_labels,
    skypilot_accelerator,
    skypilot_cloud,
    skypilot_instance,
)
from planner.launch.wheel import Wheel
from planner.verify.evidence import LOOK_S
from planner.verify.run_plan import PLAN_FILE, RunPlan, dump_run_plan

MODEL_FOLDER = "model"  # apart, so that a model file called train.py is none of ours
DEFAULT_PYTHON = "3.11"  # where nothing was measured; the lowest that planner runs on
DEFAULT_RAY = "2.60.0"
PRICE_SLACK = 1.1  # over the planned price, before an instance is no longer taken
OPTIONAL_FILES = ("skypilot.yaml", "train.dstack.yml")  # that a plan may lack, and an earlier one left behind
_GIB = 1024**3
_LEFT_FOR_NODE = 0.85  # of a Kubernetes node's memory and CPUs: its own daemons take the rest
_OLDEST_CUDA_13 = 7.5  # compute capability that PyTorch's wheels for CUDA 13 begin at


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFiles:
    """Texts by path below the folder, the planner that they run, and what must be minded."""

    texts: dict[str, str]
    wheel: Wheel
    notes: tuple[str, ...]


def launch_files(
    run: RunPlan,
    gpu: Gpu,
    model_files: Mapping[str, str],
    facts: Sequence[str],
    *,
    wheel: Wheel,
    has_requirements: bool,
    storage: str | None = None,
) -> LaunchFiles:
    """Everything that a folder needs to start ``run`` on ``gpu``.

    Args:
        run: the plan.
        gpu: of its offer.
        model_files: the model file and its local imports, text by path relative to the model file's folder.
        facts: what the plan states, a line each, for the reader of the files.
        wheel: the planner that the run uses, which lies beside the files.
        has_requirements: whether a requirements.txt lies beside the model file.
        storage: URL of the study's storage as it may be shown; None: the default one.
    """
    values = _values(run, gpu, [_plain(one) for one in facts], wheel.name, has_requirements=has_requirements)
    names = ["train.py", "train.sh", "train_on_ray.py", "ray_job_submit.sh", "rayjob.sh", "rayjob.yaml"]
    ways = [("torchrun, on this machine", "bash train.sh"), ("a Ray cluster", "bash ray_job_submit.sh")]
    ways.append(("KubeRay", "bash rayjob.sh"))
    notes = list(_notes(run, gpu))
    for tool, file, line, reason in (
        ("SkyPilot", "skypilot.yaml", _sky_line(run, values["name"]), _skypilot_refusal(run)),
        ("dstack", "train.dstack.yml", "dstack apply -f train.dstack.yml", _dstack_refusal(run)),
    ):
        if reason is None:
            names.append(file)
            ways.insert(0, (tool, line))
        else:
            notes.append(f"no {file}: {reason}")
    texts = {PLAN_FILE: dump_run_plan(run)}
    texts |= {f"{MODEL_FOLDER}/{path}": text for path, text in model_files.items()}
    items = [(_key(path), path) for path in (*texts, "train.py", "train_on_ray.py", wheel.name)]
    values |= {"items": items, "ways": ways, "notes": notes, "storage": storage}
    texts |= {name: _render(name, values) for name in (*names, "LAUNCH.md")}
    return LaunchFiles(texts=texts, wheel=wheel, notes=tuple(notes))


def _values(
    run: RunPlan, gpu: Gpu, facts: Sequence[str], wheel: str, *, has_requirements: bool
) -> dict[str, Any]:
    """What the templates speak of; they compute nothing."""
    offer, ray_version = run.offer, run.ray_version or DEFAULT_RAY
    python = ".".join((run.python_version or DEFAULT_PYTHON).split(".")[:2])
    torch = "torch" if run.torch_version is None else f"torch=={run.torch_version}"
    image = f"rayproject/ray:{ray_version}-py{python.replace('.', '')}"
    resources: dict[str, float] = {"CPU": max(1, offer.vcpus // run.workers_per_node)}
    memory_gib = offer.memory_bytes / _GIB
    region = None if offer.region == "any" else offer.region
    name = job_name(run.study, run.rank)
    return {
        "run": run,
        "facts": facts,
        "name": name,
        "start": _plain(f"plan {run.rank} of study {run.study}"),
        "study": _plain(run.study),
        "model_file": _plain(run.model_file),
        "model_folder": MODEL_FOLDER,
        "log_every": max(1, round(LOOK_S / run.step_time_s.expected)),
        "device_names": gpu.device_names,
        "python": python,
        "torch": shlex.quote(torch),
        "torch_requirement": torch,
        "wheel": wheel,
        "has_requirements": has_requirements,
        "is_spot": offer.pricing is Pricing.SPOT,
        "region": region,
        "infra": "/".join(filter(None, (skypilot_cloud(offer.provider), region))),
        "instance": skypilot_instance(offer),
        "accelerator": skypilot_accelerator(gpu.name, offer.provider),
        "dstack": {
            "backend": dstack_backend(offer.provider),
            "instance": dstack_instance(offer),
            "accelerator": dstack_accelerator(gpu.name),
            "region": dstack_region(offer),
        },
        "arch": "arm" if gpu.name == "CPU-ARM64" else "x86",
        "memory_gb": max(1, math.floor(memory_gib * _LEFT_FOR_NODE)),
        "shm_gb": max(1, math.floor(memory_gib / 4)),
        "max_price": round(offer.price_usd_per_hour * PRICE_SLACK, 4),
        "resources": resources if run.is_cpu else resources | {"GPU": 1},
        "ray_version": ray_version,
        "head_image": image,
        "image": image if run.is_cpu else f"{image}-gpu",
        "labels": node_labels(offer, gpu, is_cpu=run.is_cpu),
        "cpus": max(1, math.floor(offer.vcpus * _LEFT_FOR_NODE)),
        "runtime_env": json.dumps({"pip": [torch, f"${{RAY_RUNTIME_ENV_CREATE_WORKING_DIR}}/{wheel}"]}),
    }


def _skypilot_refusal(run: RunPlan) -> str | None:
    offer = run.offer
    if skypilot_cloud(offer.provider) is None:
        return f"SkyPilot has no cloud {offer.provider}"
    if not run.is_cpu and skypilot_accelerator(offer.gpu, offer.provider) is None:
        return f"SkyPilot has no name for {offer.gpu} on {offer.provider}"
    return None


def _dstack_refusal(run: RunPlan) -> str | None:
    offer = run.offer
    if dstack_backend(offer.provider) is None:
        return f"dstack has no backend {offer.provider}"
    if not run.is_cpu and dstack_accelerator(offer.gpu) is None:
        return f"dstack has no name for {offer.gpu}"
    return None


def _sky_line(run: RunPlan, name: str) -> str:
    if run.offer.pricing is Pricing.SPOT:
        return "sky jobs launch skypilot.yaml"  # which recovers interrupted ones
    return f"sky launch --down -c {name} skypilot.yaml"


def _notes(run: RunPlan, gpu: Gpu) -> list[str]:
    notes = ["data files that the model file reads are not copied here"]
    if run.offer.pricing is Pricing.SPOT:
        notes.append(
            "a spot instance can be taken away: train.py saves checkpoints below `PLANNER_OUTPUT`, which "
            f"must outlive the instances and be seen by all of them; {_spot_notice(run.offer.provider)}"
        )
    if gpu.compute_capability is not None and gpu.compute_capability < _OLDEST_CUDA_13:
        notes.append(
            "PyTorch's wheels for CUDA 13, the default from 2.11 on, and dstack's default image do not run "
            f"on {gpu.name}: install a build for CUDA 12.6 there"
        )
    if run.config.gpu_count > 1 and not run.is_cpu and dstack_accelerator(gpu.name) is not None:
        notes.append(
            "dstack does not tell form factors apart: look at the instance it offers before you accept"
        )
    return notes


def _spot_notice(provider: str) -> str:
    known = load_providers().get(provider)
    notice = known.spot_notice if known else None
    if notice is None:
        return f"how long before it {provider} gives notice is not known"
    return f"{provider} gives {notice.seconds} s of notice at best ({notice.source})"


def _plain(text: str) -> str:
    """One printable line, for a comment or a docstring."""
    return "".join(one if one.isprintable() and one not in '"\\' else " " for one in text)


def _render(name: str, values: Mapping[str, Any]) -> str:
    if name == "train.dstack.yml":
        values = {**values, **values["dstack"]}
    return _templates().get_template(f"{name}.j2").render(values)


@functools.cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (shell, YAML and Python: each value is quoted where it stands)
    )
    environment.filters |= {"quoted": _quoted, "shell": shlex.quote}
    return environment


def _quoted(text: str) -> str:
    """A string of JSON, which is one of YAML and of Python, too."""
    return json.dumps(text, ensure_ascii=False)


def _key(path: str) -> str:
    """A path as a key of a Kubernetes ConfigMap."""
    return re.sub(r"[^-._a-zA-Z0-9]", "_", path.replace("/", "__"))
