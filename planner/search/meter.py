"""What devices are held, and which trial pays for it: their sum is what was held, neither more nor less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Ride:
    """A trial under way."""

    gpu: str
    device_count: int
    device_s: float = 0.0  # billed so far


@dataclass(slots=True, kw_only=True)
class Meter:
    """Bills devices for as long as they are held: also between trials, and when a trial uses only some.

    Trials of one type that are under way share what it holds, by their own devices. What a type holds while
    it has no trial is for the trial of any type that ends next. Of what holds nothing between trials each
    trial's own devices are billed.
    """

    held: Callable[[], Mapping[str, int]]  # devices by GPU type
    clock: Callable[[], float]
    held_from_s: Mapping[str, float] = field(default_factory=dict)  # of what is held already, by the clock
    _read_s: float | None = None
    _rides: dict[int, _Ride] = field(default_factory=dict)  # by the trial's number
    _idle_device_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def begin(self, number: int, gpu: str, device_count: int) -> None:
        """A trial starts."""
        self._read()
        self._rides[number] = _Ride(gpu, device_count)

    def end(self, number: int, trial_s: float) -> Mapping[str, float]:
        """Device seconds that a trial pays for, by GPU type; at least its own devices for ``trial_s``."""
        self._read()
        ride = self._rides.pop(number)
        bill, self._idle_device_s = self._idle_device_s, defaultdict(float)
        bill[ride.gpu] += max(ride.device_s, trial_s * ride.device_count)
        return bill

    def drop(self, number: int) -> None:
        """A trial came to nothing: its devices were never given."""
        del self._rides[number]

    def _read(self) -> None:
        """Share what was held since the last reading."""
        now_s, held = self.clock(), self.held()
        if self._read_s is None:
            for gpu, from_s in self.held_from_s.items():
                self._idle_device_s[gpu] += (now_s - from_s) * held.get(gpu, 0)
        passed_s = 0.0 if self._read_s is None else now_s - self._read_s
        self._read_s = now_s
        for gpu in {*held, *(one.gpu for one in self._rides.values())}:
            rides = [one for one in self._rides.values() if one.gpu == gpu]
            in_use = sum(one.device_count for one in rides)
            device_s = passed_s * max(held.get(gpu, 0), in_use)
            if device_s and not rides:
                self._idle_device_s[gpu] += device_s
            for one in rides:
                one.device_s += device_s * one.device_count / in_use
