"""What a container may use, from trees that look like the kernel's."""

from pathlib import Path

from trials.machine.cgroup import Cgroup, read_cgroup
from trials.machine.host_load import HostLoad

GIB = 1 << 30


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder


def group(folder: Path, membership: str, files: dict[str, str]) -> Cgroup:
    own = folder / "proc-self-cgroup"
    own.write_text(membership)
    return read_cgroup(tree(folder / "cgroup", files), own)


def test_a_container_of_version_2_has_its_own_limits_and_counters(tmp_path: Path) -> None:
    found = group(
        tmp_path,
        "0::/\n",
        {
            "memory.max": str(8 * GIB),
            "memory.current": str(5 * GIB),
            "memory.stat": f"anon {4 * GIB}\ninactive_file {GIB}",
            "memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0",
            "cpu.max": "250000 100000",
            "cpu.stat": "usage_usec 1500000\nuser_usec 1000000",
        },
    )
    assert found == Cgroup(
        memory_limit_bytes=8 * GIB,
        memory_used_bytes=4 * GIB,
        oom_kill_count=2,
        cpu_limit=2.5,
        cpu_used_s=1.5,
    )


def test_the_narrowest_limit_around_a_process_holds(tmp_path: Path) -> None:
    pod, own = "kubepods/pod1", "kubepods/pod1/worker"
    found = group(
        tmp_path,
        f"0::/{own}\n",
        {
            f"{pod}/memory.max": str(4 * GIB),
            f"{own}/memory.max": "max",
            f"{own}/memory.events": "oom_kill 1",
            f"{pod}/memory.events": "oom_kill 7",
            f"{pod}/cpu.max": "400000 100000",
            f"{pod}/cpu.stat": "usage_usec 9000000",
            f"{own}/cpu.max": "max 100000",
            f"{own}/cpu.stat": "usage_usec 1000000",
        },
    )
    assert (found.memory_limit_bytes, found.oom_kill_count) == (4 * GIB, 1)
    assert (found.cpu_limit, found.cpu_used_s) == (4.0, 9.0)  # both of the group that has the limit


def test_a_container_of_version_1_is_known_by_the_hosts_path_and_mounted_at_the_root(tmp_path: Path) -> None:
    found = group(
        tmp_path,
        "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        {
            "memory/memory.limit_in_bytes": str(2 * GIB),
            "memory/memory.usage_in_bytes": str(GIB),
            "memory/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB // 2}",
            "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4",
            "cpu,cpuacct/cpu.cfs_quota_us": "50000",
            "cpu,cpuacct/cpu.cfs_period_us": "100000",
            "cpu,cpuacct/cpuacct.usage": "2500000000",
        },
    )
    assert found == Cgroup(
        memory_limit_bytes=2 * GIB,
        memory_used_bytes=GIB // 2,
        oom_kill_count=4,
        cpu_limit=0.5,
        cpu_used_s=2.5,
    )


def test_without_limits_the_host_is_the_machine(tmp_path: Path) -> None:
    v1 = {"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"}
    found = group(tmp_path, "2:memory:/\n1:cpu:/\n0::/\n", {**v1, "cpu/cpu.cfs_period_us": "100000"})
    assert found == Cgroup()
    assert read_cgroup(tmp_path / "none", tmp_path / "none") == Cgroup()


def test_a_containers_cores_are_counted_and_not_the_hosts() -> None:
    counts = iter([Cgroup(cpu_limit=2.0, cpu_used_s=10.0), Cgroup(cpu_limit=2.0, cpu_used_s=10.0)])
    with HostLoad(lambda: next(counts)) as load:
        pass
    assert load.busy_s == 0.0  # whatever the host did meanwhile
    assert load.foreign_fraction(0.0) == 0.0
