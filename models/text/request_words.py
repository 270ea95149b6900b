"""The subject of a question, without the words of the request: "a dog" for "show me a photo of a dog".

Everything searched is a picture, so "a photo of" distinguishes none. But a model compares such words with regions like
any others, and finds less.
"""

import re
import unicodedata
from functools import lru_cache

_OWN = r"(?:a|an|the|some|any|all|my|our|your|more)"
_DETERMINERS = rf"(?:{_OWN}\s+){{0,3}}(?:(?:few|couple\s+of|best|nice|good)\s+)?"
_MEDIA = r"(?:photo|photograph|picture|image|pic|pix|snapshot|snap)s?"
_SHOWING = r"(?:of|showing|depicting|containing|(?:on|in)\s+which\s+there\s+(?:is|are)|where\s+there\s+(?:is|are))"
_PICTURES = rf"{_DETERMINERS}{_MEDIA}\s+{_SHOWING}\s+"
_ME = r"(?:me|(?-i:us))"  # "US flags" are not "flags for us"
_GREETINGS = r"(?:(?:hey|hi|hello|ok(?:ay)?|google|siri|alexa)\b[\s,!.]*)*"
_THEN = rf"(?=\s+(?:{_OWN}|{_MEDIA})\b)"  # not for the title "Find Nemo" or "show dogs"
_REQUESTS_FOR_PICTURES = "|".join(
    (
        rf"(?:show|find|give|get)\s+{_ME}",
        r"(?:search|look)(?:ing)?\s+for",
        rf"(?:find|show|display|search|(?:bring|pull)\s+up){_THEN}",
        r"(?-i:find)(?=\s+(?-i:[A-Z]))",  # Minka
        rf"(?:can|could|would|will)\s+you\s+(?:please\s+)?(?:show|find|give|get|display|bring\s+up)(?:\s+{_ME})?",
        rf"(?:(?:can|could|may)\s+(?:i|we)|let\s+{_ME}|(?:i|we)(?:\s+would|['’]d)\s+like\s+to|(?:i|we)\s+want\s+to)\s+see",
        rf"(?:i|we)\s+(?:want|need|would\s+like)(?=\s+{_DETERMINERS}{_MEDIA}\b)",
        r"(?:i\s+am|i['’]?m|we\s+are|we['’]re)\s+(?:looking|searching)\s+for",
        r"(?:is|are|was|were)\s+there",
        r"do\s+(?:i|we|you)\s+have",
        r"(?:have\s+(?:i|we|you)\s+)?got\s+(?:any|some)",
        r"have\s+(?:i|we|you)\s+got",
        r"(?:what|how)\s+about",
    )
)
_OTHER_REQUESTS = "|".join(
    (
        r"where(?:\s+is|\s+are|['’]s)",
        r"where\s+did\s+(?:i|we)\s+see",
        rf"(?:which|what)\s+{_MEDIA}\s+(?:has|have|shows?|contains?)",
        rf"(?:in|on)\s+which\s+{_MEDIA}\s+(?:is|are)",
    )
)
# "With" belongs to the request only after words that ask: a picture may show "photos with frames".
_WITH = rf"(?:{_DETERMINERS}{_MEDIA}\s+with\s+(?!(?:and|or)\b))?"
_ASKING = rf"(?:(?:{_REQUESTS_FOR_PICTURES})\s+{_WITH}|(?:{_OTHER_REQUESTS})\s+)"
_REQUEST = rf"{_GREETINGS}(?:please\s+)?{_ASKING}"
_QUESTION = re.compile(rf"\s*(?:{_REQUEST})?(?:{_PICTURES})?", re.IGNORECASE)
_END = re.compile(r"[\s,?!.]*(?:\b(?:please|thanks|thank\s+you)[\s?!.]*)?$", re.IGNORECASE)
_LONGEST_END = 20  # characters that are removed at the end


@lru_cache(256)
def subject_of(question: str) -> str:
    """The question without words at its beginning that ask for pictures.

    After such a request, or a comma, a "please" at the end and the question mark are also removed. The result is the
    whole question if it makes no request, or if no word would be left. Full-width, bold and similar letters become
    plain ones (NFKC).
    """
    question = unicodedata.normalize("NFKC", question)
    asking = _QUESTION.match(question)
    begin = asking.end() if asking else 0
    is_request = bool(question[:begin].strip())
    last = question[begin:].rstrip()
    thanking = _END.search(last, max(0, len(last) - _LONGEST_END))
    thanks = thanking.group() if thanking else ""
    is_over = is_request or (thanks.lstrip().startswith(",") and re.search(r"\w", thanks))
    subject = last[: thanking.start()] if thanking and is_over else question[begin:]
    return subject if re.search(r"\w", subject) else question
