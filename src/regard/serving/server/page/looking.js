/** The lower half of the page: what a line looked at, and what becomes of it under changes. */

import { AttentionView } from "../view/view.js";
import { find } from "./elements.js";
import { lineAt, linesOf } from "./lines.js";
import { recall, remember } from "./memory.js";

/**
 * @typedef {import("./state.js").Change} Change
 * @typedef {import("./state.js").Choice} Choice
 */

const CLOSED = "looking.closed";

/** Shows the look document of one line of the text. */
export class Looking {
  #body = find("look-body");
  /** @type {HTMLButtonElement} */
  #toggle = find("look-toggle");
  #hint = find("look-hint");
  #place = find("view");
  #stepper = find("stepper");
  /** @type {HTMLButtonElement} */
  #before = find("line-before");
  /** @type {HTMLButtonElement} */
  #after = find("line-after");
  #number = find("line-number");
  #onTurn;
  #view;
  #text = "";
  #line = 0;

  /**
   * @param {{onOpen: () => void, onTurn: () => void, onChange: (changes: Change[]) => void,
   *   onChoice: (choice: Choice) => void}} told `onTurn`: another line shall be looked at
   */
  constructor({ onOpen, onTurn, onChange, onChoice }) {
    this.#onTurn = onTurn;
    this.#view = new AttentionView(this.#place, { onChange, onChoice });
    this.#open(recall(CLOSED) === null);
    this.#toggle.addEventListener("click", () => {
      this.#open(!this.isOpen);
      if (this.isOpen) onOpen();
    });
    this.#before.addEventListener("click", () => this.#step(-1));
    this.#after.addEventListener("click", () => this.#step(1));
    this.clear();
  }

  get isOpen() {
    return !this.#body.hidden;
  }

  /** The line looked at, counted from 0 among those that are not blank. */
  get line() {
    return this.#line;
  }

  /** What that line says; empty if the text is blank. */
  get lineText() {
    return linesOf(this.#text)[this.#line] ?? "";
  }

  /**
   * Turns to a line of a text, without asking for it.
   *
   * @param {string} text
   * @param {number} line
   */
  turn(text, line) {
    const count = linesOf(text).length;
    this.#text = text;
    this.#line = Math.min(line, Math.max(0, count - 1));
    this.#stepper.hidden = count < 2;
    this.#before.disabled = this.#line === 0;
    this.#after.disabled = this.#line === count - 1;
    this.#number.textContent = `line ${this.#line + 1} of ${count}`;
  }

  /**
   * Turns to the line where the caret is; gives whether that is another one.
   *
   * @param {string} text
   * @param {number} caret
   */
  follow(text, caret) {
    const former = this.#line;
    this.turn(text, lineAt(text, caret));
    return this.#line !== former;
  }

  /**
   * @param {any} look a look document
   * @param {Choice | null} choice what of it to show; null: as before
   */
  show(look, choice) {
    this.#hint.hidden = true;
    this.#place.hidden = false;
    this.#view.show(look);
    if (choice) this.#view.choose(choice);
  }

  /** Says that what is shown is no longer what is written. */
  wait() {
    this.#place.setAttribute("aria-busy", "true");
  }

  clear() {
    this.#hint.hidden = false;
    this.#place.hidden = true;
    this.#stepper.hidden = true;
  }

  /** @param {boolean} open */
  #open(open) {
    this.#body.hidden = !open;
    this.#toggle.setAttribute("aria-expanded", String(open));
    remember(CLOSED, open ? null : "");
  }

  /** @param {number} by */
  #step(by) {
    this.turn(this.#text, this.#line + by);
    this.#onTurn();
  }
}
