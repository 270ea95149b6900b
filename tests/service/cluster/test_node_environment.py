"""What nodes of Ray are started with is the same wherever it is named: documents, image, demonstration."""

import re
import subprocess
import sys

from service.cluster.demo.local_nodes import ENVIRONMENT
from tests.support.project_files import ROOT

NEEDED = {
    "RAY_USAGE_STATS_ENABLED",  # or it tells its makers of each cluster
    "RAY_worker_niceness",
    "RAY_task_events_report_interval_ms",
    "RAY_SERVE_ENABLE_HA_PROXY",
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S",
}


TWICE_TOLD_TO_END = """
import os, signal
from service.cluster.demo.local_nodes import end_at_sigterm

end_at_sigterm()
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGTERM)
    print("cleaned up")
"""


def test_a_second_signal_does_not_cut_the_cleanup_short() -> None:
    command = [sys.executable, "-c", TWICE_TOLD_TO_END]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout == "cleaned up\n"


def set_in(text: str) -> dict[str, str]:
    """Ray's settings with their values, as a shell or a Dockerfile sets them."""
    return dict(re.findall(r"\b(RAY_\w+)=(\w+)", text))


def test_every_node_is_started_with_the_same_settings() -> None:
    in_demonstration = {name: ENVIRONMENT[name] for name in NEEDED}
    for path in ("docs/cluster.md", "Dockerfile"):
        found = set_in((ROOT / path).read_text(encoding="utf-8"))
        assert {name: found.get(name) for name in NEEDED} == in_demonstration, path
        assert found["RAY_AUTH_MODE"] == "token", "without one everybody who reaches its ports may run anything"
