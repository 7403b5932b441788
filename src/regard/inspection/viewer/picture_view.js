/** A picture and its caption: a word shows the regions it looked at, a region its words. */

import { CaptionReading } from "./caption_reading.js";
import { Menu } from "./controls.js";
import { isolated, make, percent } from "./elements.js";
import { cellAt, cellBeside, cellName } from "./grid_cells.js";
import { HeadsCard } from "./heads_card.js";
import { PictureFrame, Shading } from "./picture_frame.js";
import { who } from "./sentences.js";
import { whenThemeChanges } from "./theme.js";
import { ALL, numberOf, numbered } from "./view_options.js";

const NAMED_WORDS = 3; // of a region, in the line below the picture

export class PictureView {
  #look = null;
  #reading = null;
  #place = { layer: null, head: null }; // null: the average
  #word = null;
  #region = null;
  #held = null; // the word that was clicked: it stays when the pointer leaves

  /** @param {HTMLElement} root */
  constructor(root) {
    this.layers = new Menu("Layer", (value) => this.#choose({ layer: numberOf(value) }));
    this.heads = new Menu("Head", (value) => this.#choose({ head: numberOf(value) }));
    const choose = (place) => this.#choose(this.#reading.heads > 1 ? place : { layer: place.layer });
    this.headsCard = new HeadsCard(choose, () => this.#drawHeads());
    this.frame = new PictureFrame("Arrow keys move over the regions of the picture", {
      point: (place) => this.#seeRegion(place && cellAt(place, this.#look.grid)),
      key: (event) => this.#move(event),
    });
    this.caption = make("p", { class: "picture-caption", dir: "auto" });
    this.told = make("p", { class: "picture-told", role: "status" });
    this.notes = make("ul", { class: "picture-notes" });
    this.shading = new Shading(this.frame, "region", () => this.#draw());
    const controls = [this.layers, this.heads, this.shading.switch].map(({ element }) => element);
    const menus = make("div", { class: "picture-menus" }, ...controls);
    const lines = [this.caption, this.told, this.shading.line, menus, this.notes];
    const text = make("div", { class: "picture-text" }, ...lines);
    const stage = make("section", { class: "card stage", "aria-label": "Attention of words to the picture" });
    stage.append(make("div", { class: "picture-view" }, this.frame.element, text));
    root.classList.add("regard-view");
    root.replaceChildren(stage, this.headsCard.element);
    whenThemeChanges(() => {
      this.headsCard.grid.repaint();
      if (this.#reading) this.#draw();
    });
  }

  /** Show a document of `CaptionAnswer.render`. */
  show(look) {
    this.#look = look;
    this.#reading = new CaptionReading(look);
    this.frame.show(look.picture, look.text);
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
    this.layers.show(numbered(layers), String(layer ?? ALL));
    this.heads.show(numbered(heads), String(head ?? ALL));
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

  #move(event) {
    if (event.key === "Escape") this.#seeRegion(null);
    const region = cellBeside(this.#region, event.key, this.#look.grid);
    if (region === null) return;
    event.preventDefault();
    this.#seeRegion(region);
  }

  #draw() {
    const shown = this.#region === null ? (this.#word ?? this.#held) : null;
    const looked = shown === null ? null : this.#reading.looked({ ...this.#place, word: shown });
    this.shading.draw(this.#look.grid, looked);
    this.frame.mark(this.#region, this.#look.grid);
    this.#drawWords(shown);
    this.told.textContent = this.#tell(shown);
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
    const choice = { part: "cross", unit: "words", ...this.#place, segments: this.#held };
    const looks = this.#held === null ? "all words on average" : `“${isolated(this.#look.words[this.#held])}”`;
    this.headsCard.show(this.#reading, choice, { looks }, " A click on a word shows its own.");
  }

  #tell(shown) {
    const { layers, heads } = this.#reading;
    const place = layers * heads > 1 ? `: ${who(this.#place)}` : "";
    if (shown !== null) return `What “${isolated(this.#look.words[shown])}” looked at${place}.`;
    if (this.#region === null) return "Point at a word, or at the picture.";
    const { row, column } = cellName(this.#region, this.#look.grid[1]);
    const weights = this.#reading.looking(this.#place, this.#region);
    const words = this.#look.words
      .map((word, number) => ({ word, weight: weights[number] }))
      .filter(({ weight }) => weight > 0)
      .sort((one, other) => other.weight - one.weight)
      .slice(0, NAMED_WORDS)
      .map(({ word, weight }) => `${isolated(word)} ${percent(weight)}`);
    return `Row ${row}, column ${column}: ${words.join(", ") || "no word looked there"}`;
  }
}
