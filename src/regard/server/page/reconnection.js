/** Polls a server that could not be reached. */

const FIRST_DELAY = 2000; // milliseconds
const MAX_DELAY = 15_000;

/** Polls with growing delays. */
export class Reconnection {
  #isBack;
  #timer = 0;

  /** @param {() => Promise<boolean>} isBack whether the server answers */
  constructor(isBack) {
    this.#isBack = isBack;
  }

  /** @param {() => void} onBack called once the server is back, unless `stop` is called before */
  watch(onBack) {
    this.stop();
    this.#poll(FIRST_DELAY, onBack);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  /**
   * @param {number} delay
   * @param {() => void} onBack
   */
  #poll(delay, onBack) {
    const timer = setTimeout(async () => {
      const isBack = await this.#isBack();
      if (timer !== this.#timer) return; // stopped meanwhile
      if (isBack) onBack();
      else this.#poll(Math.min(1.5 * delay, MAX_DELAY), onBack);
    }, delay);
    this.#timer = timer;
  }
}
