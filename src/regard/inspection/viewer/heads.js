/** All heads of a part as small maps. */

import { rove, settle } from "./controls.js";
import { fadeEdges } from "./edges.js";
import { make } from "./elements.js";
import { paint } from "./maps.js";

/** @typedef {{layer: number|null, head: number|null}} Place null: the average */

export class HeadGrid {
  #painted = [];
  #width = 1;

  /** @param {(place: Place, wish: "silence"|"flatten"|null) => void} choose a wish has its key */
  constructor(choose) {
    this.choose = choose;
    this.grid = make("div", { class: "heads-grid", role: "group" });
    this.element = make("div", { class: "heads" }, this.grid);
    fadeEdges(this.element);
    rove(this.grid, ".head", (key, place, items) => this.#next(key, place, items.length));
    this.grid.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * @param {import("./reading.js").Reading} reading
   * @param {import("./reading.js").Choice} choice
   * @param {Object[]} changes in force
   * @param {string} other what is said of a head that is needed
   */
  show(reading, choice, changes, other) {
    const focused = [...this.grid.querySelectorAll(".head")].indexOf(document.activeElement);
    const { layers, heads } = reading.size(choice.part);
    const tile = (place) => this.#tile(reading, choice, changes, place, other);
    this.#painted = [];
    this.#width = heads > 1 ? heads + 1 : layers;
    this.grid.style.setProperty("--across", String(this.#width));
    this.grid.setAttribute("aria-label", `All heads of ${choice.part} attention`);
    const cells = heads > 1 ? byLayer(layers, heads, tile) : inOneRow(layers, tile);
    this.grid.replaceChildren(...cells);
    const tiles = [...this.grid.querySelectorAll(".head")];
    const chosen = tiles.find((tile) => tile.getAttribute("aria-current"));
    settle(this.grid, ".head", tiles[focused] ?? chosen);
    if (focused >= 0) tiles[focused]?.focus();
    this.repaint();
  }

  /** Whether a head or layer is marked as one that the translation needs. */
  marksSome() {
    return this.grid.querySelector(".matters") !== null;
  }

  /** Paint again in the colours of now. */
  repaint() {
    for (const { canvas, shown } of this.#painted) paint(canvas, shown);
  }

  #tile(reading, choice, changes, place, other) {
    const shown = reading.shown({ ...choice, ...place });
    const canvas = make("canvas", { "aria-hidden": "true" });
    this.#painted.push({ canvas, shown });
    const state = stateOf(place, choice.part, changes);
    const single = reading.size(choice.part).heads === 1;
    const chosen = place.layer === choice.layer && (single || place.head === choice.head);
    const matters = reading.matters(choice.part, place.layer, place.head);
    const name = placeName(place) + (state ? `, ${STATES[state]}` : "");
    const title = matters ? `${name}; ${other} without it` : name;
    const on = { click: (event) => this.choose(place, wishOf(event)) };
    const attributes = {
      type: "button",
      class: `head ${state ?? ""} ${matters ? "matters" : ""}`,
      "aria-label": title,
      "aria-current": chosen ? "true" : null,
      title,
      "data-layer": place.layer,
      "data-head": place.head ?? "mean",
    };
    return make("button", { ...attributes, on }, canvas);
  }

  #next(key, place, count) {
    const width = this.#width;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
    if (key in steps) return place + steps[key];
    return { Home: 0, End: count - 1 }[key];
  }

  /** The letters s and f silence and flatten the head that has the focus. */
  #key(event) {
    const wish = { s: "silence", f: "flatten" }[event.key];
    const tile = event.target.closest(".head");
    if (!wish || !tile || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const { layer, head } = tile.dataset;
    this.choose({ layer: Number(layer), head: head === "mean" ? null : Number(head) }, wish);
  }
}

/** A row for each layer: the average of its heads, then each of them. */
function byLayer(layers, heads, tile) {
  const header = [caption("corner", "head"), caption("head-name", "mean")];
  for (let head = 0; head < heads; head += 1) header.push(caption("head-name", String(head)));
  const rows = Array.from({ length: layers }, (_, layer) => [
    caption("layer-name", `layer ${layer}`),
    ...[null, ...Array(heads).keys()].map((head) => tile({ layer, head })),
  ]);
  return [...header, ...rows.flat()];
}

/** Layers of one head each, side by side. */
function inOneRow(layers, tile) {
  const numbers = [...Array(layers).keys()];
  const header = numbers.map((layer) => caption("head-name", String(layer)));
  const tiles = numbers.map((layer) => tile({ layer, head: 0 }));
  return [caption("corner", "layer"), ...header, caption("layer-name", ""), ...tiles];
}

function caption(kind, text) {
  return make("span", { class: kind, "aria-hidden": "true" }, text);
}

export const STATES = { silence: "silenced", flatten: "flattened" };

/** `layer 0, head 3`, as people read it. */
export function placeName({ layer, head }) {
  if (layer === null && head === null) return "average of all layers and heads";
  if (head === null) return `layer ${layer}, all heads`;
  if (layer === null) return `head ${head}, all layers`;
  return `layer ${layer}, head ${head}`;
}

/** What has been done to a head: by itself or with all of its layer. */
function stateOf({ layer, head }, part, changes) {
  const covers = (change) => change.head === head || (change.head ?? null) === null;
  const here = changes.filter((change) => change.part === part && change.layer === layer);
  return here.find(covers)?.kind ?? null;
}

function wishOf(event) {
  if (event.shiftKey) return "silence";
  return event.altKey ? "flatten" : null;
}
