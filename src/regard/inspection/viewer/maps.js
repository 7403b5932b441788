/** Maps of attention: one large with its words, and many small ones. */

import { alongLine } from "./controls.js";
import { fadeEdges } from "./edges.js";
import { make } from "./elements.js";
import { sinkNote } from "./words.js";

/** @typedef {{row: number, column: number}} Cell */

const CELL = { least: 9, most: 34 };

/**
 * Paint a map into a canvas, a pixel for each weight: the more, the more of the canvas's own
 * colour. Columns that are sinks are painted in the colour of its outline.
 * @param {HTMLCanvasElement} canvas
 * @param {import("./reading.js").Shown} shown
 */
export function paint(canvas, { rows, columns, values }) {
  canvas.width = Math.max(1, columns.length);
  canvas.height = Math.max(1, rows.length);
  const { color, outlineColor } = getComputedStyle(canvas);
  const [accent, grey] = [channels(color), channels(outlineColor)];
  const pen = canvas.getContext("2d");
  const picture = pen.createImageData(canvas.width, canvas.height);
  values.forEach((weight, cell) => {
    const ink = columns[cell % columns.length].sink === null ? accent : grey;
    picture.data.set([...ink, Math.round(255 * shade(weight))], 4 * cell);
  });
  pen.putImageData(picture, 0, 0);
}

/** How dark a weight is drawn, from 0 to 1: the root, so that small weights can be seen. */
export function shade(weight) {
  return Math.sqrt(Math.min(1, weight));
}

/** One map with its words along both sides. */
export class HeatMap {
  #shown = { rows: [], columns: [], values: new Float32Array() };
  #cell = null;

  /** @param {(cell: Cell|null) => void} point told of the cell that is pointed at */
  constructor(point) {
    this.point = point;
    this.canvas = make("canvas", {
      class: "cells",
      tabindex: "0",
      role: "img",
      "aria-description": "Arrow keys go from weight to weight.",
      on: {
        pointermove: (event) => this.#go(this.#under(event)),
        pointerdown: (event) => this.#go(this.#under(event)),
        pointerleave: () => this.#go(null),
        blur: () => this.#go(null),
        focus: () => this.canvas.matches(":focus-visible") && this.#go({ row: 0, column: 0 }),
        keydown: (event) => this.#step(event),
      },
    });
    this.cursor = make("div", { class: "cursor", hidden: true });
    this.top = make("div", { class: "map-columns", "aria-hidden": "true" });
    this.left = make("div", { class: "map-rows", "aria-hidden": "true" });
    const marks = ["0", "25 %", "100 %"].map((mark) => make("span", {}, mark)); // shade(0.25) = 0.5
    const ramp = make("span", { class: "ramp" });
    this.scale = make("div", { class: "scale", "aria-hidden": "true" }, ramp, ...marks);
    const field = make("div", { class: "field" }, this.canvas, this.cursor);
    this.grid = make("div", { class: "map-grid" }, make("div"), this.top, this.left, field);
    this.element = make("div", { class: "map" }, this.grid, this.scale);
    fadeEdges(this.element);
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  /** @param {import("./reading.js").Shown} shown @param {string} name */
  show(shown, name) {
    this.#shown = shown;
    this.canvas.setAttribute("aria-label", name);
    this.top.replaceChildren(...shown.columns.map(label));
    this.left.replaceChildren(...shown.rows.map(label));
    this.#fit();
    this.repaint();
    this.#go(null);
  }

  /** Paint again in the colours of now. */
  repaint() {
    paint(this.canvas, this.#shown);
  }

  /** Cells as large as the room allows. */
  #fit() {
    const { rows, columns } = this.#shown;
    const room = this.element.clientWidth - this.left.offsetWidth - 8;
    const fair = Math.floor(room / Math.max(1, columns.length));
    const cell = Math.max(CELL.least, Math.min(CELL.most, fair));
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

/** Red, green and blue of a computed colour. */
function channels(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}
