/** What is seen, in words: for the line below the picture and for those who do not see it. */

import { isolated, percent } from "./elements.js";
import { isEven } from "./words.js";

const NAMED = 4;
const NAMED_OF_HEAD = 2;
const LEAST = 0.03;
const THICK = "the thicker a line, the more the word looked there";
const THIN = "no word looked at another enough for a line";

/** What one word looked at, or who looked at it. */
export function spotSentence(shown, spot) {
  const { rows, columns } = shown;
  const own = (spot.side === "row" ? rows : columns)[spot.index];
  const meant = meantBy(shown, spot, shown.values);
  const verb = spot.side === "row" ? "looked at" : "was looked at by";
  const even = evenly(meant);
  if (even) return `“${isolated(own.text)}” ${verb} ${even}.`;
  const rest = spot.side === "row" ? restOf(meant) : sinkOf(own);
  return `“${isolated(own.text)}” ${verb} ${listed(meant, NAMED) || "nothing in particular"}${rest}.`;
}

/** The same of heads that are compared, the strongest of each. */
export function bandSentence(shown, spot, bands) {
  const own = (spot.side === "row" ? shown.rows : shown.columns)[spot.index];
  const verb = spot.side === "row" ? "looked at" : "was looked at by";
  const told = bands.map(({ name, values }) => {
    const meant = meantBy(shown, spot, values);
    return `${name}: ${evenly(meant) ?? (listed(meant, NAMED_OF_HEAD) || "nothing in particular")}`;
  });
  return `“${isolated(own.text)}” ${verb} · ${told.join(" · ")}`;
}

/** The words on the other side of a spot, with its weights. */
function meantBy({ rows, columns }, { side, index }, values) {
  const others = side === "row" ? columns : rows;
  const place = (other) =>
    side === "row" ? index * columns.length + other : other * columns.length + index;
  return others.map(({ text, sink }, other) => ({ text, sink, weight: values[place(other)] }));
}

/** The greatest weights, in words. */
function listed(meant, count) {
  const named = meant.filter(({ sink, weight }) => sink === null && weight >= LEAST);
  return named.toSorted((a, b) => b.weight - a.weight).slice(0, count).map(share).join(", ");
}

/** That all words were looked at alike; null if they were not. */
function evenly(meant) {
  const weights = meant.map(({ weight }) => weight);
  const seen = weights.filter((weight) => weight > 0);
  if (seen.length <= NAMED || !isEven(weights)) return null;
  const mean = seen.reduce((total, weight) => total + weight, 0) / seen.length;
  return `${seen.length} words alike, ${percent(mean)} each`;
}

/** One weight of a map. */
export function cellSentence({ rows, columns, values }, { row, column }) {
  const weight = values[row * columns.length + column];
  const seen = columns[column];
  return `“${isolated(rows[row].text)}” looked at “${isolated(seen.text)}”: ${percent(weight)}${sinkOf(seen)}.`;
}

/**
 * What is shown while no word is pointed at.
 * @param {import("./reading.js").Choice & {picture: string}} choice
 * @param {Object} drawn
 * @param {Object|null} drawn.alignment whose links are drawn; null: the weights of the choice are
 * @param {boolean} drawn.anyLine whether a weight is great enough to be drawn
 * @param {boolean} drawn.even whether all weights are alike
 * @param {import("./words.js").Band[]} drawn.bands heads that are compared
 * @param {number} drawn.top the weight of the thickest line
 */
export function restingSentence(choice, { alignment, anyLine, even, bands, top }) {
  const map = `${who(choice)}: the stronger a colour, the more a row looked at a column.`;
  if (choice.picture === "map") return sentence(map);
  const point = "Point at a word, or tap it, to see all that it looked at.";
  if (bands.length) {
    return `Each colour is a head; the stronger a line, up to ${percent(top)}, the more the word looked there. ${point}`;
  }
  if (even) return `${sentence(who(choice))}: every word looked at all others alike, so no line stands out. ${point}`;
  const lines = alignment
    ? `each line joins two words that belong together, judged by ${who(alignment)}.`
    : `${who(choice)}: ${anyLine ? THICK : THIN}${top < 1 ? `; the thickest is ${percent(top)}` : ""}.`;
  return `${sentence(lines)} ${point}`;
}

/** Whose attention it is; an absent layer or head (null) stands for the average. */
export function who({ layer, head }) {
  if (layer === null && head === null) return "the average of all layers and heads";
  if (head === null) return `layer ${layer}, the average of its heads`;
  if (layer === null) return `head ${head}, the average of all layers`;
  return `layer ${layer}, head ${head}`;
}

function sentence(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function share({ text, weight }) {
  return `${isolated(text)} ${percent(weight)}`;
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
