/** A picture and its caption: a word shows the regions it looked at, a region its words. */

import { Menu } from "./controls.js";
import { make, percent } from "./elements.js";

const MEAN = "mean";
const DARKEST = 0.75; // how dark it gets where a word does not look
const NAMED_WORDS = 3; // of a region, in the line below the picture

export class PictureView {
  #look = null;
  #weights = null; // bytes, layer by layer, head by head, word by word, region by region
  #layer = MEAN;
  #head = MEAN;
  #word = null;
  #region = null;
  #held = null; // the word that was clicked: it stays when the pointer leaves

  /** @param {HTMLElement} root */
  constructor(root) {
    this.layers = new Menu("Layer", (value) => this.#choose({ layer: value }));
    this.heads = new Menu("Head", (value) => this.#choose({ head: value }));
    this.image = make("img", { class: "picture-image", draggable: "false" });
    this.shade = make("canvas", { class: "picture-shade", "aria-hidden": "true" });
    const keys = "Arrow keys move over the regions of the picture";
    this.frame = make(
      "div",
      { class: "picture-frame", tabindex: 0, role: "application", "aria-label": keys },
      this.image,
      this.shade,
      (this.mark = make("div", { class: "picture-mark", hidden: true })),
    );
    this.caption = make("p", { class: "picture-caption" });
    this.told = make("p", { class: "picture-told", role: "status" });
    this.notes = make("ul", { class: "picture-notes" });
    const menus = make("div", { class: "picture-menus" }, this.layers.element, this.heads.element);
    const text = make("div", { class: "picture-text" }, this.caption, this.told, menus, this.notes);
    root.replaceChildren(make("div", { class: "picture-view" }, this.frame, text));
    this.frame.addEventListener("pointermove", (event) => this.#pointAt(event));
    this.frame.addEventListener("pointerleave", () => this.#seeRegion(null));
    this.frame.addEventListener("keydown", (event) => this.#move(event));
    this.frame.addEventListener("blur", () => this.#seeRegion(null));
  }

  /** Show a document of `picture_document`. */
  show(look) {
    this.#look = look;
    this.#weights = Uint8Array.from(atob(look.weights), (letter) => letter.charCodeAt(0));
    this.image.src = look.picture;
    this.image.alt = look.text;
    this.words = look.words.map((word, number) => this.#makeWord(word, number));
    this.caption.replaceChildren(...this.words.flatMap((word) => [word, " "]));
    const others = look.candidates.slice(1).map(({ text }) => `or: ${text}`);
    const lines = [...look.notes, ...others].map((line) => make("li", {}, line));
    this.notes.replaceChildren(...lines);
    this.#showMenus();
    this.#draw();
  }

  #makeWord(word, number) {
    const on = {
      pointerenter: () => this.#seeWord(number),
      pointerleave: () => this.#seeWord(null),
      focus: () => this.#seeWord(number),
      blur: () => this.#seeWord(null),
      click: () => this.#hold(number),
    };
    return make("button", { class: "picture-word", type: "button", "aria-pressed": "false", on }, word);
  }

  #showMenus() {
    const [layers, heads] = this.#look.shape;
    const options = (count) => [
      { value: MEAN, label: "mean of all" },
      ...Array.from({ length: count }, (_, value) => ({ value: String(value), label: String(value) })),
    ];
    this.layers.show(layers > 1 ? options(layers) : [], this.#layer);
    this.heads.show(heads > 1 ? options(heads) : [], this.#head);
  }

  #choose({ layer = this.#layer, head = this.#head }) {
    this.#layer = layer;
    this.#head = head;
    this.#draw();
  }

  #seeWord(number) {
    this.#word = number;
    this.#draw();
  }

  #hold(number) {
    this.#held = this.#held === number ? null : number;
    this.words.forEach((word, place) => word.setAttribute("aria-pressed", String(place === this.#held)));
    this.#draw();
  }

  #seeRegion(number) {
    this.#region = number;
    this.#draw();
  }

  /** The region under the pointer. */
  #pointAt(event) {
    const [rows, columns] = this.#look.grid;
    const box = this.frame.getBoundingClientRect();
    const place = (offset, size, count) =>
      Math.min(count - 1, Math.max(0, Math.floor((offset / size) * count)));
    const row = place(event.clientY - box.top, box.height, rows);
    const column = place(event.clientX - box.left, box.width, columns);
    this.#seeRegion(row * columns + column);
  }

  #move(event) {
    const [rows, columns] = this.#look.grid;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") this.#seeRegion(null);
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const now = this.#region ?? 0;
    const row = Math.floor(now / columns) + (this.#region === null ? 0 : step[0]);
    const column = (now % columns) + (this.#region === null ? 0 : step[1]);
    const clamp = (value, count) => Math.min(count - 1, Math.max(0, value));
    this.#seeRegion(clamp(row, rows) * columns + clamp(column, columns));
  }

  /** The weight, from 0 to 1, that a word gives a region. */
  #weight(word, region) {
    const [layers, heads, words, regions] = this.#look.shape;
    const numbers = (chosen, count) => (chosen === MEAN ? [...Array(count).keys()] : [Number(chosen)]);
    let total = 0;
    let maps = 0;
    for (const layer of numbers(this.#layer, layers)) {
      for (const head of numbers(this.#head, heads)) {
        total += this.#weights[((layer * heads + head) * words + word) * regions + region];
        maps += 1;
      }
    }
    return ((total / maps) * this.#look.peak) / 255;
  }

  #draw() {
    const shown = this.#region === null ? (this.#word ?? this.#held) : null;
    this.#drawShade(shown);
    this.#drawMark();
    this.#drawWords(shown);
    this.told.textContent = this.#tell(shown);
  }

  /** Dark where the word does not look; smooth, as the canvas is enlarged. */
  #drawShade(word) {
    const [rows, columns] = this.#look.grid;
    this.shade.hidden = word === null;
    if (word === null) return;
    this.shade.width = columns;
    this.shade.height = rows;
    const context = this.shade.getContext("2d");
    const shade = context.createImageData(columns, rows);
    const weights = Array.from({ length: rows * columns }, (_, region) => this.#weight(word, region));
    const most = Math.max(...weights, 1e-9);
    weights.forEach((weight, region) => {
      shade.data[4 * region + 3] = Math.round(255 * DARKEST * (1 - weight / most));
    });
    context.putImageData(shade, 0, 0);
  }

  #drawMark() {
    const [rows, columns] = this.#look.grid;
    this.mark.hidden = this.#region === null;
    if (this.#region === null) return;
    const row = Math.floor(this.#region / columns);
    const column = this.#region % columns;
    Object.assign(this.mark.style, {
      top: `${(100 * row) / rows}%`,
      left: `${(100 * column) / columns}%`,
      height: `${100 / rows}%`,
      width: `${100 / columns}%`,
    });
  }

  /** Of a region, each word as strong as it looked there. */
  #drawWords(shown) {
    const weights = this.words.map((_, word) => (this.#region === null ? 0 : this.#weight(word, this.#region)));
    const most = Math.max(...weights, 1e-9);
    this.words.forEach((word, number) => {
      word.classList.toggle("shown", number === shown);
      word.style.setProperty("--share", String(this.#region === null ? 0 : weights[number] / most));
    });
  }

  #tell(shown) {
    const [, columns] = this.#look.grid;
    if (shown !== null) return `what “${this.#look.words[shown]}” looked at`;
    if (this.#region === null) return "Point at a word, or at the picture.";
    const row = Math.floor(this.#region / columns) + 1;
    const words = this.#look.words
      .map((word, number) => ({ word, weight: this.#weight(number, this.#region) }))
      .sort((one, other) => other.weight - one.weight)
      .slice(0, NAMED_WORDS)
      .map(({ word, weight }) => `${word} ${percent(weight)}`);
    return `row ${row}, column ${(this.#region % columns) + 1}: ${words.join(", ")}`;
  }
}
