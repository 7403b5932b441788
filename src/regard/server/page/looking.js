/** The lower half of the page: what a sentence looked at, and what becomes of it under changes. */

import { AttentionView } from "../view/view.js";
import { find } from "./elements.js";
import { recall, remember } from "./memory.js";

/**
 * @typedef {import("./state.js").Change} Change
 * @typedef {import("./state.js").Choice} Choice
 */

const CLOSED = "looking.closed";

/** Shows the look document of one sentence of the text. */
export class Looking {
  #body = find("look-body");
  /** @type {HTMLButtonElement} */
  #toggle = find("look-toggle");
  #hint = find("look-hint");
  #place = find("view");
  #stepper = find("stepper");
  /** @type {HTMLButtonElement} */
  #before = find("sentence-before");
  /** @type {HTMLButtonElement} */
  #after = find("sentence-after");
  #number = find("sentence-number");
  #view;
  #sentence = 0;
  #count = 0;
  /** What is waited for, and what is shown. */
  #wanted = "";
  #shown = "";

  /**
   * @param {{onToggle: () => void, onTurn: (sentence: number) => void,
   *   onChange: (changes: Change[]) => void, onChoice: (choice: Choice) => void}} told
   *   `onTurn`: another sentence shall be looked at
   */
  constructor({ onToggle, onTurn, onChange, onChoice }) {
    this.#view = new AttentionView(this.#place, { onChange, onChoice });
    this.#open(recall(CLOSED) === null);
    this.#toggle.addEventListener("click", () => {
      this.#open(!this.isOpen);
      onToggle();
    });
    this.#before.addEventListener("click", () => onTurn(this.#sentence - 1));
    this.#after.addEventListener("click", () => onTurn(this.#sentence + 1));
    this.clear();
  }

  get isOpen() {
    return !this.#body.hidden;
  }

  /** The sentence looked at, counted from 0. */
  get sentence() {
    return this.#sentence;
  }

  /**
   * Turns to a sentence, without asking for it.
   *
   * @param {number} sentence
   * @param {number} count how many there are; 0 where that is not known yet
   */
  turn(sentence, count = this.#count) {
    this.#count = count;
    this.#sentence = count ? Math.min(sentence, count - 1) : sentence;
    this.#stepper.hidden = count < 2;
    this.#before.disabled = this.#sentence === 0;
    this.#after.disabled = this.#sentence === count - 1;
    this.#number.textContent = `sentence ${this.#sentence + 1} of ${count}`;
  }

  /**
   * @param {any} look a look document that says which sentence it is of
   * @param {Choice | null} choice what of it to show; null: as before
   */
  show(look, choice) {
    this.#hint.hidden = true;
    this.#place.hidden = false;
    this.#shown = this.#wanted;
    this.turn(look.sentence, look.sentences);
    this.#view.show(look);
    if (choice) this.#view.choose(choice);
  }

  /**
   * Says that something else is asked for than is shown.
   *
   * @param {string} wanted a name for the sentence, whatever is changed in it
   */
  wait(wanted) {
    this.#wanted = wanted;
    this.#place.setAttribute("aria-busy", "true");
  }

  /**
   * Says that it did not come; what is shown stays if it is of the same sentence.
   *
   * @param {string} message
   */
  fail(message) {
    if (this.#shown === this.#wanted) this.#view.say(message);
    else this.#empty();
  }

  clear() {
    this.turn(0, 0);
    this.#empty();
  }

  #empty() {
    this.#shown = "";
    this.#hint.hidden = false;
    this.#place.hidden = true;
  }

  /** @param {boolean} open */
  #open(open) {
    this.#body.hidden = !open;
    this.#toggle.setAttribute("aria-expanded", String(open));
    remember(CLOSED, open ? null : "");
  }
}
