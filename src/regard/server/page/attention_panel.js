/** The lower half of the page: the attention of one sentence, and interventions in it. */

import { AttentionView } from "../view/view.js";
import { find } from "./elements.js";
import { loadItem, saveItem } from "./local_storage.js";

/** @typedef {import("./state.js").Choice} Choice */

const CLOSED = "looking.closed";

/** Shows the viewer document of one sentence of the text. */
export class AttentionPanel {
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
  /** Identify the requested and the shown sentence. */
  #requested = "";
  #shown = "";

  /**
   * @param {{onToggle: () => void, onSelect: (sentence: number) => void,
   *   onChange: (changes: import("./state.js").Change[]) => void,
   *   onChoice: (choice: Choice) => void}} callbacks
   *   `onSelect`: the user selects another sentence
   */
  constructor({ onToggle, onSelect, onChange, onChoice }) {
    this.#view = new AttentionView(this.#place, { onChange, onChoice });
    this.#open(loadItem(CLOSED) === null);
    this.#toggle.addEventListener("click", () => {
      this.#open(!this.isOpen);
      onToggle();
    });
    this.#before.addEventListener("click", () => onSelect(this.#sentence - 1));
    this.#after.addEventListener("click", () => onSelect(this.#sentence + 1));
    this.clear();
  }

  get isOpen() {
    return !this.#body.hidden;
  }

  /** The selected sentence, counted from 0. */
  get sentence() {
    return this.#sentence;
  }

  /**
   * Selects a sentence, without requesting it.
   *
   * @param {number} sentence
   * @param {number} count how many there are; 0 where that is not known yet
   */
  select(sentence, count = this.#count) {
    this.#count = count;
    this.#sentence = count ? Math.min(sentence, count - 1) : sentence;
    this.#stepper.hidden = count < 2;
    this.#before.disabled = this.#sentence === 0;
    this.#after.disabled = this.#sentence === count - 1;
    this.#number.textContent = `sentence ${this.#sentence + 1} of ${count}`;
  }

  /**
   * @param {any} look a viewer document with the number of its sentence
   * @param {Choice | null} choice part, layer and head to show; null: as before
   */
  show(look, choice) {
    this.#hint.hidden = true;
    this.#place.hidden = false;
    this.#shown = this.#requested;
    this.select(look.sentence, look.sentences);
    this.#view.show(look);
    if (choice) this.#view.choose(choice);
  }

  /** @param {string} requested identifies the sentence that a request is active for */
  wait(requested) {
    this.#requested = requested;
    this.#place.setAttribute("aria-busy", "true");
  }

  /** @param {string} message why the request failed; a document of the same sentence stays */
  fail(message) {
    if (this.#shown === this.#requested) this.#view.say(message);
    else this.#empty();
  }

  clear() {
    this.select(0, 0);
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
    saveItem(CLOSED, open ? null : "");
  }
}
