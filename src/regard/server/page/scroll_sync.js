/** Keeps a text and its translation scrolled to the same place. */

/** @param {HTMLElement} pane */
const scrollRange = (pane) => pane.scrollHeight - pane.clientHeight;

/**
 * Scrolls each of two elements when the other is scrolled.
 *
 * @param {HTMLElement} first
 * @param {HTMLElement} second
 */
export function syncScroll(first, second) {
  /** @type {HTMLElement | null} */
  let following = null;
  for (const [leader, follower] of [[first, second], [second, first]]) {
    leader.addEventListener("scroll", () => {
      const isEcho = following === leader;
      following = null;
      if (isEcho || !scrollRange(leader)) return;
      const former = follower.scrollTop;
      follower.scrollTop = (leader.scrollTop / scrollRange(leader)) * scrollRange(follower);
      if (follower.scrollTop !== former) following = follower;
    });
  }
}
