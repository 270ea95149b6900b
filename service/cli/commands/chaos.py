"""`regard chaos`: kills the processes of a test service repeatedly, and reports what it lost."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from service.cli.settings_options import with_settings
from service.cli.terminal.output import print_note
from service.errors import UserError
from service.settings import Settings

Minutes = Annotated[float, typer.Option("--minutes", min=0.1, help="How long processes are killed.")]
Seed = Annotated[int, typer.Option("--seed", help="Random seed of kills and requests.")]
Folder = Annotated[
    Path | None, typer.Option("--data-dir", help="An empty folder for the service; temporary if not given.")
]
WithRedis = Annotated[bool, typer.Option("--redis", help="Start a redis-server too, and kill it as well.")]
Chance = Annotated[float, typer.Option("--kill-chance", min=0, max=1, help="Probability of a kill in each interval.")]
Every = Annotated[float, typer.Option("--every", min=0.1, help="Length of an interval in seconds.")]
NumPictures = Annotated[int, typer.Option("--pictures", min=3, help="The largest number of pictures.")]


@with_settings("data_dir", "role", "host", "port", "redis_url", "delete_grace_s")
def chaos(
    settings: Settings,
    minutes: Minutes = 5.0,
    seed: Seed = 1,
    data_dir: Folder = None,
    redis: WithRedis = False,
    kill_chance: Chance = 0.3,
    every: Every = 5.0,
    pictures: NumPictures = 150,
) -> None:
    """Kill a test service, and check what it lost.

    Starts a service in an empty folder, uses it, and kills its processes at random moments: nothing that it
    acknowledged may be lost. The last line counts kills and faults; the status is 1 if there was a fault. Your own
    service and data are not touched.
    """
    if data_dir is not None and data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise UserError(f"{data_dir} is not empty: name a new folder")
    if redis and shutil.which("redis-server") is None:
        raise UserError("redis-server is not installed: install it, or leave out --redis")
    from service.chaos.run import ChaosPlan, ChaosRun
    from service.serve import exit_on_signals

    exit_on_signals()  # so that started processes are ended
    folder = data_dir or Path(tempfile.mkdtemp(prefix="regard-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    plan = ChaosPlan(
        minutes=minutes, seed=seed, chance=kill_chance, every_s=every, with_redis=redis, num_pictures=pictures
    )
    result = ChaosRun(settings, folder.resolve(), plan, print_note).run()
    if data_dir is None and result.is_good:
        shutil.rmtree(folder)
    elif not result.is_good:
        print_note(f"see {folder}")
    print(result)
    if not result.is_good:
        raise typer.Exit(1)
