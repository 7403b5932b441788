/** The right pane: the translation as it comes. */

import { copyText } from "./clipboard.js";
import { find } from "./elements.js";
import { placesOf } from "./sentences.js";

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

  #onPick;

  /** @param {(sentence: number) => void} onPick told which sentence was clicked, if several */
  constructor(onPick) {
    this.#onPick = onPick;
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
   * @param {string[]} sentences those of the text, in order, where they are known
   */
  show(text, language, sentences) {
    this.#translation.lang = language;
    if (sentences.length > 1) this.#cut(text, sentences);
    else this.#translation.textContent = text;
    this.#copy.hidden = !text;
  }

  /** @param {number | null} sentence the one looked at; null for none */
  mark(sentence) {
    this.#sentences.forEach((span, number) => {
      if (number === sentence) span.setAttribute("aria-current", "true");
      else span.removeAttribute("aria-current");
    });
  }

  get #sentences() {
    return this.#translation.querySelectorAll(".sentence");
  }

  /**
   * Makes the sentences such that they can be clicked.
   *
   * @param {string} text
   * @param {string[]} sentences
   */
  #cut(text, sentences) {
    let end = 0;
    const nodes = placesOf(text, sentences).flatMap((place, number) => {
      const between = text.slice(end, place.start);
      end = place.end;
      return [between, this.#sentence(text.slice(place.start, end), number)];
    });
    this.#translation.replaceChildren(...nodes, text.slice(end));
  }

  /**
   * @param {string} text
   * @param {number} number
   */
  #sentence(text, number) {
    const span = document.createElement("span");
    span.className = "sentence";
    span.textContent = text;
    span.addEventListener("click", () => {
      const isSelecting = !getSelection()?.isCollapsed;
      if (!isSelecting) this.#onPick(number);
    });
    return span;
  }
}
