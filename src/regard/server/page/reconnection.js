/** Noticing that a server which could not be reached is back. */

const FIRST = 2000; // milliseconds
const LONGEST = 15_000;

/** Asks now and then whether the server is there, less and less often. */
export class Reconnection {
  #isBack;
  #timer = 0;

  /** @param {() => Promise<boolean>} isBack whether the server answers */
  constructor(isBack) {
    this.#isBack = isBack;
  }

  /** @param {() => void} onBack what to do once it is; nothing after `stop` */
  watch(onBack) {
    this.stop();
    this.#ask(FIRST, onBack);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  /**
   * @param {number} wait
   * @param {() => void} onBack
   */
  #ask(wait, onBack) {
    const timer = setTimeout(async () => {
      const isBack = await this.#isBack();
      if (timer !== this.#timer) return; // stopped meanwhile
      if (isBack) onBack();
      else this.#ask(Math.min(1.5 * wait, LONGEST), onBack);
    }, wait);
    this.#timer = timer;
  }
}
