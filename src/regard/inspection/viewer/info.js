/** What not everybody needs to read: behind an “i”. */

import { freshId, make } from "./elements.js";

export class Info {
  /** @param {string} about what is explained, for screen readers @param {string} text */
  constructor(about, text) {
    const id = freshId("info");
    this.note = make("p", { class: "info-note", id, hidden: true }, text);
    const on = { click: () => this.#toggle() };
    const attributes = { type: "button", class: "info", "aria-expanded": "false", "aria-controls": id };
    this.button = make("button", { ...attributes, "aria-label": `i: more about ${about}`, on }, "i");
  }

  /** Explain something else. */
  set text(text) {
    this.note.textContent = text;
  }

  #toggle() {
    this.note.hidden = !this.note.hidden;
    this.button.setAttribute("aria-expanded", String(!this.note.hidden));
  }
}
