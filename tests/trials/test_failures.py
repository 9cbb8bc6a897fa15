from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from tests.trials.files import on_cpu
from trials.errors import Diverged, PeerFailed, TrialsError, Unsupported
from trials.measuring.failures import COMMUNICATION_ADVICE, explain
from trials.trial import FailureKind

FILE = "/somewhere/model.py"


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to\nmore"),
            FailureKind.OUT_OF_MEMORY,
            "CUDA out of memory. Tried to",
        ),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"),
            FailureKind.OUT_OF_MEMORY,
            "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory",
        ),
        (
            RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
            FailureKind.OUT_OF_MEMORY,
            "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        ),
        (MemoryError(), FailureKind.OUT_OF_MEMORY, "MemoryError"),
        (
            OSError(errno.ENOMEM, "Cannot allocate memory"),
            FailureKind.OUT_OF_MEMORY,
            "[Errno 12] Cannot allocate memory",
        ),
        (Unsupported("no TF32 here"), FailureKind.UNSUPPORTED, "no TF32 here"),
        (Diverged("the loss became nan"), FailureKind.DIVERGED, "the loss became nan"),
        (PeerFailed("rank 1"), FailureKind.WORKER_LOST, "rank 1"),
        (TrialsError("model() returned int"), FailureKind.USER_CODE, "model() returned int"),
        (SystemExit(3), FailureKind.USER_CODE, "/somewhere/model.py: the model file called sys.exit(3)"),
        (
            RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:2"),
            FailureKind.WORKER_LOST,
            "another worker of this trial failed: [gloo/transport/tcp/pair.cc:547] Connection closed by peer"
            " [127.0.0.1]:2",
        ),
        (
            torch.distributed.DistBackendError(
                "NCCL error in: ProcessGroupNCCL.cpp:94, system error, NCCL version 2.27\nLast error: no"
            ),
            FailureKind.COMMUNICATION_FAILED,
            "NCCL error in: ProcessGroupNCCL.cpp:94, system error, NCCL version 2.27; "
            + COMMUNICATION_ADVICE,
        ),
        (
            torch.distributed.DistBackendError(
                "NCCL error: unhandled cuda error\nCuda failure 'out of memory'"
            ),
            FailureKind.OUT_OF_MEMORY,
            "NCCL error: unhandled cuda error",
        ),
        (
            RuntimeError("this model needs NCCL"),
            FailureKind.UNSUPPORTED,
            "RuntimeError: this model needs NCCL",
        ),
        (
            RuntimeError("element 0 of tensors does not require grad"),
            FailureKind.UNSUPPORTED,
            "RuntimeError: element 0 of tensors does not require grad",
        ),
    ],
)
def test_kind_and_reason_of_an_error(error: BaseException, kind: FailureKind, reason: str) -> None:
    failure = explain(error, on_cpu(), FILE, trial_s=1.5)
    assert (failure.kind, failure.reason, failure.trial_s) == (kind, reason, 1.5)
    assert type(error).__name__ in failure.detail


def test_cause_decides_that_memory_ran_out() -> None:
    error = TrialsError("model() raised RuntimeError")
    error.__cause__ = RuntimeError("DefaultCPUAllocator: not enough memory")
    assert explain(error, on_cpu(), FILE, 0.0).kind is FailureKind.OUT_OF_MEMORY


def test_error_in_the_users_file_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def loss():\n    return {}['x']\n")
    names: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    try:
        names["loss"]()  # type: ignore[operator]
    except KeyError as error:
        failure = explain(error, on_cpu(), str(file), 0.0)
    assert failure.kind is FailureKind.USER_CODE
    assert failure.reason == f"{file}, line 2: KeyError: 'x'"


def test_compiler_error_is_unsupported() -> None:
    from torch._dynamo.exc import BackendCompilerFailed

    def backend() -> None: ...

    error = BackendCompilerFailed(backend, ValueError("no kernel"), None)
    failure = explain(error, on_cpu(techniques=("compile",)), FILE, 0.0)
    assert failure.kind is FailureKind.UNSUPPORTED
    assert failure.reason.startswith("torch.compile cannot take this model")
