/** The left pane: what the user writes, and how much of it there may be. */

import { find } from "./elements.js";

const NUMBERS = new Intl.NumberFormat("en");

/** The text field with its count and its button to clear it. */
export class Writing {
  /** @type {HTMLTextAreaElement} */
  #field = find("text");
  #count = find("count");
  #clear = find("clear");
  #limit;
  #lastCaret = 0;

  /**
   * @param {number} limit most characters that the server takes; -1 for any number
   * @param {{onWrite: () => void, onMove: () => void}} told `onMove`: the caret has moved
   */
  constructor(limit, { onWrite, onMove }) {
    this.#limit = limit;
    this.#field.addEventListener("input", () => {
      this.#recount();
      onWrite();
    });
    const move = () => {
      if (this.caret === this.#lastCaret) return;
      this.#lastCaret = this.caret;
      onMove();
    };
    this.#field.addEventListener("click", move);
    this.#field.addEventListener("keyup", move);
    this.#clear.addEventListener("click", () => {
      this.text = "";
      this.focus();
      onWrite();
    });
    this.#recount();
  }

  get text() {
    return this.#field.value;
  }

  set text(text) {
    this.#field.value = text;
    this.#recount();
  }

  /** Where the caret stands in the text. */
  get caret() {
    return this.#field.selectionStart;
  }

  /** How long the text is, as the server counts: an emoji is one character, not two. */
  get length() {
    return [...this.text].length;
  }

  get isTooLong() {
    return this.#limit > 0 && this.length > this.#limit;
  }

  /** @param {string} code of the language that the text is in; empty if not known */
  set language(code) {
    this.#field.lang = code;
  }

  focus() {
    this.#field.focus();
  }

  #recount() {
    const { length } = this;
    this.#lastCaret = this.caret;
    const most = this.#limit > 0 ? ` / ${NUMBERS.format(this.#limit)}` : "";
    this.#count.textContent = `${NUMBERS.format(length)}${most}`;
    this.#count.toggleAttribute("data-over", this.isTooLong);
    this.#field.setAttribute("aria-invalid", String(this.isTooLong));
    this.#clear.hidden = !length;
  }
}
