r"""The list of correctly spelt rare words, made from lists of English words.

    python -m models.conversion.right_words american-english british-english \
      --rarer american-english-large british-english-large

writes it to models/text/right_words.txt.xz, from the lists of SCOWL that Debian packages as wamerican, wbritish and
their -large forms. Of the rarer words, only those of SHORTEST_RARE letters or more are taken: shorter ones are mostly
abbreviations, and as likely misspelt.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from models.compressed_files import write_compressed
from models.text.lexicon import LETTERS, Lexicon
from models.text.pretrained_reader import shipped_reader
from models.text.spellings import RIGHT_FILE, misspelt_words

SHORTEST_RARE = 5
# Words that the lists lack: recent words, food and holidays, common words of other languages that language detection
# knows, and names of people.
MORE = """
airpods aperol app apps boba burka byob chai cosplay covid crocs emoji emojis fitbit floof gopro hijab hijabs holi
hoodie hoverboard ipad iphone keffiyeh lego legos lmao macbook niqab omg onesie pics pix pikachu playstation podcast
pokemon selfie selfies skoda tiki tuk vape vegan vlog wifi xbox
arent cant couldnt didnt doesnt dont hadnt hasnt havent isnt mustnt shouldnt wasnt werent wont wouldnt
chub dace smew tarn shinty padel souk tabla papier gras hola touche skal
acai arancini bao bibimbap biryani bratwurst burrata churros dosa edamame empanada gelato gnocchi gyoza gyros
idli kefir kimchi kombucha laksa lassi macaron macarons matcha mochi moussaka naan nigiri paella panini pavlova pho
poke poutine prosecco quinoa raclette ramen roti saganaki sambal sashimi satay schnitzel shawarma sriracha
tagliatelle tempura teriyaki tikka tiramisu tzatziki udon
bett berge blauer blume boda buch cani chien ente fille fiore gare gato hase haus herbst homem hommes hund junge kissa
lago lune macchina madre mela pesce plaj ptak puppe sonne tuin
agnieszka aisha amelie anke annika anton antje arjun astrid ayse beate bjorn carlotta chiara dieter elke emil emilia
eva fatima finn florian francesca freya gianni gisela giulia greta hanna hannes heike heinz helga hiroshi ilse ines
ingrid jannik jiri jonas jorg jurgen kasia katja kenji lars lena leonie lina lukas luisa manfred marek mateo matteo
mehmet mia milan minka monika nils noemi oskar ole pavel petra priya renate romy sabine sakura sofie soren sven
tereza torsten ulrike uwe valentina wolfgang xavier yuki yusuf zeynep zuzana messi mbappe neymar nguyen
"""


def misjudged(lexicon: Lexicon, words: Iterable[str]) -> list[str]:
    """The sorted words that a lexicon would correct, or take for noise."""
    return [word for word in sorted(set(words)) if lexicon.correction(word) is not None or lexicon.is_noise(word)]


def listed_words(paths: Iterable[Path]) -> list[str]:
    """The words of text files that consist of a to z, in lower case."""
    lines = [line for path in paths for line in path.read_text("utf-8").lower().splitlines()]
    return [word for word in lines if LETTERS.fullmatch(word)]


def write_right_words() -> None:
    """Write the words of the lists and of MORE that the shipped encoder's lexicon misjudges by its rules alone."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("lists", type=Path, nargs="+", help="text files with a word a line")
    arguments.add_argument("--rarer", type=Path, nargs="*", default=[], help="the same for rarer words")
    args = arguments.parse_args()
    rarer = [word for word in listed_words(args.rarer) if len(word) >= SHORTEST_RARE]
    shipped = shipped_reader().lexicon
    by_rules = Lexicon(shipped.words, shipped.num_common)
    words = misjudged(by_rules, [*MORE.split(), *listed_words(args.lists), *rarer])
    lines = [f"{word}\n" for word in words if word not in misspelt_words()]
    write_compressed(RIGHT_FILE, "".join(lines).encode())


if __name__ == "__main__":
    write_right_words()
