/** The right pane: the translation as it comes. */

import { copyText } from "./clipboard.js";
import { find } from "./elements.js";

const COPIED_FOR = 1500;

/**
 * Lets a button copy a text and say so for a moment.
 *
 * @param {HTMLElement} button
 * @param {() => string} text
 */
export function letCopy(button, text) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text())) ? "Copied" : "Could not copy";
    setTimeout(() => {
      button.textContent = label;
    }, COPIED_FOR);
  });
}

/** The translation and its button to copy it. */
export class AnswerPane {
  #translation = find("translation");
  #copy = find("copy");
  #progress = find("progress");

  constructor() {
    letCopy(this.#copy, () => this.text);
  }

  get text() {
    return this.#translation.textContent ?? "";
  }

  /** @param {boolean} working announced, so that screen readers wait for the whole */
  set isWorking(working) {
    this.#translation.setAttribute("aria-busy", String(working));
    this.#progress.hidden = !working;
  }

  /** @param {string} text what there is so far */
  showPartial(text) {
    this.#translation.textContent = text;
    this.#copy.hidden = true;
  }

  /**
   * @param {string} text
   * @param {string} language
   */
  show(text, language) {
    this.#translation.lang = language;
    this.#translation.textContent = text;
    this.#copy.hidden = !text;
  }
}
