/** What is seen, in words: for the line below the picture and for those who do not see it. */

import { percent } from "./elements.js";

const NAMED = 4;
const LEAST = 0.03;
const THICK = "the thicker a line, the more the word looked there";
const THIN = "no word looked at another enough for a line";

/** What one word looked at, or who looked at it. */
export function spotSentence({ rows, columns, values }, { side, index }) {
  const [own, others] = side === "row" ? [rows, columns] : [columns, rows];
  const place = (other) =>
    side === "row" ? index * columns.length + other : other * columns.length + index;
  const weights = others.map((_, other) => values[place(other)]);
  const meant = others.map(({ text, sink }, other) => ({ text, sink, weight: weights[other] }));
  const named = meant.filter(({ sink, weight }) => sink === null && weight >= LEAST);
  const ranked = named.toSorted((a, b) => b.weight - a.weight).slice(0, NAMED);
  const listed = ranked.map(share).join(", ");
  const verb = side === "row" ? "looked at" : "was looked at by";
  const rest = side === "row" ? restOf(meant) : sinkOf(own[index]);
  return `“${own[index].text}” ${verb} ${listed || "nothing in particular"}${rest}.`;
}

/** One weight of a map. */
export function cellSentence({ rows, columns, values }, { row, column }) {
  const weight = values[row * columns.length + column];
  const seen = columns[column];
  return `“${rows[row].text}” looked at “${seen.text}”: ${percent(weight)}${sinkOf(seen)}.`;
}

/**
 * What is shown while no word is pointed at.
 * @param {import("./reading.js").Choice} choice
 * @param {Object|null} alignment whose links are drawn; null: the weights of the choice are
 * @param {boolean} anyLine whether a weight is great enough to be drawn
 */
export function restingSentence(choice, alignment, anyLine) {
  const map = `${who(choice)}: the stronger a colour, the more a row looked at a column.`;
  if (choice.picture === "map") return sentence(map);
  const lines = alignment
    ? `each line joins two words that belong together, judged by ${who(alignment)}.`
    : `${who(choice)}: ${anyLine ? THICK : THIN}.`;
  return `${sentence(lines)} Point at a word, or tap it, to see all that it looked at.`;
}

/** Whose attention it is; an absent layer or head (null) stands for the average. */
function who({ layer, head }) {
  if (layer === null && head === null) return "the average of all layers and heads";
  if (head === null) return `layer ${layer}, the average of its heads`;
  if (layer === null) return `head ${head}, the average of all layers`;
  return `layer ${layer}, head ${head}`;
}

function sentence(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function share({ text, weight }) {
  return `${text} ${percent(weight)}`;
}

/** What rested on sinks, and what went to no word. */
function restOf(meant) {
  const parked = meant.filter(({ sink, weight }) => sink !== null && weight >= LEAST);
  const resting = parked.length ? `; resting on ${parked.map(share).join(", ")}` : "";
  const lost = 1 - meant.reduce((total, { weight }) => total + weight, 0);
  return resting + (lost >= LEAST ? `; ${percent(lost)} on no word` : "");
}

function sinkOf({ sink }) {
  return sink === null ? "" : ", a sink: attention rests here whatever the word";
}
