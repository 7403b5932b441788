/** What this browser remembers between two visits; where it may not, it forgets. */

const PREFIX = "regard.";

/**
 * What was remembered under a name; null for nothing.
 *
 * @param {string} name
 * @returns {string | null}
 */
export function recall(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null; // a browser may be told to store nothing
  }
}

/**
 * @param {string} name
 * @param {string | null} value null to forget
 */
export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // a browser may be told to store nothing
  }
}
