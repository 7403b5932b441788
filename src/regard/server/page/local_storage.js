/** The local storage of the browser, which may be disabled. */

const PREFIX = "regard.";

/** @param {string} name of the stored value that is returned; null where there is none */
export function loadItem(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null; // a browser may be told to store nothing
  }
}

/**
 * @param {string} name
 * @param {string | null} value null to delete
 */
export function saveItem(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // a browser may be told to store nothing
  }
}
