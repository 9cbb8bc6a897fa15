"""Recordings: written, read and played back; and the two that are shipped, recorded on a CPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.mfu import fraction_of, nano_gpt
from benchmarks.recording import SCHEMA_VERSION, Recording, load, replay, save
from benchmarks.replay import fit_of, play
from catalogs.gpus import load_gpus
from tests.builders import make_config, make_failure, make_measurement, make_profile, make_target
from trials.measurement import Measurement, Telemetry
from trials.model_file.source import hash_workload
from trials.trial import Failure, FailureKind, Precision

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHIPPED = sorted((BENCHMARKS / "recordings").glob("*.json"))

TELEMETRY = Telemetry(
    sample_count=3, gpu_utilisation_fraction=0.98, memory_utilisation_fraction=None, sm_clock_hz=1.98e9,
    sm_clock_max_hz=1.98e9, power_w=690.0, power_limit_w=700.0, temperature_max_c=61.0, energy_j=1e4,
    throttle_reasons=("power cap",), other_process_count=0,
)  # fmt: skip


def recording(**changes: object) -> Recording:
    values = {
        "schema_version": SCHEMA_VERSION,
        "workload": "gpt2",
        "size": "tiny",
        "sha256": "0" * 64,
        "gpu": "L4-24GB",
        "recorded_on": "2026-11-21",
        "target": make_target(),
        "profile": make_profile(),
        "in_flight": make_config(micro_batch_size=2),
        "outcomes": (make_measurement(telemetry=TELEMETRY), make_failure(make_config(micro_batch_size=32))),
    }
    return Recording(**(values | changes))


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    save(recording(), tmp_path / "one.json")
    assert load(tmp_path / "one.json") == recording()
    assert [one.name for one in tmp_path.iterdir()] == ["one.json"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schema_version": 0}, "schema 0, this reads 1"),
        ({"target": {"samples": "many", "global_batch_size": 1}}, r"target.samples: 'many' is no int"),
        ({"target": {"samples": 1}}, r"target: .*global_batch_size"),
        ({"outcomes": [{"colour": "blue"}]}, r"outcomes\[0\]: none of Measurement, Failure"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = tmp_path / "one.json"
    save(recording(), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=complaint):
        load(path)


def test_tracebacks_and_this_machine_s_paths_stay_out() -> None:
    failure = make_failure(
        make_config(),
        kind=FailureKind.USER_CODE,
        reason=f"{BENCHMARKS}/workloads/gpt2.py, line 3",
        detail="long",
    )
    kept = recording().plus(failure).outcomes[-1]
    assert isinstance(kept, Failure)
    assert (kept.reason, kept.detail) == ("/benchmarks/workloads/gpt2.py, line 3", "")


def test_a_replay_answers_as_the_device_did() -> None:
    run_trial = replay(recording())
    assert run_trial(make_config()) == make_measurement(telemetry=TELEMETRY)
    larger = run_trial(make_config(micro_batch_size=64, accumulation=1))
    assert isinstance(larger, Failure)
    assert larger.kind is FailureKind.OUT_OF_MEMORY
    with pytest.raises(LookupError, match="L4-24GB--gpt2-tiny has no trial of"):
        run_trial(make_config(micro_batch_size=16, accumulation=2))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recordings_are_whole_and_small_and_say_where_they_were_taken(path: Path) -> None:
    one = load(path)
    assert path.stem == one.name
    assert path.stat().st_size < 2_000_000
    assert one.gpu in load_gpus()
    assert one.in_flight is None
    measured = [outcome for outcome in one.outcomes if isinstance(outcome, Measurement)]
    assert {outcome.config.gpu for outcome in measured} == {one.gpu}
    is_cpu = {outcome.environment.threads_per_worker is not None for outcome in measured}
    assert is_cpu == {one.gpu.startswith("CPU")}
    assert one.profile.traces
    assert len({outcome.config for outcome in one.outcomes}) == len(one.outcomes)


def test_there_is_a_recording_to_replay() -> None:
    assert SHIPPED


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_sweep_over_a_recording_tries_only_what_was_recorded_and_fits_the_rest(
    path: Path, tmp_path: Path
) -> None:
    one = load(path)
    played = play(one, tmp_path)
    assert set(played.outcomes) <= set(one.outcomes)
    assert 2 <= len(played.outcomes) <= len(one.outcomes)
    assert played.regret_fraction >= 0
    found = fit_of(played)
    assert found.count == len({o for o in one.outcomes if isinstance(o, Measurement)} - set(played.outcomes))


def test_a_recording_that_was_cut_off_before_the_guard_s_reference_is_swept_all_the_same(
    tmp_path: Path,
) -> None:
    whole = load(BENCHMARKS / "recordings" / "CPU-X86-64--mlp-tiny.json")
    kept = [one for one in whole.outcomes if one.config.precision == Precision.BF16]
    played = play(replace(whole, outcomes=tuple(kept)), tmp_path)
    assert {one.config.precision for one in played.outcomes} == {Precision.BF16}


def test_the_public_mfu_follows_from_the_published_speed() -> None:
    # 106,667 tokens/s x 6 x 123.6 M parameters and 12 x 12 x 768 x 1,024 of attention, over 312 TFLOP/s
    assert fraction_of(nano_gpt(), load_gpus()) == pytest.approx(0.292, abs=0.002)
    assert fraction_of(replace(nano_gpt(), gpu="T4-16GB"), load_gpus()) is None  # no bf16 unit


@pytest.mark.parametrize("path", sorted((BENCHMARKS / "workloads").glob("*.py")), ids=lambda path: path.stem)
def test_workloads_need_nothing_beyond_torch(path: Path) -> None:
    if path.stem not in {"losses", "synthetic"}:
        hash_workload(path)  # a syntax error or a missing name of the contract raises
    imports = {
        line.split()[1].partition(".")[0]
        for line in path.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imports <= {"os", "zlib", "functools", "torch", "losses", "synthetic"}
