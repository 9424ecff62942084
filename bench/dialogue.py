"""Synthetic conversations: two people who tell of themselves, and say much that is worth nothing.

Sentences with gaps, drawn by a seed: any number of turns, never the same for long. About two turns
in five tell something that a person would keep.
"""

from __future__ import annotations

import random
from typing import Any

PEOPLE = ("Ada", "Jon", "Mara", "Tomas", "Ines", "Kofi", "Lena", "Ravi", "Sana", "Olaf")
PLACES = ("Bergen", "Lisbon", "Nairobi", "Graz", "Tartu", "Quito", "Leeds", "Osaka")
THINGS = ("cello", "greenhouse", "sailing boat", "camera", "loom", "motorcycle", "telescope")
WORK = ("nurse", "carpenter", "teacher", "pharmacist", "surveyor", "translator", "welder")
FOOD = ("mushrooms", "liquorice", "rye bread", "octopus", "blue cheese", "lentils")
WHEN = ("last week", "yesterday", "in May", "on Friday", "two years ago", "in March 2025")
KIN = ("sister", "brother", "daughter", "cousin", "uncle", "neighbour")

TELLING = (
    "I moved to {place} {when}, and I work there as a {work} now.",
    "My {kin} {person} bought a {thing} {when}.",
    "I can't stand {food}, but my {kin} eats them every day.",
    "We are going to {place} in {month} to visit my {kin} {person}.",
    "I started to learn the {thing} {when}; {person} teaches me on Tuesdays.",
    "Our {kin} {person} got married in {place} {when}.",
    "I gave up the {thing} because my back hurt, so I sold it to {person} for {n} euros.",
    "My doctor said that I must not eat {food} any more.",
    "The parcel for {person} was sent to {place} {when}, its number is {n}.",
    "I have a job interview as a {work} at the hospital in {place} next month.",
)
SAYING = (
    "Oh, that sounds wonderful!",
    "Really? Tell me more about it.",
    "Haha, I know what you mean.",
    "How was your day?",
    "Thanks, that is kind of you to say.",
    "Good morning! Did you sleep well?",
    "Hm, let me think about that for a moment.",
    "Yes, exactly.",
    "I am not sure what to say.",
    "Anyway, talk to you later!",
    "What do you think of {thing}s, by the way?",
    "The weather is awful again today.",
)
MONTHS = ("January", "April", "June", "August", "October", "December")
_TOLD = 0.4


def dialogue(seed: int, turns: int) -> list[dict[str, Any]]:
    """The arguments of ``append`` for so many turns of one conversation."""
    draw = random.Random(seed)
    speakers = draw.sample(PEOPLE, 2)
    return [
        {
            "role": ("user", "assistant")[number % 2],
            "name": speakers[number % 2],
            "content": sentence(draw),
        }
        for number in range(turns)
    ]


def sentence(draw: random.Random) -> str:
    said = draw.choice(TELLING if draw.random() < _TOLD else SAYING)
    return said.format(
        place=draw.choice(PLACES),
        when=draw.choice(WHEN),
        work=draw.choice(WORK),
        kin=draw.choice(KIN),
        person=draw.choice(PEOPLE),
        thing=draw.choice(THINGS),
        food=draw.choice(FOOD),
        month=draw.choice(MONTHS),
        n=draw.randrange(100, 10_000),
    )
