/** Where the nodes of a search tree stand: a column for each step, the winner straight along the top. */

import { legible } from "./reading.js";

const ROW = 30;
const GAP = 26;
const PADDING = 14;
const FONT = "13px system-ui, sans-serif";

/**
 * @typedef {Object} Place
 * @property {number} node
 * @property {number|null} parent
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} depth
 * @property {number|null} rank of the best answer that it leads to; null: to none
 * @property {string} state
 */

/**
 * The places of all nodes, parents before their children.
 * @param {{nodes: Array, answers: number[]}} tree
 * @param {{dropped: boolean}} options whether dropped nodes have a place
 * @returns {{places: Place[], byNode: Map<number, Place>, width: number, height: number}}
 */
export function layOut({ nodes, answers }, { dropped }) {
  const ranks = rankNodes(nodes, answers);
  const children = childLists(nodes, ranks, dropped);
  const places = standInRows(nodes, children, ranks);
  const byNode = new Map(places.map((place) => [place.node, place]));
  const width = standInColumns(places);
  const height = Math.max(...places.map(({ y }) => y)) + ROW / 2 + 4;
  return { places, byNode, width, height };
}

/** For each node the rank of the best answer behind it. */
function rankNodes(nodes, answers) {
  const ranks = nodes.map(() => null);
  answers.forEach((answer, rank) => {
    for (let at = answer; at !== null; at = nodes[at][0]) ranks[at] ??= rank;
  });
  return ranks;
}

/** The children of each node: those that lead to better answers first, then the likelier ones. */
function childLists(nodes, ranks, dropped) {
  const children = nodes.map(() => []);
  nodes.forEach(([parent, , , state], node) => {
    if (parent !== null && (dropped || state !== "dropped")) children[parent].push(node);
  });
  const order = (node) => [ranks[node] ?? Infinity, nodes[node][3] === "dropped", -nodes[node][2]];
  for (const list of children) list.sort((a, b) => byParts(order(a), order(b)));
  return children;
}

/** A leaf has a row of its own; a parent stands in the row of its first child. */
function standInRows(nodes, children, ranks) {
  const places = [];
  let row = 0;
  const visit = (node, depth) => {
    const place = { node, parent: nodes[node][0], depth, rank: ranks[node], state: nodes[node][3] };
    places.push({ ...place, x: 0, width: 0, y: row * ROW + ROW / 2 + 2 });
    children[node].forEach((child, number) => {
      if (number > 0) row += 1;
      visit(child, depth + 1);
    });
  };
  visit(0, 0);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  for (const place of places) {
    place.width = Math.ceil(pen.measureText(legible(nodes[place.node][1])).width) + PADDING;
  }
  return places;
}

/** Give each step a column as wide as its widest piece; what comes back is the width of all. */
function standInColumns(places) {
  const widths = [];
  for (const { depth, width } of places) widths[depth] = Math.max(widths[depth] ?? 0, width);
  const starts = widths.map((_, depth) =>
    widths.slice(0, depth).reduce((sum, width) => sum + width + GAP, 2),
  );
  for (const place of places) place.x = starts[place.depth];
  return starts.at(-1) + widths.at(-1) + 4;
}

function byParts(a, b) {
  const at = a.findIndex((part, place) => part !== b[place]);
  return at < 0 ? 0 : Number(a[at]) - Number(b[at]);
}
