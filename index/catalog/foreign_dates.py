"""Months and weekdays as German, French, Spanish and Italian write them, without accents: dates are indexed in English.

Many are other words, too ("mars", "mayo", "julio"), so that each is read as a date beside a number alone.
"""

from index.catalog.text_index import MONTHS, WEEKDAYS

_MONTHS = (
    "januar februar marz april mai juni juli august september oktober november dezember",
    "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
)
_WEEKDAYS = (
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miercoles jueves viernes sabado domingo",
    "lunedi martedi mercoledi giovedi venerdi sabato domenica",
)
_ELSEWHERE = {"janner": "january", "feber": "february", "maerz": "march", "setiembre": "september"}

ENGLISH = {
    foreign: english
    for lines, names in ((_MONTHS, MONTHS), (_WEEKDAYS, WEEKDAYS))
    for line in lines
    for foreign, english in zip(line.split(), names, strict=True)
    if foreign != english
} | _ELSEWHERE
"""The name of a month or weekday, in lower case and without accents -> its English name."""

AROUND = frozenset(["am", "im", "den", "der", "vom", "le", "du", "de", "del", "el", "il", "di"])
"""The words that these languages put around the parts of a date: "14 de mayo de 2023", "am 24. Dezember 2022"."""
