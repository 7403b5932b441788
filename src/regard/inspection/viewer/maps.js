/** Maps of attention: one large with its words, and many small ones. */

import { alongLine } from "./controls.js";
import { fadeEdges } from "./edges.js";
import { channels, make, percent, pointing } from "./elements.js";
import { sinkNote } from "./words.js";

/** @typedef {{row: number, column: number}} Cell */

const CELL = { least: 12, most: 34, many: 120, tiny: 4 }; // of many columns, cells may be tiny

/**
 * Paint a map into a canvas, a pixel for each weight: the more, the more of the canvas's own
 * colour. Columns that are sinks are painted in the colour of its outline.
 * @param {HTMLCanvasElement} canvas
 * @param {{width: number, height: number, values: Float32Array, sinks: boolean[]}} picture
 * @param {number} top the weight of the full colour
 */
export function paint(canvas, { width, height, values, sinks }, top) {
  canvas.width = Math.max(1, width);
  canvas.height = Math.max(1, height);
  const { color, outlineColor } = getComputedStyle(canvas);
  const [accent, grey] = [channels(color), channels(outlineColor)];
  const pen = canvas.getContext("2d");
  const picture = pen.createImageData(canvas.width, canvas.height);
  for (let cell = 0; cell < values.length; cell += 1) {
    const ink = sinks[cell % width] ? grey : accent;
    for (let channel = 0; channel < 3; channel += 1) picture.data[4 * cell + channel] = ink[channel];
    picture.data[4 * cell + 3] = Math.round(255 * shade(values[cell] / top));
  }
  pen.putImageData(picture, 0, 0);
}

/** How dark a share of the largest weight is drawn, from 0 to 1: the root, to see small ones. */
export function shade(share) {
  return Math.sqrt(Math.min(1, share));
}

/** The largest weight of a map, rounded up to 1, 2 or 5 of a power of ten: the top of its scale. */
export function scaleTop(values) {
  let most = 0;
  for (let cell = 0; cell < values.length; cell += 1) if (values[cell] > most) most = values[cell];
  if (most <= 0 || most > 0.5) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((times) => times * unit).find((top) => most <= top * 1.0001);
}

/** A map as `paint` takes it. */
export function picture({ rows, columns, values }) {
  const sinks = columns.map(({ sink }) => sink !== null);
  return { width: columns.length, height: rows.length, values, sinks };
}

/** The same with at most `size` pixels a side: each is the largest weight of its block. */
export function reduced({ width, height, values, sinks }, size) {
  const [step, drop] = [Math.ceil(width / size) || 1, Math.ceil(height / size) || 1];
  if (step === 1 && drop === 1) return { width, height, values, sinks };
  const [across, down] = [Math.ceil(width / step), Math.ceil(height / drop)];
  const pooled = new Float32Array(across * down);
  for (let row = 0; row < height; row += 1) {
    const first = Math.floor(row / drop) * across;
    for (let column = 0; column < width; column += 1) {
      const block = first + Math.floor(column / step);
      const weight = values[row * width + column];
      if (weight > pooled[block]) pooled[block] = weight;
    }
  }
  const grey = Array.from({ length: across }, (_, block) => sinks[block * step] && step === 1);
  return { width: across, height: down, values: pooled, sinks: grey };
}

/** What the shades of a map stand for. */
export class Scale {
  constructor() {
    this.marks = [0, 1, 2].map(() => make("span"));
    const ramp = make("span", { class: "ramp" });
    this.element = make("div", { class: "scale" }, ramp, ...this.marks);
  }

  /** @param {number} top the weight of the full colour */
  show(top) {
    const weights = [0, top / 4, top]; // shade(1 / 4) = 1 / 2
    this.marks.forEach((mark, place) => (mark.textContent = percent(weights[place])));
  }
}

/** One map with its words along both sides. */
export class HeatMap {
  #shown = { rows: [], columns: [], values: new Float32Array() };
  #cell = null;
  #top = 1;

  /** @param {(cell: Cell|null) => void} point told of the cell that is pointed at */
  constructor(point) {
    this.point = point;
    this.canvas = make("canvas", {
      class: "cells",
      tabindex: "0",
      role: "img",
      "aria-description": "Arrow keys go from weight to weight.",
      on: {
        ...pointing((event) => this.#go(event && this.#under(event))),
        focus: () => this.canvas.matches(":focus-visible") && this.#go({ row: 0, column: 0 }),
        keydown: (event) => this.#step(event),
      },
    });
    this.cursor = make("div", { class: "cursor", hidden: true });
    this.top = make("div", { class: "map-columns", "aria-hidden": "true" });
    this.left = make("div", { class: "map-rows", "aria-hidden": "true" });
    this.scale = new Scale();
    const field = make("div", { class: "field" }, this.canvas, this.cursor);
    this.grid = make("div", { class: "map-grid" }, make("div"), this.top, this.left, field);
    this.element = make("div", { class: "map" }, this.grid, this.scale.element);
    fadeEdges(this.element);
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  /** @param {import("./reading.js").Shown} shown @param {string} name @param {number} top */
  show(shown, name, top) {
    this.#shown = shown;
    this.#top = top;
    this.scale.show(top);
    this.canvas.setAttribute("aria-label", name);
    this.top.replaceChildren(...shown.columns.map(label));
    this.left.replaceChildren(...shown.rows.map(label));
    this.#fit();
    this.repaint();
    this.#go(null);
  }

  /** Paint again, in the colours of the present theme. */
  repaint() {
    paint(this.canvas, picture(this.#shown), this.#top);
  }

  /** Cells as large as the room allows. */
  #fit() {
    const { rows, columns } = this.#shown;
    const room = this.element.clientWidth - this.left.offsetWidth - 8;
    const fair = Math.floor(room / Math.max(1, columns.length));
    const least = columns.length > CELL.many ? CELL.tiny : CELL.least;
    const cell = Math.max(least, Math.min(CELL.most, fair));
    this.element.classList.toggle("unnamed", cell < CELL.least); // too small for letters
    this.grid.style.setProperty("--cell", `${cell}px`);
    this.grid.style.setProperty("--columns", String(columns.length));
    this.grid.style.setProperty("--rows", String(rows.length));
  }

  #under(event) {
    const box = this.canvas.getBoundingClientRect();
    const { rows, columns } = this.#shown;
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns.length);
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows.length);
    const inside = row >= 0 && row < rows.length && column >= 0 && column < columns.length;
    return inside ? { row, column } : null;
  }

  #step(event) {
    const { row, column } = this.#cell ?? { row: 0, column: 0 };
    const { rows, columns } = this.#shown;
    const across = { backward: "ArrowLeft", forward: "ArrowRight" };
    const along = { backward: "ArrowUp", forward: "ArrowDown" };
    const x = alongLine(event.key, column, columns.length, across);
    const turns = event.key.startsWith("Arrow");
    const y = turns ? alongLine(event.key, row, rows.length, along) : undefined;
    if (x === undefined && y === undefined) return;
    event.preventDefault();
    this.#go({ row: y ?? row, column: x ?? column });
  }

  #go(cell) {
    if (cell?.row === this.#cell?.row && cell?.column === this.#cell?.column) return;
    this.#cell = cell;
    this.cursor.hidden = cell === null;
    this.cursor.style.setProperty("--row", String(cell?.row ?? 0));
    this.cursor.style.setProperty("--column", String(cell?.column ?? 0));
    for (const [line, place] of [[this.left, cell?.row], [this.top, cell?.column]]) {
      [...line.children].forEach((name, index) => name.classList.toggle("on", index === place));
    }
    this.point(cell);
  }
}

function label(item) {
  const title = item.sink === null ? item.text : sinkNote(item);
  const kind = `${item.kind === "special" ? "special" : ""} ${item.sink === null ? "" : "sink"}`;
  return make("span", { class: `label ${kind}`, title }, item.text);
}
