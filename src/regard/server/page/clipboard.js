/** Copies a text, also on pages that were loaded by plain HTTP. */

/**
 * Copies a text; whether that succeeded.
 *
 * @param {string} text
 * @returns {Promise<boolean>}
 */
export async function copyText(text) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => copySelected(text),
    );
  }
  return copySelected(text);
}

/**
 * Copies by the selection: browsers have `navigator.clipboard` only with TLS.
 *
 * @param {string} text
 */
function copySelected(text) {
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.className = "unseen";
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
