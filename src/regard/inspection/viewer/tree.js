/** The hypotheses of a search as a tree: what was kept, dropped and ended, and what won. */

import { rove, settle, Switch } from "./controls.js";
import { fadeEdges } from "./edges.js";
import { draw, isolated, make, probability, signed } from "./elements.js";
import { Info } from "./info.js";
import { legible } from "./reading.js";
import { layOut } from "./tree_layout.js";

const CROWDED = 240;
const STATES = { kept: "went on", dropped: "was dropped", ended: "ended here" };
const HINT = "Each box is a piece of text; a line leads to what may follow it.";
const INFO =
  "The search writes a translation piece by piece, and keeps only the likeliest beginnings. The log-probability of " +
  "a box is that of all text up to there, as the search found it: not yet corrected for length, as scores are.";
const SIZES = [
  { value: "full", label: "Full size" },
  { value: "fit", label: "Fit", title: "The whole tree at once, in the width of its frame" },
];

export class BeamTree {
  #tree = null;
  #scores = new Map();
  #plan = null;

  constructor() {
    this.dropped = make("input", { type: "checkbox", on: { change: () => this.#draw() } });
    this.readout = make("p", { class: "readout", role: "status" });
    this.picture = make("div", { class: "tree-scroll" });
    this.more = make("p", { class: "more", hidden: true });
    this.left = make("span");
    fadeEdges(this.picture, (sides) => this.#tellMore(sides));
    this.sizes = new Switch("Size of the tree", (size) => this.#resize(size));
    this.sizes.show(SIZES, "full");
    const info = new Info("the search", INFO);
    const title = make("div", { class: "card-title" }, make("h2", {}, "The search"), info.button);
    rove(this.picture, ".node", (key, place) => this.#next(key, place));
    const keys = { won: "the translation", kept: "kept", ended: "ended" };
    const legends = Object.entries(keys).map(([kind, text]) => legend(kind, text));
    const tick = make("label", { class: "tick" }, this.dropped, legend("dropped", "dropped"));
    this.element = make(
      "section",
      { class: "card tree" },
      make("div", { class: "card-head" }, title, this.sizes.element),
      make("p", { class: "hint" }, HINT),
      info.note,
      make("div", { class: "tree-legend" }, ...legends, tick, this.left),
      ...[this.picture, this.more, this.readout],
    );
  }

  /**
   * @param {{nodes: [number|null, string, number, string][], answers: number[]}|null} tree
   * @param {{text: string, score: number}[]} candidates that the answers became, in their order
   */
  show(tree, candidates) {
    this.#tree = tree;
    const scored = ({ score }, rank) => [tree?.answers[rank], signed(score, 2)];
    this.#scores = new Map(candidates.map(scored));
    this.element.hidden = tree === null || tree.nodes.length < 2;
    if (this.element.hidden) return;
    this.dropped.checked = tree.nodes.length <= CROWDED;
    this.#draw();
  }

  #draw() {
    this.#plan = layOut(this.#tree, { dropped: this.dropped.checked });
    const { places, width, height } = this.#plan;
    const size = { width, height, viewBox: `0 0 ${width} ${height}` };
    const name = "Hypotheses of the search, step by step";
    const svg = draw("svg", { class: "tree-drawing", role: "tree", "aria-label": name, ...size });
    const edges = places.filter(({ parent }) => parent !== null).map((place) => this.#edge(place));
    svg.append(draw("g", { "aria-hidden": "true" }, ...edges.sort(wonLast)));
    svg.append(...places.map((place) => this.#node(place)));
    this.picture.replaceChildren(svg);
    settle(this.picture, ".node");
    const hidden = this.#tree.nodes.length - places.length;
    this.left.textContent = hidden ? `(${hidden} not drawn)` : "";
    this.#tell(places.find(({ node }) => node === this.#tree.answers[0]) ?? places[0]);
  }

  /** Show the tree in full size, or as small as its frame is wide. */
  #resize(size) {
    this.picture.classList.toggle("fits", size === "fit");
    this.picture.querySelector(".told")?.scrollIntoView?.({ block: "nearest", inline: "center" });
  }

  #edge({ parent, x, y, rank, state }) {
    const from = this.#plan.byNode.get(parent);
    const bend = (from.end + x) / 2; // behind the column, where it crosses no other box
    const d = `M${from.x + from.width},${from.y} H${from.end} C${bend},${from.y} ${bend},${y} ${x},${y}`;
    return draw("path", { d, class: `edge ${standing(rank, state)}` });
  }

  #node(place) {
    const { node, x, y, width, depth, rank, state } = place;
    const [, piece] = this.#tree.nodes[node];
    const tell = () => this.#tell(place);
    const attributes = {
      class: `node ${standing(rank, state)}`,
      role: "treeitem",
      "aria-level": depth + 1,
      "aria-label": `${legible(piece)}: ${this.#sentence(place)}`, // what is seen comes first
      "data-node": node,
      on: { pointerenter: tell, focus: tell, click: tell },
    };
    const box = draw("rect", { x, y: y - 11, width, height: 22, rx: 6 });
    const text = draw("text", { x: x + width / 2, y, dy: "0.35em" }, legible(piece));
    return draw("g", attributes, box, text);
  }

  /** The tree goes from left to right: that is the way to a child. */
  #next(key, at) {
    const { places } = this.#plan;
    const here = places[at];
    const find = (test) => places.findIndex(test);
    if (key === "ArrowLeft") return find(({ node }) => node === here.parent);
    if (key === "ArrowRight") return find(({ parent }) => parent === here.node);
    const column = places.filter(({ depth }) => depth === here.depth).sort((a, b) => a.y - b.y);
    const step = { ArrowUp: -1, ArrowDown: 1 }[key];
    return step === undefined ? undefined : places.indexOf(column[column.indexOf(here) + step]);
  }

  #tell(place) {
    for (const node of this.picture.querySelectorAll(".node")) {
      node.classList.toggle("told", node.dataset.node === String(place.node));
    }
    this.readout.textContent = this.#sentence(place);
  }

  /** Say that there is more than can be seen at once, and where. */
  #tellMore(sides) {
    const ways = { left: "to the left", right: "to the right", top: "above", bottom: "below" };
    this.more.hidden = sides.length === 0;
    this.more.textContent = `There is more ${sides.map((side) => ways[side]).join(" and ")}: scroll, or use the arrow keys.`;
  }

  #sentence({ node, rank, state }) {
    const [, , logProbability] = this.#tree.nodes[node];
    const chance = Math.exp(logProbability);
    const shown = chance >= 0.001 ? ` (${probability(chance)})` : "";
    const fate = rank === 0 && state === "ended" ? "this is the translation" : STATES[state];
    const likely = `log-probability ${signed(logProbability, 2)}${shown}`;
    const score = this.#scores.has(node) ? `score ${this.#scores.get(node)}` : null;
    const said = prefix(this.#tree.nodes, node);
    return [isolated(said), likely, score, fate].filter((part) => part !== null).join(" · ");
  }
}

/** What a hypothesis says up to a node, its end left out. */
function prefix(nodes, node) {
  const pieces = [];
  for (let at = node; nodes[at][0] !== null; at = nodes[at][0]) pieces.unshift(nodes[at][1]);
  const said = nodes[node][3] === "ended" ? pieces.slice(0, -1) : pieces;
  return said.join("").replaceAll("\u2581", " ").trim() || nodes[node][1];
}

/** The class of a node or an edge. */
function standing(rank, state) {
  if (rank === 0) return `won ${state}`;
  return rank === null ? state : `answer ${state}`;
}

/** What won is drawn over the rest. */
function wonLast(a, b) {
  return Number(a.classList.contains("won")) - Number(b.classList.contains("won"));
}

function legend(kind, text) {
  return make("span", { class: `key ${kind}` }, make("i", { "aria-hidden": "true" }), text);
}
