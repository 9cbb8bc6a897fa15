"""The files as texts: what stands in them for a plan, and that they are what each tool parses."""

from __future__ import annotations

import ast
import json
import subprocess
from typing import Any

import pytest
import yaml

from catalogs.gpus import DeviceKind, load_gpus
from catalogs.offers import Offer, Pricing, load_offers
from planner.launch.files import LaunchFiles, launch_files
from planner.launch.wheel import Wheel
from tests.builders import make_config, make_offer
from tests.planner.run_plans import make_run_plan
from trials.trial import Loading, Parallelism, Precision

GPUS = load_gpus()
WHEEL = Wheel(name="gpu_planner-0.1.0-0abc-py3-none-any.whl", contents=b"a zip")
MODEL = {"gpt.py": "def model(): ...\n", "parts/block.py": "WIDTH = 4\n"}

# What each project's published schema has of what is written here, with its type.
SKYPILOT_TASK = {
    "name": str,
    "workdir": str,
    "num_nodes": int,
    "resources": dict,
    "envs": dict,
    "setup": str,
    "run": str,
}
SKYPILOT_RESOURCES = {"infra": str, "instance_type": str, "accelerators": dict, "use_spot": bool}
DSTACK_TASK = {
    "type": str,
    "name": str,
    "nodes": int,
    "python": str,
    "files": list,
    "working_dir": str,
    "env": list,
    "commands": list,
    "resources": dict,
    "backends": list,
    "regions": list,
    "instance_types": list,
    "spot_policy": str,
    "retry": dict,
    "max_price": float,
}
DSTACK_RESOURCES = {"gpu": (str, int), "cpu": str, "memory": str, "shm_size": str}
RAYJOB_SPEC = {
    "entrypoint": str,
    "shutdownAfterJobFinishes": bool,
    "ttlSecondsAfterFinished": int,
    "runtimeEnvYAML": str,
    "rayClusterSpec": dict,
}
WORKER_GROUP = {
    "groupName": str,
    "replicas": int,
    "minReplicas": int,
    "maxReplicas": int,
    "rayStartParams": dict,
    "template": dict,
}


def check(value: dict[str, Any], known: dict[str, Any]) -> None:
    """Every key is known and its value of the known type."""
    assert {key: type(item) for key, item in value.items() if not isinstance(item, known[key])} == {}


def offer_of(instance_type: str, pricing: Pricing = Pricing.ON_DEMAND) -> Offer:
    return next(one for one in load_offers() if one.instance_type == instance_type and one.pricing is pricing)


def files_for(
    offer: Offer,
    instance_count: int = 1,
    workers: int | None = None,
    storage: str | None = None,
    **changes: Any,
) -> LaunchFiles:
    is_cpu = GPUS[offer.gpu].kind is DeviceKind.CPU
    gpu_count = workers or offer.gpu_count * instance_count
    config = make_config(
        offer.gpu,
        gpu_count=gpu_count,
        node_count=instance_count,
        parallelism=Parallelism.SINGLE if gpu_count == 1 else Parallelism.FSDP2,
        precision=Precision.BF16,
        techniques=("activation_checkpointing",),
    )
    run = make_run_plan(offer=offer, instance_count=instance_count, config=config, is_cpu=is_cpu, **changes)
    facts = ["Rent it.", 'A "quoted" \\ line\nbroken.']
    return launch_files(
        run, GPUS[offer.gpu], MODEL, facts, wheel=WHEEL, has_requirements=False, storage=storage
    )


def parsed(files: LaunchFiles, name: str) -> Any:
    return yaml.safe_load(files.texts[name])


@pytest.mark.parametrize(
    ("loading", "lines"),
    [
        (Loading(), ("LOADER_WORKERS = None ", "LOADER_PREFETCH = None ", "PINNED = True ")),
        (
            Loading(worker_count=4, prefetch_count=8, is_pinned=False),
            ("LOADER_WORKERS = 4 ", "LOADER_PREFETCH = 8 ", "PINNED = False "),
        ),
    ],
)
def test_the_script_loads_as_the_trial_did(loading: Loading, lines: tuple[str, ...]) -> None:
    run = make_run_plan(config=make_config().loaded(loading))
    text = launch_files(run, GPUS["L4-24GB"], MODEL, [], wheel=WHEEL, has_requirements=False).texts[
        "train.py"
    ]
    assert all(f"\n{one}" in text for one in lines)


def test_a_spot_instance_for_skypilot() -> None:
    task = parsed(files_for(offer_of("p5.48xlarge", Pricing.SPOT), 2), "skypilot.yaml")
    check(task, SKYPILOT_TASK)
    check(task["resources"], SKYPILOT_RESOURCES)
    assert task["num_nodes"] == 2
    assert task["resources"] == {
        "infra": "aws/us-east-1",
        "instance_type": "p5.48xlarge",
        "accelerators": {"H100": 8},
        "use_spot": True,
    }
    assert "uv pip install torch==2.8.0" in task["setup"]
    assert task["run"].splitlines()[-1] == "bash train.sh"
    assert 'export NODE_RANK="$SKYPILOT_NODE_RANK"' in task["run"]


def test_a_spot_instance_for_dstack() -> None:
    task = parsed(files_for(offer_of("p5.48xlarge", Pricing.SPOT), 2), "train.dstack.yml")
    check(task, DSTACK_TASK)
    check(task["resources"], DSTACK_RESOURCES)
    assert task["resources"]["gpu"] == "H100:80GB:8"
    assert (task["type"], task["nodes"], task["spot_policy"]) == ("task", 2, "spot")
    assert (task["backends"], task["regions"]) == (["aws"], ["us-east-1"])
    assert task["instance_types"] == ["p5.48xlarge"]
    assert task["max_price"] == pytest.approx(16.9508 * 1.1, abs=1e-4)
    assert task["commands"][-1] == "bash train.sh"


def test_a_ray_job_for_kuberay() -> None:
    job = parsed(files_for(offer_of("p5.48xlarge"), 2), "rayjob.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    check(job["spec"], RAYJOB_SPEC)
    cluster = job["spec"]["rayClusterSpec"]
    assert set(cluster) == {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
    assert cluster["rayVersion"] == "2.55.0"
    (group,) = cluster["workerGroupSpecs"]
    check(group, WORKER_GROUP)
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (2, 2, 2)
    pod = group["template"]["spec"]
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    (container,) = pod["containers"]
    assert container["image"] == "rayproject/ray:2.55.0-py311-gpu"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 8
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert head["containers"][0]["volumeMounts"] == container["volumeMounts"]
    items = head["volumes"][0]["configMap"]["items"]
    assert {"key": "model__parts__block.py", "path": "model/parts/block.py"} in items
    assert yaml.safe_load(job["spec"]["runtimeEnvYAML"])["pip"] == [
        "torch==2.8.0",
        f"/home/ray/run/{WHEEL.name}",
    ]
    assert {"key": WHEEL.name, "path": WHEEL.name} in items


def test_every_way_to_start_the_run_installs_the_planner_that_planned_it() -> None:
    files = files_for(offer_of("p5.48xlarge"))
    for name in (
        "skypilot.yaml",
        "train.dstack.yml",
        "train.sh",
        "ray_job_submit.sh",
        "rayjob.sh",
        "rayjob.yaml",
    ):
        assert WHEEL.name in files.texts[name], name
    assert not any("gpu-planner==" in text for text in files.texts.values())
    assert "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/" + WHEEL.name in files.texts["ray_job_submit.sh"]
    assert parsed(files, "skypilot.yaml")["envs"]["PLANNER"] == f"./{WHEEL.name}"


def test_a_cpu_plan_asks_nobody_for_a_gpu() -> None:
    files = files_for(offer_of("c7i.2xlarge"), workers=2)
    assert parsed(files, "skypilot.yaml")["resources"] == {
        "infra": "aws/us-east-1",
        "instance_type": "c7i.2xlarge",
        "use_spot": False,
    }
    dstack = parsed(files, "train.dstack.yml")
    assert (dstack["resources"]["gpu"], dstack["resources"]["cpu"]) == (0, "x86:8")
    (group,) = parsed(files, "rayjob.yaml")["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    assert set(container["resources"]["limits"]) == {"memory"}
    assert "cuda" not in files.texts["train.py"].split("def join")[1].split("def train_step")[0]
    assert "use_gpu=False" in files.texts["train_on_ray.py"]


def test_an_offer_without_region_names_none() -> None:
    files = files_for(offer_of("1x_L4-24GB"))
    assert parsed(files, "skypilot.yaml")["resources"] == {
        "infra": "runpod",
        "accelerators": {"L4": 1},
        "use_spot": False,
    }
    assert "regions" not in parsed(files, "train.dstack.yml")


def test_a_tool_that_does_not_know_the_provider_gets_no_file_and_the_reason_is_said() -> None:
    files = files_for(make_offer("H100-PCIE-80GB", provider="hyperstack"))
    assert "skypilot.yaml" not in files.texts
    assert "no skypilot.yaml: SkyPilot has no cloud hyperstack" in files.notes
    assert "no train.dstack.yml: dstack has no backend hyperstack" in files.notes
    assert "SkyPilot has no cloud hyperstack" in files.texts["LAUNCH.md"]
    files = files_for(offer_of("Standard_ND96isr_H200_v5"))
    assert "no skypilot.yaml: SkyPilot has no name for H200-SXM-141GB on azure" in files.notes


def test_a_card_that_current_builds_of_torch_do_not_run_on_is_pointed_out() -> None:
    assert any("CUDA 12.6" in one for one in files_for(offer_of("p3.2xlarge")).notes)
    assert not any("CUDA 12.6" in one for one in files_for(offer_of("g4dn.xlarge")).notes)


def test_the_whole_folder() -> None:
    files = files_for(offer_of("g6.xlarge"))
    assert set(files.texts) == {
        *("plan.json", "model/gpt.py", "model/parts/block.py", "LAUNCH.md"),
        *("train.py", "train.sh", "train_on_ray.py", "ray_job_submit.sh", "rayjob.sh", "rayjob.yaml"),
        *("skypilot.yaml", "train.dstack.yml"),
    }
    assert files.texts["model/gpt.py"] == MODEL["gpt.py"]
    assert "`sky launch --down -c gpt-01234567-plan-1 skypilot.yaml`" in files.texts["LAUNCH.md"]


@pytest.mark.parametrize("instance_count", [1, 2])
def test_scripts_are_python_and_shell_of_readable_width(instance_count: int) -> None:
    files = files_for(offer_of("p5.48xlarge"), instance_count)
    for name, text in files.texts.items():
        if name.endswith(".py"):
            ast.parse(text)
            assert max(map(len, text.splitlines())) <= 110, name
        if name.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_the_training_script_names_the_configuration() -> None:
    text = files_for(offer_of("p5.48xlarge")).texts["train.py"]
    module = ast.parse(text)
    (call,) = [
        one.value
        for one in module.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "CONFIG"
    ]
    assert isinstance(call, ast.Call)
    assert {one.arg: ast.unparse(one.value) for one in call.keywords} == {
        "gpu": "'H100-SXM5-80GB'",
        "gpu_count": "8",
        "node_count": "1",
        "micro_batch_size": "8",
        "accumulation": "4",
        "precision": "'bf16'",
        "parallelism": "'fsdp2'",
        "techniques": "('activation_checkpointing',)",
        "workers_per_replica": "1",
    }
    assert "STEPS = 36000  # 1152000 samples" in text
    assert "LOG_EVERY = 10" in text


def test_a_hostile_study_name_and_path_stay_text() -> None:
    files = files_for(
        offer_of("g6.xlarge"),
        study='x"""; import os #\n$(touch y)',
        model_file='a"b.py',
    )
    for name, text in files.texts.items():
        if name.endswith(".py") and not name.startswith("model/"):
            ast.parse(text)
        if name.endswith((".yaml", ".yml")):
            yaml.safe_load(text)
        if name.endswith(".sh"):
            assert "touch y" not in text
    assert json.loads(files.texts["plan.json"])["study"] == 'x"""; import os #\n$(touch y)'
    assert "planner verify 'x" in files.texts["LAUNCH.md"]


def test_the_storage_of_the_study_is_named_where_it_is_not_the_default_one() -> None:
    plain = files_for(offer_of("g6.xlarge"))
    assert "planner verify gpt-01234567 --directory ." in plain.texts["LAUNCH.md"]
    url = "postgresql://me:***@db/runs of mine"
    named = files_for(offer_of("g6.xlarge"), storage=url)
    assert f"planner verify gpt-01234567 --storage '{url}' --directory ." in named.texts["LAUNCH.md"]
