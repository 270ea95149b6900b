"""Sentences of photographs that nobody described: somebody does something somewhere, drawn from short lists.

A bank against hubs needs many ordinary sentences, and those of a training set may not be passed on with the weights.
These may. How much of what training captions would do they do stands in docs/calibration.md.
"""

import numpy as np

WHO = """a man/a woman/a boy/a girl/a young child/a baby/two men/two women/two boys/two girls/a group of people/
several children/a crowd/a black dog/a brown dog/a white dog/two dogs/a small dog/three dogs/a big dog/a person/
a couple/an old man/a cyclist/a skateboarder/a surfer/a snowboarder/a climber/a football player/a basketball player/
a family/a toddler/some teenagers/a bird/a horse/a cat"""
LOOKS = """in a red shirt/in a blue jacket/wearing a hat/in a yellow coat/wearing sunglasses/in black/
in a white dress/in swimming trunks/wearing a helmet/in a striped shirt/in a uniform/with a backpack/in pink/
with long hair/in green"""
DOES = """running/jumping/standing/sitting/walking/playing/swimming/climbing a rock/riding a bicycle/
riding a motorcycle/doing a trick on a skateboard/surfing a wave/catching a frisbee/chasing a ball/carrying a stick/
holding a camera/smiling/talking/dancing/eating/sleeping/splashing/jumping over a hurdle/kicking a soccer ball/
playing basketball/playing a guitar/taking a picture/looking at something/waiting/sliding down a slide/
swinging on a swing/skiing/snowboarding/throwing a ball/fighting over a toy/digging/paddling a kayak/fishing/
posing for a picture/reading a book"""
WHERE = """in the water/on the beach/in the snow/on a street/in a park/on the grass/in a field/on a mountain/
in front of a building/in a pool/at night/on a bench/in a crowd/in the woods/on a dirt track/near a fence/
in a kitchen/on a stage/on a couch/at a table/by a lake/in the sand/on a ramp/in the air/through the leaves/
on a rock/in a river/inside a room/on a sidewalk/under a tree/at a parade/in a stadium/on a trampoline/in the city"""
MANY = ("two", "three", "several", "some")


def made_up(num: int, seed: int = 0) -> list[str]:
    """`num` different sentences, the same for the same seed; the first of more are those of fewer."""
    random = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < num:
        found[_sentence(random)] = None
    return list(found)


def _sentence(random: np.random.Generator) -> str:
    """One of about 2 million, with or without looks, verb, doing, place and full stop, as captions are."""
    who, looks, does, where = (
        str(random.choice(listed.replace("\n", "").split("/"))) for listed in (WHO, LOOKS, DOES, WHERE)
    )
    dressed, form, stopped = random.random() < 0.4, random.random(), random.random() < 0.5
    verb = "are" if who.split()[0] in MANY else "is"
    parts = [who, looks * dressed, verb * (form < 0.5), does * (form < 0.9), where * (form > 0.15), "." * stopped]
    return " ".join(part for part in parts if part)
