/** Sentences to begin with, below the empty text field. */

import { find } from "./elements.js";
import { DETECT } from "./languages.js";

/** @typedef {import("./api.js").Pair & {text: string}} Example */

/** Buttons that fill the text field. */
export class Examples {
  #place = find("examples");
  #examples;
  #onChoose;

  /**
   * @param {Example[]} examples of all models of the server
   * @param {(text: string) => void} onChoose
   */
  constructor(examples, onChoose) {
    this.#examples = examples;
    this.#onChoose = onChoose;
  }

  /**
   * Offers the sentences of a model, where nothing is written yet.
   *
   * @param {import("./api.js").Pair} pair
   * @param {boolean} isEmpty
   */
  show({ source, target }, isEmpty) {
    const fits = (/** @type {Example} */ one) =>
      one.target === target && (one.source === source || source === DETECT);
    const buttons = this.#examples.filter(fits).map((example) => this.#button(example));
    this.#place.hidden = !isEmpty || !buttons.length;
    for (const old of this.#place.querySelectorAll("button")) old.remove();
    this.#place.append(...buttons);
  }

  /** @param {Example} example */
  #button({ source, text }) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "pill", lang: source, dir: "auto" });
    button.textContent = text;
    button.addEventListener("click", () => this.#onChoose(text));
    return button;
  }
}
