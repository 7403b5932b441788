"""The files that recorded commands read: those of the table of cases, and some that are made."""

import json
from collections.abc import Mapping
from pathlib import Path

from PIL import Image, ImageDraw

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="fr" segtype="sentence" datatype="plaintext" adminlang="en"
creationtool="x" creationtoolversion="1" o-tmf="x"/><body>
{}</body></tmx>
"""


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts, pairs in four formats, labels, dialogues, and folders of coloured shapes."""
    pairs = [
        (f"{who} achète {number} {what}.", f"{who} buys {number} {thing}.")
        for who in ("Jane", "Paul", "Emma", "Marc")
        for number in (2, 3, 4, 5)
        for what, thing in (("cartes", "maps"), ("billets", "tickets"), ("livres", "books"))
    ]
    unit = '<tu><tuv xml:lang="fr"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>{}</seg></tuv></tu>\n'
    labels = [("french" if text in pair[0] else "english", text) for pair in pairs for text in pair]
    made = {
        "many.fr": "".join(f"{french}\n" for french, _ in pairs),
        "many.en": "".join(f"{english}\n" for _, english in pairs),
        "many.csv": "fr,en\n" + "".join(f"{french},{english}\n" for french, english in pairs),
        "many.tmx": TMX.format("".join(unit.format(*pair) for pair in pairs)),
        "labels.tsv": "".join(f"{label}\t{text}\n" for label, text in labels),
    }
    for name, text in {**files, **made}.items():
        (folder / name).write_text(text, encoding="utf-8")
    with (folder / "chat.jsonl").open("w") as file:
        for thing in ("tea", "rain", "cats", "snow", "bread", "songs"):
            for town in ("Rome", "Oslo", "Bern", "Riga", "Lima"):
                turns = [f"Do you like {thing} in {town}?"]
                answers = [f"Yes, I like {thing}.", f"No, never {thing}."]
                file.write(json.dumps({"turns": turns, "answers": answers}) + "\n")
    for colour in ("red", "blue", "green"):
        (folder / "shapes" / colour).mkdir(parents=True, exist_ok=True)
        for number in range(10):
            picture = Image.new("RGB", (24, 24), "white")
            at = [number, 3, number + 12, 15]
            ImageDraw.Draw(picture).rectangle(at, fill=colour)
            picture.save(folder / "shapes" / colour / f"{number}.png")
    Image.new("RGB", (40, 12), "red").save(folder / "wide.png")
    picture.resize((48, 48)).save(folder / "green.png")
    (folder / "torn.png").write_bytes((folder / "wide.png").read_bytes()[:40])
