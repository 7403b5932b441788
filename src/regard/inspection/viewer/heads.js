/** All heads of a part as small maps. */

import { rove, settle } from "./controls.js";
import { fadeEdges } from "./edges.js";
import { make } from "./elements.js";
import { paint, picture, reduced, scaleTop } from "./maps.js";

/** @typedef {{layer: number|null, head: number|null}} Place null: the average */

const PIXELS = 96; // of a small map, a side
const AT_ONCE = 2_000_000; // numbers that are painted before the page answers; more: bit by bit
const SLICE = 24; // milliseconds, then the page may answer

export class HeadGrid {
  #painted = new Map(); // small maps by what they show, for a document
  #reading = null;
  #waiting = [];
  #timer = null;
  #own = false;

  /**
   * @param {(place: Place, wish: "silence"|"flatten"|"compare"|null) => void} choose a wish has
   * its key
   */
  constructor(choose) {
    this.choose = choose;
    this.grid = make("div", { class: "heads-grid", role: "group" });
    this.element = make("div", { class: "heads" }, this.grid);
    fadeEdges(this.element);
    rove(this.grid, ".head", beside);
    this.grid.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * @param {import("./reading.js").Reading} reading
   * @param {import("./reading.js").Choice} choice
   * @param {{changes: Object[], other: string, own: boolean, colours: Map<string, string>}} options
   * the changes in force; what is said of a head that is needed; whether each map has a scale of
   * its own; the colours of heads that are compared, by `layer.head`
   */
  show(reading, choice, { changes, other, own, colours }) {
    const focused = [...this.grid.querySelectorAll(".head")].indexOf(document.activeElement);
    if (reading !== this.#reading) this.#painted.clear();
    this.#reading = reading;
    this.#own = own;
    this.#waiting = [];
    const { layers, heads } = reading.size(choice.part);
    const tile = (place) => this.#tile(choice, place, { changes, other, colours });
    this.grid.style.setProperty("--across", String(heads > 1 ? heads + 1 : layers));
    this.grid.setAttribute("aria-label", `All heads of ${choice.part} attention`);
    const cells = heads > 1 ? byLayer(reading, choice.part, tile) : inOneRow(layers, tile);
    this.grid.replaceChildren(...cells);
    const tiles = [...this.grid.querySelectorAll(".head")];
    const chosen = tiles.find((tile) => tile.getAttribute("aria-current"));
    settle(this.grid, ".head", tiles[focused] ?? chosen);
    if (focused >= 0) tiles[focused]?.focus();
    this.#paintAll(reading.cells(choice.part) > AT_ONCE);
  }

  /** Whether a head or layer is marked as one that the translation needs. */
  marksSome() {
    return this.grid.querySelector(".matters") !== null;
  }

  /** Paint again, in the colours of the present theme. */
  repaint() {
    for (const canvas of this.grid.querySelectorAll("canvas")) {
      const small = this.#painted.get(canvas.dataset.shows);
      if (small) this.#paint(canvas, small);
    }
  }

  /** Paint what waits: all at once, or bit by bit while the page answers. */
  #paintAll(bit) {
    clearTimeout(this.#timer);
    const until = bit ? performance.now() + SLICE : Infinity;
    while (this.#waiting.length && performance.now() < until) this.#waiting.shift()();
    this.grid.setAttribute("aria-busy", String(this.#waiting.length > 0));
    if (this.#waiting.length) this.#timer = setTimeout(() => this.#paintAll(bit), 4);
  }

  #paint(canvas, small) {
    paint(canvas, small, this.#own ? scaleTop(small.values) : 1);
  }

  /** A canvas with the small map of a place, at once or when its turn comes. */
  #canvas(choice, place) {
    const { part, unit, segments } = choice;
    const shows = JSON.stringify([part, place.layer, place.head, unit, segments]);
    const canvas = make("canvas", { "aria-hidden": "true", "data-shows": shows });
    this.#waiting.push(() => {
      if (!this.#painted.has(shows)) {
        const shown = this.#reading.shown({ ...choice, ...place }, PIXELS);
        this.#painted.set(shows, reduced(picture(shown), PIXELS));
      }
      this.#paint(canvas, this.#painted.get(shows));
    });
    return canvas;
  }

  #tile(choice, place, { changes, other, colours }) {
    const state = stateOf(place, choice.part, changes);
    const single = this.#reading.size(choice.part).heads === 1;
    const here = place.layer === choice.layer && (single || place.head === choice.head);
    const chosen = here && colours.size === 0;
    const colour = colours.get(`${place.layer}.${place.head}`);
    const matters = this.#reading.matters(choice.part, place.layer, place.head);
    const name = placeName(place) + (state ? `, ${STATES[state]}` : "");
    const title = matters ? `${name}; ${other} without it` : name;
    const on = { click: (event) => this.choose(place, wishOf(event)) };
    const attributes = {
      type: "button",
      class: `head ${state ?? ""} ${matters ? "matters" : ""} ${colour ? "compared" : ""}`,
      "aria-label": title,
      "aria-current": chosen ? "true" : null,
      "aria-pressed": colours.size ? String(colour !== undefined) : null,
      title,
      "data-layer": place.layer,
      "data-head": place.head ?? "mean",
    };
    const tile = make("button", { ...attributes, on }, this.#canvas(choice, place));
    if (colour) tile.style.setProperty("--head", colour);
    return tile;
  }

  /** The letters c, s and f compare, silence and flatten the head that has the focus. */
  #key(event) {
    const wish = { c: "compare", s: "silence", f: "flatten" }[event.key.toLowerCase()];
    const tile = event.target.closest(".head");
    if (!wish || !tile || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const { layer, head } = tile.dataset;
    this.choose({ layer: Number(layer), head: head === "mean" ? null : Number(head) }, wish);
  }
}

/** The place of the head that a key leads to: up and down to the layers beside, which may have fewer. */
function beside(key, place, items) {
  const along = { Home: 0, End: items.length - 1, ArrowLeft: place - 1, ArrowRight: place + 1 };
  const step = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (step === undefined) return along[key];
  const ofLayer = (layer) => items.filter((item) => Number(item.dataset.layer) === layer);
  const layer = Number(items[place].dataset.layer);
  const other = ofLayer(layer + step);
  return items.indexOf(other[ofLayer(layer).indexOf(items[place])] ?? other.at(-1));
}

/** A row for each layer: the average of its heads, then each of them. */
function byLayer(reading, part, tile) {
  const { layers, heads } = reading.size(part);
  const header = [caption("corner", "head"), caption("head-name", "mean")];
  for (let head = 0; head < heads; head += 1) header.push(caption("head-name", String(head)));
  const rows = Array.from({ length: layers }, (_, layer) => {
    const own = reading.layer(part, layer).heads;
    const tiles = [null, ...Array(own).keys()].map((head) => tile({ layer, head }));
    const empty = Array.from({ length: heads - own }, () => make("span"));
    return [caption("layer-name", `layer ${layer}`), ...tiles, ...empty];
  });
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
  if (event.ctrlKey || event.metaKey) return "compare";
  return event.altKey ? "flatten" : null;
}
