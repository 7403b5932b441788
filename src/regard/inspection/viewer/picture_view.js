/** A picture and its caption: a word shows the regions it looked at, a region its words. */

import { CaptionReading } from "./caption_reading.js";
import { Menu, Switch } from "./controls.js";
import { make, percent } from "./elements.js";
import { HeadGrid } from "./heads.js";
import { who } from "./sentences.js";
import { whenThemeChanges } from "./theme.js";
import { SCALES } from "./view_options.js";

const MEAN = "mean";
const DARKEST = 0.75; // how dark it gets where a word does not look
const NAMED_WORDS = 3; // of a region, in the line below the picture

export class PictureView {
  #look = null;
  #reading = null;
  #place = { layer: null, head: null }; // null: the average
  #scale = "own";
  #word = null;
  #region = null;
  #held = null; // the word that was clicked: it stays when the pointer leaves

  /** @param {HTMLElement} root */
  constructor(root) {
    const number = (value) => (value === MEAN ? null : Number(value));
    this.layers = new Menu("Layer", (value) => this.#choose({ layer: number(value) }));
    this.heads = new Menu("Head", (value) => this.#choose({ head: number(value) }));
    this.grid = new HeadGrid((place) => this.#choose(this.#reading.heads > 1 ? place : { layer: place.layer }));
    this.scales = new Switch("Scale of the small maps", (scale) => {
      this.#scale = scale;
      this.#drawHeads();
    });
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
    this.scaleLine = make("p", { class: "hint patch-scale" });
    const menus = make("div", { class: "picture-menus" }, this.layers.element, this.heads.element);
    const lines = [this.caption, this.told, this.scaleLine, menus, this.notes];
    const text = make("div", { class: "picture-text" }, ...lines);
    const stage = make("section", { class: "card stage", "aria-label": "Attention of words to the picture" });
    stage.append(make("div", { class: "picture-view" }, this.frame, text));
    this.hint = make("p", { class: "hint" });
    const tools = make("div", { class: "card-tools" }, this.scales.element);
    const head = make("div", { class: "card-head" }, make("h2", {}, "Heads"), tools);
    this.headCard = make("section", { class: "card heads-card" }, head, this.hint, this.grid.element);
    root.classList.add("regard-view");
    root.replaceChildren(stage, this.headCard);
    whenThemeChanges(() => this.grid.repaint());
    this.frame.addEventListener("pointermove", (event) => this.#pointAt(event));
    this.frame.addEventListener("pointerleave", () => this.#seeRegion(null));
    this.frame.addEventListener("keydown", (event) => this.#move(event));
    this.frame.addEventListener("blur", () => this.#seeRegion(null));
  }

  /** Show a document of `picture_document`. */
  show(look) {
    this.#look = look;
    this.#reading = new CaptionReading(look);
    this.image.src = look.picture;
    this.image.alt = look.text;
    this.words = look.words.map((word, number) => this.#makeWord(word, number));
    this.caption.replaceChildren(...this.words.flatMap((word) => [word, " "]));
    const others = look.candidates.slice(1).map(({ text }) => `or: ${text}`);
    const lines = [...look.notes, ...others].map((line) => make("li", {}, line));
    this.notes.replaceChildren(...lines);
    this.#choose({});
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
    const { layers, heads } = this.#reading;
    const { layer, head } = this.#place;
    const options = (count) => [
      { value: MEAN, label: "mean of all" },
      ...Array.from({ length: count }, (_, value) => ({ value: String(value), label: String(value) })),
    ];
    this.layers.show(layers > 1 ? options(layers) : [], String(layer ?? MEAN));
    this.heads.show(heads > 1 ? options(heads) : [], String(head ?? MEAN));
  }

  #choose(wanted) {
    this.#place = { ...this.#place, ...wanted };
    this.#showMenus();
    this.#draw();
    this.#drawHeads();
  }

  #seeWord(number) {
    this.#word = number;
    this.#draw();
  }

  #hold(number) {
    this.#held = this.#held === number ? null : number;
    this.words.forEach((word, place) => word.setAttribute("aria-pressed", String(place === this.#held)));
    this.#draw();
    this.#drawHeads();
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
    this.scaleLine.hidden = word === null;
    if (word === null) return;
    this.shade.width = columns;
    this.shade.height = rows;
    const context = this.shade.getContext("2d");
    const shade = context.createImageData(columns, rows);
    const weights = this.#reading.looked({ ...this.#place, word });
    const most = Math.max(...weights, 1e-9);
    weights.forEach((weight, region) => {
      shade.data[4 * region + 3] = Math.round(255 * DARKEST * (1 - weight / most));
    });
    context.putImageData(shade, 0, 0);
    this.scaleLine.textContent = `The brightest region was given ${percent(most)}.`;
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
    const none = this.words.map(() => 0);
    const weights = this.#region === null ? none : this.#reading.looking(this.#place, this.#region);
    const most = Math.max(...weights, 1e-9);
    this.words.forEach((word, number) => {
      word.classList.toggle("shown", number === shown);
      word.style.setProperty("--share", String(weights[number] / most));
    });
  }

  /** What the word that was clicked looked at in each head, or all words on average. */
  #drawHeads() {
    const { layers, heads } = this.#reading;
    this.headCard.hidden = layers * heads < 2;
    const choice = { part: "cross", unit: "words", ...this.#place, segments: this.#held };
    const own = this.#scale === "own";
    this.grid.show(this.#reading, choice, { changes: [], other: "", own, colours: new Map() });
    this.headCard.classList.toggle("wide", heads > 8);
    this.scales.show(SCALES.toReversed(), this.#scale);
    const looks = this.#held === null ? "all words on average" : `“${this.#look.words[this.#held]}”`;
    const scale = own ? "each on its own scale" : "all on one scale, up to 100 %";
    this.hint.textContent = `Each small map is what ${looks} looked at in a head, ${scale}. A click on a word shows its own.`;
  }

  #tell(shown) {
    const [, columns] = this.#look.grid;
    const { layers, heads } = this.#reading;
    const place = layers * heads > 1 ? `: ${who(this.#place)}` : "";
    if (shown !== null) return `What “${this.#look.words[shown]}” looked at${place}.`;
    if (this.#region === null) return "Point at a word, or at the picture.";
    const row = Math.floor(this.#region / columns) + 1;
    const weights = this.#reading.looking(this.#place, this.#region);
    const words = this.#look.words
      .map((word, number) => ({ word, weight: weights[number] }))
      .sort((one, other) => other.weight - one.weight)
      .slice(0, NAMED_WORDS)
      .map(({ word, weight }) => `${word} ${percent(weight)}`);
    return `Row ${row}, column ${(this.#region % columns) + 1}: ${words.join(", ")}`;
  }
}
