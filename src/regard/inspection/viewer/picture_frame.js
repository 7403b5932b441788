/** A picture under a shade of the cells of a grid, with a mark around one of them. */

import { Switch } from "./controls.js";
import { channels, make, percent, pointing } from "./elements.js";
import { shade } from "./maps.js";

const STRONGEST = 0.82; // how dark a cell gets that is not looked at, or how coloured one that is
const SHADES = [
  { value: "colour", label: "Colour", title: "What was looked at is coloured" },
  { value: "dark", label: "Darken", title: "What was not looked at is dark" },
];

export class PictureFrame {
  /**
   * @param {string} label for screen readers: what keys do
   * @param {Object} options
   * @param {(place: [number, number]|null) => void} options.point the place below the pointer, in
   * shares of the picture's height and width; null: nothing is pointed at
   * @param {(event: KeyboardEvent) => void} options.key
   * @param {(place: [number, number]) => void} [options.click]
   * @param {string} [options.shadeClass] of the shade, beside its own
   */
  constructor(label, { point, key, click = () => {}, shadeClass = "" }) {
    this.image = make("img", { class: "picture-image", draggable: "false" });
    this.shade = make("canvas", { class: `picture-shade ${shadeClass}`.trim(), "aria-hidden": "true" });
    this.outline = make("div", { class: "picture-mark", hidden: true });
    const on = {
      ...pointing((event) => point(event && this.#place(event))),
      click: (event) => click(this.#place(event)),
      keydown: key,
    };
    const attributes = { class: "picture-frame", tabindex: 0, role: "application", "aria-label": label, on };
    this.element = make("div", attributes, this.image, this.shade, this.outline);
  }

  show(source, description) {
    this.image.src = source;
    this.image.alt = description;
  }

  /**
   * Shade the cells of a grid, smoothly where the style sheet says so.
   * @param {ArrayLike<number>} weights of the cells
   * @param {(weight: number) => [number, number, number, number]} colour red, green, blue, opacity
   */
  paint([rows, columns], weights, colour) {
    this.shade.width = columns;
    this.shade.height = rows;
    const pen = this.shade.getContext("2d");
    const cover = pen.createImageData(columns, rows);
    weights.forEach((weight, cell) => cover.data.set(colour(weight), 4 * cell));
    pen.putImageData(cover, 0, 0);
  }

  /** Outline a cell of a grid; none: null. */
  mark(cell, [rows, columns]) {
    this.outline.hidden = cell === null;
    if (cell === null) return;
    Object.assign(this.outline.style, {
      top: `${(100 * Math.floor(cell / columns)) / rows}%`,
      left: `${(100 * (cell % columns)) / columns}%`,
      height: `${100 / rows}%`,
      width: `${100 / columns}%`,
    });
  }

  #place(event) {
    const box = this.element.getBoundingClientRect();
    return [(event.clientY - box.top) / box.height, (event.clientX - box.left) / box.width];
  }
}

/** How the cells of a frame are shaded by their weights, which a reader chooses, and what it means. */
export class Shading {
  #frame;
  #cell;
  #shade = "colour";

  /** @param {PictureFrame} frame @param {string} cell what a cell is @param {() => void} onChange */
  constructor(frame, cell, onChange) {
    this.#frame = frame;
    this.#cell = cell;
    this.switch = new Switch("How the picture is shaded", (value) => {
      this.#shade = value;
      onChange();
    });
    this.switch.show(SHADES, this.#shade);
    this.line = make("p", { class: "hint patch-scale" });
  }

  /** Shade the cells; no weights (null): none. */
  draw(grid, weights) {
    this.#frame.shade.hidden = this.line.hidden = weights === null;
    if (weights === null) return;
    const most = Math.max(...weights, 1e-9);
    const coloured = this.#shade === "colour";
    const ink = coloured ? channels(getComputedStyle(this.#frame.shade).color) : [0, 0, 0];
    this.#frame.paint(grid, weights, (weight) => {
      const share = shade(weight / most);
      return [...ink, Math.round(255 * STRONGEST * (coloured ? share : 1 - share))];
    });
    const [strong, none] = coloured ? ["most coloured", "Those without colour"] : ["brightest", "The darkest"];
    this.line.textContent = `The ${strong} ${this.#cell} was given ${percent(most)}. ${none} got nothing.`;
  }
}
