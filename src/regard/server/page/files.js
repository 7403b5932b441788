/** Translating a whole file: chosen or dropped, sent, and offered for download. */

import { find } from "./elements.js";

/**
 * @typedef {import("./notices.js").Notices} Notices
 */

/**
 * @param {string} name such as `letter.srt`
 * @param {string} language
 */
function translatedName(name, language) {
  const dot = name.lastIndexOf(".");
  return dot < 1 ? `${name}.${language}` : `${name.slice(0, dot)}.${language}${name.slice(dot)}`;
}

/** The field that takes a file and the link to its translation. */
export class FileDesk {
  /** @type {HTMLInputElement} */
  #input = find("file");
  #delivery = find("delivery");
  /** @type {HTMLAnchorElement} */
  #link = find("download");
  #formats;
  #notices;
  #send;

  /**
   * @param {string[]} formats endings that the server takes, such as `.srt`
   * @param {Notices} notices
   * @param {(file: File) => Promise<{address: URL, language: string} | null>} send
   */
  constructor(formats, notices, send) {
    this.#formats = formats;
    this.#notices = notices;
    this.#send = send;
    find("file-field").hidden = false;
    this.#input.accept = formats.join(",");
    this.#input.addEventListener("change", () => this.#take(this.#input.files));
    const pane = find("source-pane");
    pane.addEventListener("dragover", (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
    pane.addEventListener("drop", (event) => {
      if (!event.dataTransfer?.files.length) return; // a dropped text goes into the field
      event.preventDefault();
      this.#take(event.dataTransfer.files);
    });
  }

  /** @param {FileList | null} files */
  async #take(files) {
    const file = files?.[0];
    if (!file) return;
    this.#delivery.hidden = true;
    this.#notices.clear();
    if (!this.#formats.some((ending) => file.name.toLowerCase().endsWith(ending))) {
      const taken = this.#formats.join(", ");
      this.#notices.say("refused", `${file.name}: this server translates ${taken} files.`);
      return;
    }
    const sent = await this.#send(file);
    this.#input.value = ""; // so that the same file can be chosen again
    if (sent) this.#deliver(sent.address, translatedName(file.name, sent.language));
  }

  /**
   * @param {URL} address
   * @param {string} name
   */
  #deliver(address, name) {
    this.#link.href = address.href;
    this.#link.download = name;
    this.#link.textContent = `Download ${name}`;
    this.#delivery.hidden = false;
    this.#link.focus();
  }
}
