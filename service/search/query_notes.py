"""Notes beside an answer, on a question that models cannot read as it was meant, or of which they read a part."""

import math
import re
import unicodedata
from collections.abc import Collection

from models.text.request_words import subject_of

NEGATIONS = ("without", "not", "no", "none", "nobody", "nothing", "never", "neither", "nor", "except", "excluding")
FUNCTION_WORDS = {
    "English": "the a an of on in at with and or is are to by for from near under over their his her its who that",
    "German": "sie der das dem den des ein eine einem einen einer eines und mit auf im zwei ist sind nicht ohne"
    " vor hinter neben unter über von für zum zur beim",
    "French": "le la les un une des du de et est sont avec dans sur sous sans au aux qui deux devant derrière près",
    "Spanish": "el la los las un una unos unas y de del en con sin por para sobre al dos que junto está están",
    "Italian": "il lo la gli le un uno una di del della dei delle nel nella sul sulla con senza che due è sono",
    "Portuguese": "o os as um uma uns umas de do da dos das e com em na nas num numa sem ao dois duas que está",
    "Dutch": "de het een en met op van zonder voor achter naast onder aan bij twee zijn niet uit",
    "Swedish": "en ett och med på av utan för den det två är som vid",
    "Polish": "z na w nad pod przed bez dwa jest są się obok oraz dwie",
}
# What photographs show most, by words that are neither English nor names: one of them is as good as two short words.
NOUNS = {
    "German": "hund hunde frau mädchen junge wasser schnee katze haus baum straße strasse pferd fahrrad fußball",
    "French": "chien chiens homme femme fille garçon enfants plage neige maison arbre cheval vélo voiture",
    "Spanish": "perro perros hombre mujer niño niña nieve gato árbol caballo bicicleta",
    "Italian": "cani uomo bambino bambina spiaggia gatto albero cavallo bicicletta",
    "Portuguese": "cachorro cão homem mulher menino menina praia árvore cavalo",
    "Dutch": "hond honden vrouw jongen meisje kinderen sneeuw huis paard fiets",
    "Swedish": "hundar kvinna flicka pojke snö häst",
    "Polish": "kobieta mężczyzna dziewczyna chłopiec dziecko śnieg kot drzewo koń plaża",
}
WORDS_OF_LANGUAGE = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
NOUNS_OF_LANGUAGE = {language: frozenset(words.split()) for language, words in NOUNS.items()}
MOST_AT_ONCE = 100  # pictures that a view lacks for a moment while the worker takes in more
WITHIN_A_MOMENT = 10  # pictures that the worker takes in within a moment or two
SURE = 3  # short words of a language, from which a question is in it for sure
LEAST_SHARE = 1 / 3  # of the words, so that a film's title in an English sentence is none


def note_on(query: str, num_missing: int = 0, no_english: Collection[str] = ()) -> str | None:
    """The part of a question that models read, parts that they do not understand, and how many pictures they cannot
    find yet, where these are more than come in at a time; in sentences for people. None where nothing stands out.

    `no_english` are its words that models do not know as they are written.
    """
    notes = []
    if (subject := subject_of(query)) != query:
        notes.append(f"Searched for “{subject}”.")
    if (language := language_of(subject, no_english)) is not None:
        notes.append(f"This looks like {language}. Models read English alone: ask in English, or search texts alone.")
    elif (word := negation_in(subject)) is not None:
        notes.append(f"“{word}” is hardly understood: what it rules out may be among the pictures.")
    if num_missing > WITHIN_A_MOMENT:
        notes.append(f"{num_missing} pictures that are stored cannot be found yet.")
    return " ".join(notes) or None


def negation_in(query: str) -> str | None:
    """The first word that rules something out, as it was written."""
    for found in re.finditer(r"[\w'’]+", query):
        word = found.group()
        if word.lower() in NEGATIONS or word.lower().replace("’", "'").endswith("n't"):
            return word
    return None


def language_of(query: str, no_english: Collection[str] = ()) -> str | None:
    """Another language than English that a question seems to be in, and None for English, and wherever it cannot be
    told.

    It is told by its letters, or by no English short word and a noun of it, or two or more of its short words, or one
    where another word is no English.
    """
    language, weight = _language_and_weight(query)
    others = {word.lower() for word in no_english} - WORDS_OF_LANGUAGE.get(language, frozenset())
    return language if weight >= (1 if others else 2) else None


def is_in_another_language(query: str) -> bool:
    """Whether a question is surely in another language than English, and no borrowed expression ("la vie en rose")."""
    return _language_and_weight(query)[1] >= SURE


def _language_and_weight(query: str) -> tuple[str, float]:
    """The language that a question is in sooner than in others, and how many of its short words it has, of which a noun
    counts two; none where an English one stands among them, or too few of all words are such."""
    letters = [letter for letter in query if letter.isalpha()]
    beyond_ascii = [letter for letter in letters if not letter.isascii()]
    foreign = [letter for letter in beyond_ascii if not unicodedata.name(letter, "").startswith("LATIN")]
    if len(foreign) > len(letters) / 2:
        return "another language than English", math.inf
    words = set(re.findall(r"\w+", query.lower()))
    counts = {language: len(words & known) for language, known in WORDS_OF_LANGUAGE.items()}
    if counts.pop("English"):
        return "English", 0
    for language, nouns in NOUNS_OF_LANGUAGE.items():
        counts[language] += 2 * len(words & nouns)
    best = max(counts, key=counts.__getitem__)
    return (best, counts[best]) if counts[best] >= LEAST_SHARE * len(words) else ("English", 0)
