"""The subject of a question, without the words that only ask: "a dog" of "show me a photo of a dog".

Whatever is searched is a picture, so "a photo of" tells none from another. A model compares such words with regions as
it does all others, though, and finds less by them.
"""

import re

_DETERMINERS = r"(?:(?:a|an|the|some|any|all|my|our|more)\s+){0,3}"
_MEDIA = r"(?:photo|photograph|picture|image|pic|snapshot)s?"
_PICTURES = rf"{_DETERMINERS}{_MEDIA}\s+(?:of|showing|depicting)\s+"
_REQUESTS = "|".join(
    (
        # "US flags" are no flags for us, and "Find Nemo" is a title.
        r"(?:please\s+)?(?:show|find|give|get)\s+(?:me|(?-i:us))",
        r"(?:please\s+)?(?:search|look)\s+for",
        rf"(?:please\s+)?find(?=\s+(?:an?|the|some|any|all|my|our|{_MEDIA})\b)",
        rf"(?:i|we)\s+(?:want|would\s+like)(?:\s+to\s+see|(?=\s+{_DETERMINERS}{_MEDIA}\b))",
        r"(?:i\s+am|i['’]m|we\s+are|we['’]re)\s+looking\s+for",
        r"(?:is|are)\s+there",
        r"do\s+(?:i|we|you)\s+have",
    )
)
_QUESTION = re.compile(rf"\s*(?:(?:{_REQUESTS})\s+)?(?:{_PICTURES})?", re.IGNORECASE)


def subject_of(question: str) -> str:
    """The question without words at its beginning that ask for pictures, and then without its question mark.

    The question itself where nothing asks so, or where no word would be left.
    """
    asking = _QUESTION.match(question)
    if asking is None or not asking.group().strip():
        return question
    subject = question[asking.end() :].rstrip(" ?\t\n")
    return subject if re.search(r"\w", subject) else question
