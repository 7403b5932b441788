/** Uploads a file, chosen or dropped, and offers its translation for download. */

import { find } from "./elements.js";

/**
 * @param {string} name such as `letter.srt`
 * @param {string} language
 */
function translatedName(name, language) {
  const dot = name.lastIndexOf(".");
  return dot < 1 ? `${name}.${language}` : `${name.slice(0, dot)}.${language}${name.slice(dot)}`;
}

/** The file field and the link to the translation. */
export class FileUpload {
  /** @type {HTMLInputElement} */
  #input = find("file");
  #line = find("download-line");
  /** @type {HTMLAnchorElement} */
  #link = find("download");
  #formats;
  #notices;
  #send;

  /**
   * @param {string[]} formats suffixes that the server accepts, such as `.srt`
   * @param {import("./notices.js").Notices} notices
   * @param {(file: File) => Promise<{address: URL, language: string} | null>} send
   */
  constructor(formats, notices, send) {
    this.#formats = formats;
    this.#notices = notices;
    this.#send = send;
    find("file-field").hidden = false;
    this.#input.accept = formats.join(",");
    this.#input.addEventListener("change", () => this.#upload(this.#input.files));
    const pane = find("source-pane");
    pane.addEventListener("dragover", (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
    pane.addEventListener("drop", (event) => {
      if (!event.dataTransfer?.files.length) return; // a dropped text goes into the field
      event.preventDefault();
      this.#upload(event.dataTransfer.files);
    });
  }

  /** Takes the link away, as there is another text. */
  forget() {
    this.#line.hidden = true;
  }

  /** @param {FileList | null} files */
  async #upload(files) {
    const file = files?.[0];
    if (!file) return;
    this.forget();
    this.#notices.clear();
    if (!this.#formats.some((ending) => file.name.toLowerCase().endsWith(ending))) {
      const accepted = this.#formats.join(", ");
      this.#notices.show("refused", `${file.name}: this server translates ${accepted} files.`);
      return;
    }
    const translated = await this.#send(file);
    this.#input.value = ""; // so that the same file can be chosen again
    if (!translated) return;
    const name = translatedName(file.name, translated.language);
    this.#link.href = translated.address.href;
    this.#link.download = name;
    this.#link.textContent = `Download ${name}`;
    this.#line.hidden = false;
    this.#link.focus();
  }
}
