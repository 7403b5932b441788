/** What the controls of the viewer offer. */

/** Stands for the average in a menu of layers or heads. */
export const ALL = "all";

export const UNITS = [
  { value: "words", label: "Words", title: "Pieces of a word together" },
  { value: "pieces", label: "Pieces", title: "What the model reads and answers" },
];
export const PICTURES = [
  { value: "lines", label: "Lines" },
  { value: "map", label: "Map" },
  { value: "neurons", label: "Query × key", title: "The numbers that one piece's look at another is made of" },
];
export const SCALES = [
  { value: "same", label: "One scale", title: "The strongest colour is a share of 100% in every small map" },
  { value: "own", label: "Own scales", title: "The strongest colour of each small map is its own largest share" },
];
export const WISHES = {
  look: { value: "look", label: "Look", title: "A click on a map shows it above" },
  compare: { value: "compare", label: "Compare", title: "A click adds the head to those drawn above" },
  silence: { value: "silence", label: "Silence", title: "A click lets the head see nothing" },
  flatten: { value: "flatten", label: "Flatten", title: "A click lets it see all alike" },
};
export const HEADS_INFO =
  "A model looks several times at once: each layer has several heads, and each has its own way of looking. " +
  "A row of a small map is a word that looks, a column one that is looked at: the stronger the colour, the more. " +
  "The column “mean” is the average of a layer's heads. ";
/** `layer 1, heads 0, 3`: the layers in order. */
export function headsName(heads) {
  const layers = [...new Set(heads.map(([layer]) => layer))].sort((a, b) => a - b);
  const named = layers.map((layer) => {
    const own = heads.filter(([other]) => other === layer).map(([, head]) => head);
    return `layer ${layer}, ${own.length > 1 ? "heads" : "head"} ${own.sort((a, b) => a - b).join(", ")}`;
  });
  return named.join("; ");
}

/** The layer or head of an option; null: the average. */
export function numberOf(value) {
  return value === ALL ? null : Number(value);
}

/** Options for each of `count` layers or heads, and for their average; none if there is one. */
export function numbered(count, averages = true) {
  if (count < 2) return [];
  const numbers = [...Array(count).keys()].map(String);
  const options = numbers.map((value) => ({ value, label: value }));
  return averages ? [{ value: ALL, label: "average" }, ...options] : options;
}

/** From which sentence to which, where a side has several. */
export function segmentOptions({ rows, columns }) {
  if (rows.length < 2 && columns.length < 2) return [];
  const pairs = rows.flatMap((one, from) => columns.map((other, to) => ({ one, other, value: [from, to] })));
  const options = pairs.map(({ one, other, value }) => ({
    value: JSON.stringify(value),
    label: `${one.name} → ${other.name}`,
  }));
  return [{ value: JSON.stringify([null, null]), label: "all" }, ...options];
}
