"""Months and weekdays in German, French, Spanish and Italian; dates are indexed in English.

Many are also other words ("mars", "mayo", "julio"), so each counts as a date only beside a number.
"""

from index.catalog.text_index import MONTHS, WEEKDAYS, plain_letters

_MONTHS = (
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
)
_WEEKDAYS = (
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miércoles jueves viernes sábado domingo",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
)
_OTHER_SPELLINGS = {"jänner": "january", "feber": "february", "maerz": "march", "setiembre": "september"}


def _translated(lines: tuple[str, ...], english: tuple[str, ...]) -> dict[str, str]:
    """Foreign name -> English name, where the two differ."""
    pairs = (pair for line in lines for pair in zip(line.split(), english, strict=True))
    return {foreign: name for foreign, name in pairs if foreign != name}


_WRITTEN_MONTHS = _translated(_MONTHS, MONTHS) | _OTHER_SPELLINGS
_WRITTEN = _WRITTEN_MONTHS | _translated(_WEEKDAYS, WEEKDAYS)

ENGLISH = {plain_letters(foreign): name for foreign, name in _WRITTEN.items()}
"""The name of a month or weekday, in lower case and without accents -> its English name."""

FOREIGN_MONTHS = frozenset({*_WRITTEN_MONTHS, *map(plain_letters, _WRITTEN_MONTHS)})
"""The names of months alone, with their accents and without."""

AROUND = frozenset(["am", "im", "den", "der", "le", "el", "il"])
"""Words that these languages put around a date, other than stop words: "am 24. Dezember 2022"."""
