/** A picture under a shade of the cells of a grid, with a mark around one of them. */

import { make, pointing } from "./elements.js";

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
