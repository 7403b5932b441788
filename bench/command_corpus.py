"""Commands and the actions that they mean: made up, the target four times as long as the source.

In the manner of SCAN (Lake and Baroni 2018), with words of our own: "crawl twice after hop around
left" means "LEFT HOP LEFT HOP LEFT HOP LEFT HOP CRAWL CRAWL". Writes train.source, train.target,
test.source and test.target; no command comes twice.

    python -m bench.command_corpus FOLDER
    regard train --source FOLDER/train.source --target FOLDER/train.target \
        --test FOLDER/test.source,FOLDER/test.target --out runs/commands
"""

import argparse
import random
from pathlib import Path
from typing import NamedTuple

VERBS = ("hop", "crawl", "climb", "shout", "dig", "roll")
SIDES = ("left", "right")
WAYS = ("", "opposite", "around", "around")
"""To turn and act; to turn twice and act; to turn and act four times, which comes more often."""
COUNTS = {"": 1, "twice": 2, "thrice": 3, "fourfold": 4, "sixfold": 6}
JOINTS = ("and", "after")
TRAIN, TEST, SEED = 16_000, 1_000, 1


class Command(NamedTuple):
    """What is said, and what is then done."""

    words: str
    actions: str


def phrase(chance: random.Random) -> Command:
    """A verb with a direction and a count, or without."""
    verb, side = chance.choice(VERBS), chance.choice((*SIDES, *SIDES, *SIDES, ""))
    way = chance.choice(WAYS) if side else ""
    count = chance.choice(list(COUNTS))
    turn = [side.upper()] if side else []
    once = {
        "": [*turn, verb.upper()],
        "opposite": [*turn, *turn, verb.upper()],
        "around": [*turn, verb.upper()] * 4,
    }[way]
    words = " ".join(word for word in (verb, way, side, count) if word)
    return Command(words, " ".join(once * COUNTS[count]))


def command(chance: random.Random) -> Command:
    """One phrase, or two, done in the order that the word between them says."""
    one, other = phrase(chance), phrase(chance)
    joint = chance.choice((*JOINTS, *JOINTS, ""))
    if not joint:
        return one
    order = (one, other) if joint == "and" else (other, one)
    return Command(f"{one.words} {joint} {other.words}", " ".join(part.actions for part in order))


def commands(number: int, seed: int = SEED) -> list[Command]:
    """So many commands, no two alike."""
    chance, found = random.Random(seed), dict[str, Command]()
    while len(found) < number:
        one = command(chance)
        found.setdefault(one.words, one)
    return list(found.values())


def write(folder: Path, *, train: int = TRAIN, test: int = TEST, seed: int = SEED) -> None:
    """Write the four files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = commands(train + test, seed)
    random.Random(seed).shuffle(drawn)  # those drawn late are the rarer, longer ones
    for split, some in (("train", drawn[test:]), ("test", drawn[:test])):
        for side, place in (("source", 0), ("target", 1)):
            lines = "".join(f"{one[place]}\n" for one in some)
            (folder / f"{split}.{side}").write_text(lines, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a corpus of commands and actions.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=TRAIN)
    parser.add_argument("--test", type=int, default=TEST)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    write(given.folder, train=given.train, test=given.test, seed=given.seed)


if __name__ == "__main__":
    main()
