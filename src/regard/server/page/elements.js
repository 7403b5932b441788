/** The elements of index.html. */

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @returns {T}
 */
export function find(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element with the id ${id}`);
  return /** @type {T} */ (element);
}
