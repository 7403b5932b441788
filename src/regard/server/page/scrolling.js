/** Two panes that show the same place of a text and of its translation. */

/** @param {HTMLElement} pane */
const room = (pane) => pane.scrollHeight - pane.clientHeight;

/**
 * Lets each of two elements follow where the other is scrolled to.
 *
 * @param {HTMLElement} one
 * @param {HTMLElement} other
 */
export function scrollTogether(one, other) {
  /** @type {HTMLElement | null} */
  let following = null;
  /**
   * @param {HTMLElement} leader
   * @param {HTMLElement} follower
   */
  const lead = (leader, follower) => {
    leader.addEventListener("scroll", () => {
      const isEcho = following === leader;
      following = null;
      if (isEcho || !room(leader)) return;
      const former = follower.scrollTop;
      follower.scrollTop = (leader.scrollTop / room(leader)) * room(follower);
      if (follower.scrollTop !== former) following = follower;
    });
  };
  lead(one, other);
  lead(other, one);
}
