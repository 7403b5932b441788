/** Where the nodes of a search tree stand: a column for each step, the winner along the top. */

import { legible } from "./reading.js";

const ROW = 30;
const GAP = 26;
const PADDING = 14;
const FONT = "13px system-ui, sans-serif";

/**
 * `rank` is that of the best answer that the node leads to; null: to none.
 * @typedef {{node: number, parent: number|null, depth: number, state: string}} Node
 * `end` is that of its column.
 * @typedef {Node & {x: number, y: number, width: number, end: number, rank: number|null}} Place
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

/** For each node the rank of the best answer that it leads to. */
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

/**
 * A branch, which goes on by first children, stands in one row: the highest below its parent that
 * has room for it.
 */
function standInRows(nodes, children, ranks) {
  const places = [];
  const taken = []; // for each row, the depths at which something stands or a branch begins
  const branches = [{ first: 0, depth: 0, above: -1 }];
  while (branches.length) {
    const { first, depth, above } = branches.shift();
    const branch = chain(children, first);
    const row = freeRow(taken, above + 1, depth - 1, depth + branch.length);
    branch.forEach((node, step) => {
      const [parent, piece, , state] = nodes[node];
      const y = row * ROW + ROW / 2 + 2;
      const place = { node, parent, x: 0, y, depth: depth + step, rank: ranks[node], state };
      places.push({ ...place, width: widthOf(piece) });
      for (const child of children[node].slice(1)) {
        branches.push({ first: child, depth: depth + step + 1, above: row });
      }
    });
  }
  return places.sort((a, b) => a.depth - b.depth || a.y - b.y);
}

/** A node and the first child of each in turn. */
function chain(children, first) {
  const nodes = [];
  for (let at = first; at !== undefined; at = children[at][0]) nodes.push(at);
  return nodes;
}

/** The first row from `row` on whose depths from `start` to before `stop` are free; takes them. */
function freeRow(taken, row, start, stop) {
  const depths = Array.from({ length: stop - start }, (_, step) => start + step);
  taken[row] ??= new Set();
  if (depths.some((depth) => taken[row].has(depth))) return freeRow(taken, row + 1, start, stop);
  for (const depth of depths) taken[row].add(depth);
  return row;
}

function widthOf(piece) {
  widthOf.pen ??= document.createElement("canvas").getContext("2d");
  widthOf.pen.font = FONT;
  return Math.ceil(widthOf.pen.measureText(legible(piece)).width) + PADDING;
}

/** Give each step a column as wide as its widest piece; what comes back is the width of all. */
function standInColumns(places) {
  const widths = [];
  for (const { depth, width } of places) widths[depth] = Math.max(widths[depth] ?? 0, width);
  const start = (depth) => widths.slice(0, depth).reduce((sum, width) => sum + width + GAP, 2);
  const starts = widths.map((_, depth) => start(depth));
  for (const place of places) {
    place.x = starts[place.depth];
    place.end = place.x + widths[place.depth];
  }
  return starts.at(-1) + widths.at(-1) + 4;
}

function byParts(a, b) {
  const at = a.findIndex((part, place) => part !== b[place]);
  return at < 0 ? 0 : Number(a[at]) - Number(b[at]);
}
