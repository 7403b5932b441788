/** The server's HTTP API as functions; whatever goes wrong is an ApiError of a known kind. */

import { readEvents } from "./events.js";

const ATTEMPTS = 6;
const STREAMLESS = new Set([404, 405, 501]);

/**
 * @typedef {"busy" | "key" | "long" | "offline" | "refused" | "failed"} ErrorKind
 * @typedef {import("./state.js").Change} Change
 * @typedef {{source: string, target: string}} Sentence
 * @typedef {{translatedText: string, sentences?: Sentence[],
 *   detectedLanguage?: {language: string, confidence: number}}} Translation only a stream tells of
 *   the sentences
 * @typedef {{code: string, name: string, targets: string[]}} Language
 * @typedef {{charLimit: number, alternativesLimit: number, frontendTimeout: number,
 *   keyRequired: boolean,
 *   filesTranslation: boolean, supportedFilesFormat: string[],
 *   language: {source: {code: string}, target: {code: string}}}} ServerSettings
 * @typedef {{source: string, target: string}} Pair
 * @typedef {{signal: AbortSignal, onWait?: (seconds: number) => void}} Patience
 */

/** What went wrong, by its kind; `seconds` is how long a busy server asks to be left alone. */
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

/**
 * @param {number} status
 * @returns {ErrorKind}
 */
function kindOf(status) {
  if (status === 503 || status === 429) return "busy";
  if (status === 401 || status === 403) return "key";
  if (status === 413) return "long";
  if (status === 502 || status === 504) return "offline"; // a proxy that has lost its server
  return status < 500 ? "refused" : "failed";
}

/**
 * The error that an answer other than 2xx stands for.
 *
 * @param {Response} response
 */
async function errorOf(response) {
  const { status } = response;
  const said = await response.json().catch(() => ({}));
  const seconds = Math.max(1, Number(response.headers.get("Retry-After")) || 1);
  return new ApiError(kindOf(status), said.error ?? `The server answered ${status}.`, {
    seconds,
    status,
  });
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
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 */
function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}

/**
 * What `attempt` gives; a busy server is asked again after the time it names.
 *
 * @template T
 * @param {() => Promise<T>} attempt
 * @param {Patience} patience
 * @returns {Promise<T>}
 */
async function patiently(attempt, { signal, onWait }) {
  for (let left = ATTEMPTS; ; left--) {
    try {
      const found = await attempt();
      signal.throwIfAborted(); // what had already arrived is stale all the same
      return found;
    } catch (error) {
      if (!(error instanceof ApiError) || error.kind !== "busy" || left === 1) throw error;
      onWait?.(error.seconds);
      await pause(error.seconds * 1000, signal);
    }
  }
}

/** The server, asked with the key that the user gave, if any. */
export class Api {
  #key;
  #streams = true;

  /** @param {() => string} key what the key field holds now; empty for none */
  constructor(key) {
    this.#key = key;
  }

  /** Whether the server answers, and is ready to. */
  async isReady() {
    return request("ready", { cache: "no-store" }).then(
      () => true,
      () => false,
    );
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
   * The translation; `onPartial` is told what there is of it so far.
   *
   * @param {string} text
   * @param {Pair & {alternatives: number}} wish
   * @param {Patience & {onPartial: (text: string) => void}} how
   * @returns {Promise<Translation>}
   */
  translate(text, wish, how) {
    const body = { q: text, format: "text", ...wish };
    return patiently(async () => {
      const streamed = this.#streams ? await this.#stream(body, how) : null;
      return streamed ?? (await this.#post("translate", body, how.signal)).json();
    }, how);
  }

  /**
   * The look document of one sentence of a text, which says which of how many.
   *
   * @param {string} text
   * @param {Pair & {sentence: number, changes: Change[], alternatives: number, tree: boolean}} wish
   * @param {Patience} how
   * @returns {Promise<any>}
   */
  attention(text, wish, how) {
    return patiently(
      async () => (await this.#post("attention", { q: text, ...wish }, how.signal)).json(),
      how,
    );
  }

  /**
   * Where the translation of a file can be fetched, on this server.
   *
   * @param {File} file
   * @param {Pair} pair
   * @param {Patience} how
   * @returns {Promise<URL>}
   */
  translateFile(file, { source, target }, how) {
    const form = new FormData();
    for (const [name, value] of Object.entries({ source, target, api_key: this.#key() })) {
      if (value) form.append(name, value);
    }
    form.append("file", file);
    return patiently(async () => {
      const answer = await request("translate_file", {
        method: "POST",
        body: form,
        signal: how.signal,
      });
      const { translatedFileUrl } = await answer.json();
      // behind a proxy the server may know itself by another name than the browser does
      const name = new URL(translatedFileUrl, document.baseURI).pathname.split("/").pop();
      return new URL(`download_file/${name}`, document.baseURI);
    }, how);
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
   * The translation as it grows; null where it cannot be streamed, or broke off.
   *
   * @param {object} body
   * @param {{signal: AbortSignal, onPartial: (text: string) => void}} how
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
        const said = JSON.parse(data);
        if (event === "partial") onPartial(said.text);
        else if (event === "done") return said;
        else if (event === "error") throw new ApiError("failed", said.error);
      }
    } catch (error) {
      if (signal.aborted || error instanceof ApiError) throw error;
    }
    return null;
  }
}
