/** The left pane: the text to translate, and its length. */

import { find } from "./elements.js";

const NUMBERS = new Intl.NumberFormat("en");

/** The text field with its character count and a button to clear it. */
export class SourcePane {
  /** @type {HTMLTextAreaElement} */
  #field = find("text");
  #count = find("count");
  #clear = find("clear");
  #limit;
  #lastCaret = 0;

  /**
   * @param {number} limit maximum number of characters; -1 for any
   * @param {{onWrite: () => void, onMove: () => void}} callbacks `onMove`: the caret has moved
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

  /** The position of the caret. */
  get caret() {
    return this.#field.selectionStart;
  }

  /** The length of the text in code points, as the server counts: an emoji is one. */
  get length() {
    return [...this.text].length;
  }

  get isTooLong() {
    return this.#limit > 0 && this.length > this.#limit;
  }

  /** @param {string} code of the language that the text is in; empty if unknown */
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
