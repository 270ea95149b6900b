"""`regard compact`."""

from service.cli.options import AsJson, DataFolder
from service.cli.settings_options import read_settings
from service.cli.terminal.output import print_json
from service.errors import UserError


def compact(data_dir: DataFolder = None, as_json: AsJson = False) -> None:
    """Overwrite the remains of erased pictures.

    Frees their disk space. No worker may run meanwhile.
    """
    settings = read_settings({} if data_dir is None else {"data_dir": data_dir})
    from service.storage.data_dir import DataDir
    from service.units import MB
    from service.worker.maintenance.compaction import compact_data_dir

    if not DataDir(settings.data_dir).catalog.is_file():
        raise UserError(f"there is no catalog in {settings.data_dir}: name the data directory with --data-dir")
    result = compact_data_dir(settings.data_dir, settings.delete_grace_s)
    if as_json:
        print_json(vars(result))
        return
    print(
        f"{result.records} region records and {result.view_rows} rows of views overwritten,"
        f" {result.num_bytes / MB:.1f} MB freed"
    )
