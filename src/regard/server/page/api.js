/** The server's HTTP API as functions, which throw ApiError. */

import { readEvents } from "./events.js";

const ATTEMPTS = 6;
const STREAMLESS = new Set([404, 405, 501]);
/** The kinds of errors of some statuses; 502, and 504 without a reason, are a proxy's that has lost its server. */
const KINDS = /** @type {Object<number, ErrorKind>} */ ({
  401: "key", 403: "key", 413: "long", 429: "busy", 502: "offline", 503: "busy", 504: "offline",
});

/**
 * @typedef {"busy" | "key" | "long" | "offline" | "refused" | "failed"} ErrorKind
 * @typedef {{source: string, target: string}} Sentence
 * @typedef {{translatedText: string, sentences?: Sentence[],
 *   detectedLanguage?: {language: string, confidence: number}}} Translation only a stream has
 *   the sentences
 * @typedef {{code: string, name: string, targets: string[]}} Language
 * @typedef {{charLimit: number, alternativesLimit: number, frontendTimeout: number,
 *   keyRequired: boolean,
 *   filesTranslation: boolean, supportedFilesFormat: string[],
 *   language: {source: {code: string}, target: {code: string}},
 *   examples: {source: string, target: string, text: string}[]}} ServerSettings
 * @typedef {{source: string, target: string}} Pair
 * @typedef {{signal: AbortSignal, onWait?: (seconds: number) => void}} RetryOptions
 */

/** An error by its kind; `seconds` is the Retry-After of a busy server. */
export class ApiError extends Error {
  /**
   * @param {ErrorKind} kind
   * @param {string} message
   * @param {{seconds?: number, status?: number}} [more]
   */
  constructor(kind, message, { seconds = 0, status = 0 } = {}) {
    super(message);
    this.kind = kind;
    this.seconds = seconds;
    this.status = status;
  }
}

/** @param {Response} response other than 2xx */
async function errorOf(response) {
  const { status } = response;
  const body = await response.json().catch(() => ({}));
  const seconds = Math.max(1, Number(response.headers.get("Retry-After")) || 1);
  const tookTooLong = status === 504 && body.error; // the server itself says so
  const kind = tookTooLong ? "failed" : KINDS[status] ?? (status < 500 ? "refused" : "failed");
  return new ApiError(kind, body.error ?? `The server answered ${status}.`, { seconds, status });
}

/**
 * @param {string} path relative to the page, so that it works behind a proxy's prefix
 * @param {RequestInit} init
 */
async function request(path, init) {
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError("offline", "The server cannot be reached.");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

/**
 * The result of `attempt`, which is repeated after Retry-After while the server is busy.
 *
 * @template T
 * @param {() => Promise<T>} attempt
 * @param {RetryOptions} options
 * @returns {Promise<T>}
 */
async function retryWhenBusy(attempt, { signal, onWait }) {
  for (let left = ATTEMPTS; ; left--) {
    try {
      const found = await attempt();
      signal.throwIfAborted(); // a response that arrives late is stale
      return found;
    } catch (error) {
      if (!(error instanceof ApiError) || error.kind !== "busy" || left === 1) throw error;
      onWait?.(error.seconds);
      await new Promise((resolve) => setTimeout(resolve, 1000 * error.seconds));
      signal.throwIfAborted();
    }
  }
}

/** A client of the server that sends the user's key, if any. */
export class Api {
  #key;
  #streams = true;

  /** @param {() => string} key the value of the key field; empty for none */
  constructor(key) {
    this.#key = key;
  }

  /** Whether the server answers and is ready. */
  async isReady() {
    return request("ready", { cache: "no-store" }).then(() => true, () => false);
  }

  /** @returns {Promise<ServerSettings>} */
  async settings() {
    return (await request("frontend/settings", {})).json();
  }

  /** @returns {Promise<Language[]>} */
  async languages() {
    return (await request("languages", {})).json();
  }

  /**
   * The translation; `onPartial` is called with partial translations.
   *
   * @param {string} text
   * @param {Pair & {alternatives: number}} options
   * @param {RetryOptions & {onPartial: (text: string) => void}} retry
   * @returns {Promise<Translation>}
   */
  translate(text, options, retry) {
    const body = { q: text, format: "text", ...options };
    return retryWhenBusy(async () => {
      const streamed = this.#streams ? await this.#stream(body, retry) : null;
      return streamed ?? (await this.#post("translate", body, retry.signal)).json();
    }, retry);
  }

  /**
   * The viewer document of one sentence of a text.
   *
   * @param {string} text
   * @param {Pair & {sentence: number, changes: import("./state.js").Change[],
   *   alternatives: number, tree: boolean}} options
   * @param {RetryOptions} retry
   * @returns {Promise<any>}
   */
  attention(text, options, retry) {
    const body = { q: text, ...options };
    const look = async () => (await this.#post("attention", body, retry.signal)).json();
    return retryWhenBusy(look, retry);
  }

  /**
   * The URL of the translation of a file.
   *
   * @param {File} file
   * @param {Pair} pair
   * @param {RetryOptions} retry
   * @returns {Promise<URL>}
   */
  translateFile(file, { source, target }, retry) {
    const form = new FormData();
    for (const [name, value] of Object.entries({ source, target, api_key: this.#key(), file })) {
      if (value) form.append(name, value);
    }
    return retryWhenBusy(async () => {
      const init = { method: "POST", body: form, signal: retry.signal };
      const { translatedFileUrl } = await (await request("translate_file", init)).json();
      // behind a proxy the server may know itself by another name than the browser does
      const name = new URL(translatedFileUrl, document.baseURI).pathname.split("/").pop();
      return new URL(`download_file/${name}`, document.baseURI);
    }, retry);
  }

  /**
   * @param {string} path
   * @param {object} body
   * @param {AbortSignal} signal
   */
  #post(path, body, signal) {
    const key = this.#key();
    return request(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(key ? { ...body, api_key: key } : body),
      signal,
    });
  }

  /**
   * The streamed translation; null if the server cannot stream or the stream broke off.
   *
   * @param {object} body
   * @param {{signal: AbortSignal, onPartial: (text: string) => void}} retry
   * @returns {Promise<Translation | null>}
   */
  async #stream(body, { signal, onPartial }) {
    let response;
    try {
      response = await this.#post("translate/stream", body, signal);
    } catch (error) {
      if (!(error instanceof ApiError) || !STREAMLESS.has(error.status)) throw error;
      this.#streams = false;
      return null;
    }
    if (!response.body) return null;
    try {
      for await (const { event, data } of readEvents(response.body)) {
        signal.throwIfAborted();
        const message = JSON.parse(data);
        if (event === "partial") onPartial(message.text);
        else if (event === "done") return message;
        else if (event === "error") throw new ApiError("failed", message.error);
      }
    } catch (error) {
      if (signal.aborted || error instanceof ApiError) throw error;
    }
    return null;
  }
}
