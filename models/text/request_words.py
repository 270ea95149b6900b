"""The subject of a question, without the words that only ask: "a dog" of "show me a photo of a dog".

Whatever is searched is a picture, so "a photo of" tells none from another. A model compares such words with regions as
it does all others, though, and finds less by them.
"""

import re
import unicodedata

_OWN = r"(?:a|an|the|some|any|all|my|our|your|more)"
_DETERMINERS = rf"(?:{_OWN}\s+){{0,3}}(?:(?:few|couple\s+of|best|nice|good)\s+)?"
_MEDIA = r"(?:photo|photograph|picture|image|pic|pix|snapshot|snap)s?"
_SHOWING = r"(?:of|showing|depicting|containing|with|(?:on|in)\s+which\s+there\s+(?:is|are)|where\s+there\s+(?:is|are))"
_PICTURES = rf"{_DETERMINERS}{_MEDIA}\s+{_SHOWING}\s+"
_ME = r"(?:me|(?-i:us))"  # "US flags" are no flags for us
_GREETINGS = r"(?:(?:hey|hi|hello|ok(?:ay)?|google|siri|alexa)\b[\s,!.]*)*"
_THEN = rf"(?=\s+(?:{_OWN}|{_MEDIA})\b)"  # "find Nemo" is a title, and "show dogs" are dogs
_REQUESTS = "|".join(
    (
        rf"(?:show|find|give|get)\s+{_ME}",
        r"(?:search|look)(?:ing)?\s+for",
        rf"(?:find|show|display|list|get|search|(?:bring|pull)\s+up){_THEN}",
        r"(?-i:find|show|get|search)(?=\s+(?-i:[A-Z]))",
        rf"(?:can|could|would|will)\s+you\s+(?:please\s+)?(?:show|find|give|get|display|bring\s+up)(?:\s+{_ME})?",
        rf"(?:(?:can|could|may)\s+(?:i|we)|let\s+{_ME}|(?:i|we)(?:\s+would|['’]d)\s+like\s+to|(?:i|we)\s+want\s+to)\s+see",
        rf"(?:i|we)\s+(?:want|need|would\s+like)(?=\s+{_DETERMINERS}{_MEDIA}\b)",
        r"(?:i\s+am|i['’]?m|we\s+are|we['’]re)\s+(?:looking|searching)\s+for",
        r"where(?:\s+is|\s+are|['’]s)",
        r"where\s+did\s+(?:i|we)\s+see",
        r"(?:is|are|was|were)\s+there",
        r"do\s+(?:i|we|you)\s+have",
        r"(?:have\s+(?:i|we|you)\s+)?got\s+(?:any|some)",
        r"have\s+(?:i|we|you)\s+got",
        r"(?:what|how)\s+about",
        rf"(?:which|what)\s+{_MEDIA}\s+(?:has|have|shows?|contains?)",
        rf"(?:in|on)\s+which\s+{_MEDIA}\s+(?:is|are)",
    )
)
_QUESTION = re.compile(rf"\s*(?:{_GREETINGS}(?:please\s+)?(?:{_REQUESTS})\s+)?(?:{_PICTURES})?", re.IGNORECASE)
_END = re.compile(r"[\s,?!.]*(?:\b(?:please|thanks|thank\s+you)\b[\s?!.]*)*$", re.IGNORECASE)


def subject_of(question: str) -> str:
    """The question without words at its beginning that ask for pictures, and "please" at its end, and then without
    its question mark.

    The whole question where nothing asks so, or where no word would be left. Letters of full width, in bold and the
    like are the plain ones that they mean (NFKC).
    """
    question = unicodedata.normalize("NFKC", question)
    asking, thanking = _QUESTION.match(question), _END.search(question)
    begin = asking.end() if asking else 0
    end = thanking.start() if thanking else len(question)
    if not question[:begin].strip() and not re.search(r"\w", question[end:]):
        return question
    subject = question[begin:end]
    return subject if re.search(r"\w", subject) else question
