# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from palyra.core.errors import Code, StoreError
from palyra.core.ids import InstanceId
from palyra.store.instances import Instance, is_alive, starting
from tests.support.ordinary_user import as_ordinary_user

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = InstanceId("01JCZK5M8N0000000000000071"), InstanceId("01JCZK5M8N0000000000000072")

LIVING = """
import sys
from pathlib import Path
from palyra.core.ids import InstanceId
from palyra.store.instances import Instance
instance = Instance.start(Path(sys.argv[1]), instance_id=InstanceId(sys.argv[2]))
print("alive", flush=True)
sys.stdin.read()
"""


def test_an_instance_lives_until_it_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "instances"
    instance = Instance.start(folder, instance_id=ONE)
    assert is_alive(folder, ONE)
    assert not is_alive(folder, TWO)
    instance.close()
    assert not is_alive(folder, ONE)
    assert list(folder.iterdir()) == []


def test_two_instances_live_side_by_side(tmp_path: Path) -> None:
    one = Instance.start(tmp_path, instance_id=ONE)
    two = Instance.start(tmp_path, instance_id=TWO)
    one.close()
    assert (is_alive(tmp_path, ONE), is_alive(tmp_path, TWO)) == (False, True)
    two.close()


@pytest.mark.invariant("I7")
def test_a_killed_process_is_found_dead_and_forgotten(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIVING, str(tmp_path), ONE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"alive\n"
        assert is_alive(tmp_path, ONE)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert (tmp_path / f"{ONE}.lock").exists()
        assert not is_alive(tmp_path, ONE)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.invariant("I13")
def test_the_killed_are_forgotten_when_the_next_one_starts(tmp_path: Path) -> None:
    for number in range(3):
        killed = Instance.start(
            tmp_path, instance_id=InstanceId(f"01JCZK5M8N000000000000009{number}")
        )
        os.close(killed._descriptor)
    living = Instance.start(tmp_path, instance_id=ONE)
    last = Instance.start(tmp_path, instance_id=TWO)
    assert sorted(path.stem for path in tmp_path.iterdir()) == [ONE, TWO]
    living.close()
    last.close()


def test_a_child_that_runs_another_program_does_not_keep_its_parent_alive(tmp_path: Path) -> None:
    instance = Instance.start(tmp_path, instance_id=ONE)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:  # noqa: S607 - any program
        os.close(instance._descriptor)
        try:
            assert not is_alive(tmp_path, ONE)
        finally:
            child.kill()


def test_an_id_is_used_once(tmp_path: Path) -> None:
    instance = Instance.start(tmp_path, instance_id=ONE)
    with pytest.raises(StoreError) as fault:
        Instance.start(tmp_path, instance_id=ONE)
    instance.close()
    assert fault.value.code is Code.STORE_READ_ONLY


def test_a_link_in_place_of_a_lock_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / f"{ONE}.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as fault:
        is_alive(tmp_path, ONE)
    assert fault.value.code is Code.STORE_UNREACHABLE


def test_a_folder_that_cannot_be_written_is_a_fault() -> None:
    with as_ordinary_user() as folder:
        folder.chmod(0o500)
        with pytest.raises(StoreError) as instance:
            Instance.start(folder, instance_id=ONE)
        with pytest.raises(StoreError) as start, starting(folder):
            pytest.fail("nobody may start here")
        folder.chmod(0o700)
    assert (instance.value.code, start.value.code) == (Code.STORE_READ_ONLY, Code.STORE_READ_ONLY)


def test_one_starts_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    def start_too() -> None:
        with starting(tmp_path):
            order.append("second")

    second = threading.Thread(target=start_too)
    with starting(tmp_path):
        second.start()
        second.join(timeout=0.1)
        order.append("first")
    second.join()
    assert order == ["first", "second"]


def test_a_start_that_fails_lets_the_next_one_in(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), starting(tmp_path):
        raise ZeroDivisionError
    with (tmp_path / "start.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_is_no_id_of_ours_is_not_alive_and_nothing_is_touched(tmp_path: Path) -> None:
    victim = tmp_path / "victim.lock"
    victim.touch()
    assert not is_alive(tmp_path / "instances", InstanceId(str(tmp_path / "victim")))
    assert not is_alive(tmp_path, InstanceId("victim"))
    assert victim.exists()
