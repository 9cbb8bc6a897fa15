"""From an exception inside a trial to a Failure: what kind it is, and why, in words."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator, Sequence

import torch

from trials.errors import Diverged, PeerFailed, TrialsError, Unsupported
from trials.trial import Failure, FailureKind, TrialConfig

OUT_OF_MEMORY_WORDS = (
    "DefaultCPUAllocator",
    "not enough memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
PEER_WORDS = ("Timed out waiting", "Connection closed by peer", "Connection reset by peer")
# As torch's NCCL and gloo back ends begin; "NCCL" alone may stand in a model file's own words.
COMMUNICATION_WORDS = ("NCCL error", "NCCL Error", "NCCL communicator", "ProcessGroupNCCL", "[gloo]", "gloo/")
COMMUNICATION_ADVICE = (
    "check that NCCL_SOCKET_IFNAME (GLOO_SOCKET_IFNAME on CPU) names a network interface that all workers"
    " share, that no firewall stands between the nodes, and that /dev/shm has room (in Docker --shm-size)"
)
COMPILE_MODULES = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.utils._triton")


_OURS = {
    Unsupported: FailureKind.UNSUPPORTED,
    Diverged: FailureKind.DIVERGED,
    PeerFailed: FailureKind.WORKER_LOST,
    TrialsError: FailureKind.USER_CODE,
}


def explain(error: BaseException, config: TrialConfig, path: str, trial_s: float) -> Failure:
    """The failure that ``error`` stands for in a trial of the model file at ``path``. Keeps no tensors."""
    kind, reason = _classify(error, path)
    detail = "".join(traceback.format_exception(error))
    return Failure(config=config, kind=kind, reason=reason, trial_s=trial_s, detail=detail)


def _classify(error: BaseException, path: str) -> tuple[FailureKind, str]:
    chain = list(_chain(error))
    for cause in chain:
        if is_out_of_memory(cause):
            return FailureKind.OUT_OF_MEMORY, first_line(cause)
    for ours, kind in _OURS.items():
        if isinstance(error, ours):
            return kind, str(error)
    if any(_says(cause, PEER_WORDS) for cause in chain):
        return FailureKind.WORKER_LOST, f"another worker of this trial failed: {first_line(error)}"
    broken = next((cause for cause in chain if _is_communication_failure(cause)), None)
    if broken is not None:
        return FailureKind.COMMUNICATION_FAILED, f"{first_line(broken)}; {COMMUNICATION_ADVICE}"
    if isinstance(error, SystemExit):
        return FailureKind.USER_CODE, f"{path}: the model file called sys.exit({error.code!r})"
    if any(type(one).__module__.startswith(COMPILE_MODULES) for one in chain):
        return FailureKind.UNSUPPORTED, f"torch.compile cannot take this model: {first_line(error)}"
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if lines:
        return (
            FailureKind.USER_CODE,
            f"{path}, line {lines[-1].lineno}: {type(error).__name__}: {first_line(error)}",
        )
    return FailureKind.UNSUPPORTED, f"{type(error).__name__}: {first_line(error)}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the host had no memory left. On CPU torch raises a RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return _says(error, OUT_OF_MEMORY_WORDS)


def _is_communication_failure(error: BaseException) -> bool:
    return isinstance(error, torch.distributed.DistError) or _says(error, COMMUNICATION_WORDS)


def _says(error: BaseException, words: Sequence[str]) -> bool:
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def first_line(error: BaseException) -> str:
    """The first line of what the error says, or its name."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
