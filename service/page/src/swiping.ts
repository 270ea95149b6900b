// Horizontal swipes with one finger, which turn over pictures on a touch screen.
const LEAST_PX = 50;
const STEEPEST = 0.5; // largest ratio of vertical to horizontal distance; steeper gestures scroll

/** `onswipe` gets 1 for a swipe to the left (forward), and -1 for one to the right. */
export function onSwipe(element: HTMLElement, onswipe: (by: 1 | -1) => void): void {
  let from: Touch | null = null;
  element.addEventListener(
    "touchstart",
    ({ touches, target }) => {
      const isField = target instanceof Element && target.matches("input, textarea"); // swipes select text there
      const isWhole = (visualViewport?.scale ?? 1) < 1.01; // otherwise it pans the zoomed page
      from = touches.length === 1 && isWhole && !isField ? touches[0]! : null;
    },
    { passive: true },
  );
  element.addEventListener("touchcancel", () => (from = null));
  element.addEventListener("touchend", ({ changedTouches: [to] }) => {
    if (!from || !to) return;
    const [across, down] = [to.clientX - from.clientX, to.clientY - from.clientY];
    from = null;
    if (Math.abs(across) >= LEAST_PX && Math.abs(down) <= STEEPEST * Math.abs(across)) onswipe(across < 0 ? 1 : -1);
  });
}
