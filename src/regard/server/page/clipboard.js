/** Copies texts, also on pages that were loaded by plain HTTP. */

import { make } from "../view/elements.js";

const COPIED_MILLISECONDS = 1500;

/**
 * Makes a button copy a text, and show that for a moment.
 *
 * @param {HTMLElement} button
 * @param {() => string} text
 */
export function enableCopy(button, text) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const copied = await navigator.clipboard?.writeText(text()).then(() => true, () => false);
    button.textContent = copied || copySelected(text()) ? "Copied" : "Could not copy";
    setTimeout(() => {
      button.textContent = label;
    }, COPIED_MILLISECONDS);
  });
}

/** @param {string} text copied by the selection: `navigator.clipboard` is there only with TLS */
function copySelected(text) {
  const focused = document.activeElement;
  const field = /** @type {HTMLTextAreaElement} */ (make("textarea", { class: "unseen" }, text));
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
