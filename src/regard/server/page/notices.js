/** Error messages of the page. */

import { find } from "./elements.js";

/**
 * @typedef {import("./api.js").ApiError} ApiError
 * @typedef {import("./api.js").ErrorKind | "other"} NoticeKind
 */

const NUMBERS = new Intl.NumberFormat("en");
const FIRST_DELAY = 2000; // milliseconds until a server that could not be reached is asked again
const MAX_DELAY = 15_000;

/** Kinds of errors after which a second attempt may succeed. */
export const TRANSIENT = new Set(["busy", "offline", "failed"]);

/**
 * @param {number} characters
 * @param {number} limit
 */
export function tooLong(characters, limit) {
  const [has, most] = [characters, limit].map((number) => NUMBERS.format(number));
  return `The text has ${has} characters; this server takes ${most} at once. Shorten it.`;
}

/** @param {number} seconds */
export function busyFor(seconds) {
  return `The server is busy. Asking again in ${seconds} s.`;
}

/**
 * The message for an error.
 *
 * @param {ApiError} error
 * @param {boolean} keyGiven
 */
export function explain({ kind, message }, keyGiven) {
  /** @type {Object<string, string>} */
  const messages = {
    busy: "The server is busy and has been for a while. Try again in a minute.",
    key: keyGiven
      ? "The server does not know this API key. Check it above."
      : "This server asks for an API key. Enter yours above.",
    offline: "The server cannot be reached. What you wrote is kept, and sent once it is back.",
    failed: `The server could not do it: ${message}`,
  };
  return messages[kind] ?? message;
}

/** One line above the translation, read out by screen readers, and a button to try again. */
export class Notices {
  #line = find("notice");
  #again = find("again");
  /** @type {(() => void) | null} */
  #onAgain = null;
  #isBack;
  #timer = 0;
  /** Shown where there is no other message. */
  #permanent = "";

  /** @param {() => Promise<boolean>} isBack whether the server can be reached */
  constructor(isBack) {
    this.#isBack = isBack;
    this.#again.addEventListener("click", () => this.#onAgain?.());
    window.addEventListener("online", () => {
      if (this.#line.dataset.kind === "offline") this.#onAgain?.();
    });
  }

  /**
   * @param {NoticeKind} kind
   * @param {string} text
   * @param {(() => void) | null} onAgain what to try again, where that can help; tried by itself
   *   once a server that could not be reached is back
   */
  show(kind, text, onAgain = null) {
    this.#line.dataset.kind = kind;
    this.#line.textContent = text;
    this.#again.hidden = !onAgain;
    this.#onAgain = onAgain;
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (kind === "offline" && onAgain) this.#poll(FIRST_DELAY);
  }

  /** Removes the message, but for the permanent one. */
  clear() {
    this.show("other", this.#permanent);
  }

  /** @param {string} text shown while there is no other message; empty for none */
  setPermanent(text) {
    const isShown = this.#line.textContent === this.#permanent;
    this.#permanent = text;
    if (isShown) this.clear();
  }

  /** @param {number} delay until the server is asked whether it is back; it grows */
  #poll(delay) {
    const timer = setTimeout(async () => {
      const isBack = await this.#isBack();
      if (timer !== this.#timer) return; // another message is shown meanwhile
      if (isBack) this.#onAgain?.();
      else this.#poll(Math.min(1.5 * delay, MAX_DELAY));
    }, delay);
    this.#timer = timer;
  }
}
