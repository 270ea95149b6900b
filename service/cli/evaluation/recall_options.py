"""Options for measurements of `regard evaluate` besides recall over every pair and of the two stages."""

from dataclasses import dataclass
from pathlib import Path

from service.errors import UserError


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """Further measurements, and the file for ranks."""

    questions: int | None
    """The number of first captions to query with; None for all."""
    fold5: bool
    halves: bool
    ranks: Path | None

    def check_number(self, pictures: int) -> None:
        """UserError where this number of pictures cannot be measured in five folds or two halves."""
        if self.fold5:
            from models.evaluation.ranks import FOLDS

            if pictures % FOLDS:
                whole = pictures - pictures % FOLDS
                advice = f"leave --fold5 out, or give --first {whole}" if whole else "leave --fold5 out"
                raise UserError(f"{pictures} pictures do not make {FOLDS} equal folds: {advice}")
        if self.halves and pictures < 2:
            raise UserError("--halves measures two halves of the pictures, and there is one picture")
