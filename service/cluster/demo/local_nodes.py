"""A Ray cluster on this machine for demonstrations: nodes of a few hundred MB that can be killed and restarted."""

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import ray
from ray.cluster_utils import Cluster

from service import PACKAGES_FOLDER
from service.cluster.on_ray.nodes import LABEL
from service.cluster.on_ray.remote import NAMESPACE
from service.this_machine import is_running, processes_under

NODES = ("node-0", "node-1", "node-2")
OBJECT_STORE_BYTES = 80 * 2**20
CPUS = 4  # that a node declares, by which actors are placed; it limits nothing

# A dead node is noticed within a second or two instead of fifteen, and a call to a dead process fails within a tenth
# of a second instead of two. The head passes this to every other process, including this one.
SYSTEM_CONFIG = {
    "health_check_initial_delay_ms": 2000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
    "timeout_ms_task_wait_for_death_info": 50,
    "core_worker_internal_heartbeat_ms": 50,
    "enable_metrics_collection": False,
}
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_worker_niceness": "0",  # like a process outside Ray
    "RAY_task_events_report_interval_ms": "0",  # no list of all calls, which would slow each of them
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_SERVE_ENABLE_HA_PROXY": "1",  # requests go through HAProxy, which Ray Serve brings, and not through Python
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",  # of an ending router; HAProxy is told at once
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # proxies start slowly beside replicas that load models
    "PYTHONPATH": str(PACKAGES_FOLDER),
}


def wait_until(holds: Callable[[], bool]) -> None:
    """Return once the condition holds."""
    while not holds():
        time.sleep(0.05)


def end_at_sigterm() -> None:
    """Let SIGTERM end this program as Ctrl-C does. A second one, as `make` and `timeout` send, does not cut the cleanup
    short. Ray replaces the handler whenever it starts a node or connects."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, leave)


class RayCluster:
    """Three nodes, the first of which is the head, with the state of the cluster.

    Nodes are started one after the other, since nodes started together by one process take each other's names.
    """

    def __init__(self, folder: Path) -> None:
        self._cluster = Cluster()
        self._nodes: dict[str, Any] = {}
        self._folder = folder
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        for name in NODES:
            self.start(name)
        self._cluster.wait_for_nodes()
        ray.init(
            address=self.address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
        )
        end_at_sigterm()

    @property
    def address(self) -> str:
        """The address of this cluster for drivers; "auto" might find another one."""
        address: str = self._cluster.address
        return address

    def start(self, name: str) -> None:
        """Start a node that does not run."""
        assert name not in self._nodes, f"{name} runs"
        head_options: dict[str, Any] = {"temp_dir": str(self._folder), "_system_config": SYSTEM_CONFIG}
        self._nodes[name] = self._cluster.add_node(
            num_cpus=CPUS,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            labels={LABEL: name},
            **({} if self._nodes else head_options),
        )
        end_at_sigterm()

    def kill(self, name: str) -> None:
        """Kill a node and everything that runs on it, all at once, as a power cut would."""
        assert name != NODES[0], "the head must not be killed: the other nodes depend on it"
        node = self._nodes.pop(name)
        raylet = node.all_processes["raylet"][0].process
        killed = processes_under(raylet.pid)
        for process in killed:
            os.kill(process, signal.SIGKILL)
        raylet.wait()  # its workers take an unreaped raylet for alive
        wait_until(lambda: not any(is_running(process) for process in killed))
        self._cluster.remove_node(node, allow_graceful=False)

    def start_all(self) -> None:
        """Start every node that was killed."""
        for name in NODES:
            if name not in self._nodes:
                self.start(name)

    def close(self) -> None:
        """End every node, and wait for all processes."""
        raylets = [node.all_processes["raylet"][0].process.pid for node in self._nodes.values()]
        started = [process for raylet in raylets for process in processes_under(raylet)]
        ray.shutdown()
        self._cluster.shutdown()
        wait_until(lambda: not any(is_running(process) for process in started))


@contextmanager
def running_ray_cluster() -> Iterator[RayCluster]:
    """Three nodes that run until the block ends."""
    # Not pytest's folder, which is too long for socket paths of at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    # Ray writes its address to the folder `ray` in here, which must exist, instead of over another cluster's.
    environment = {**ENVIRONMENT, "RAY_TMPDIR": str(folder)}
    nodes_folder = folder / "ray"
    nodes_folder.mkdir()
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        cluster = RayCluster(nodes_folder)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
