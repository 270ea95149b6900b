// Work with feedback: long waits are shown, and errors are shown and retried.
import { canBeTriedAgain, isAnswering, isPassing, Refusal, Unreachable } from "./api";
import { button, el, find } from "./dom";
import { messageOf } from "./text";

const MOMENT_MS = 400; // after which a wait is shown
const AGAIN_MS = 2000; // between checks whether the service is back

const main = find("main");
const status = find("status");
let running = 0;
let moment = 0;
let back = 0;

/**
 * Does the work; shows `waiting`, unless it is "", if it takes longer than a moment.
 *
 * `onfault` is called before an error is shown; `again` retries what is wanted at that time.
 */
export async function tried(
  work: () => Promise<void>,
  waiting: string,
  onfault: (fault: unknown) => void,
  again: () => void,
): Promise<void> {
  const told = begin(waiting);
  const hadFocus = status.contains(document.activeElement); // for example on “Try again”
  try {
    await work();
  } catch (fault) {
    onfault(fault);
    status.replaceChildren(el("span", { class: "fault" }, messageOf(fault)));
    if (canBeTriedAgain(fault)) status.append(" ", button("Try again", again));
    if (fault instanceof Unreachable) whenBack(again);
    if (fault instanceof Refusal && isPassing(fault) && fault.retryAfter > 0) afterPause(again, fault.retryAfter);
  } finally {
    end(told);
    if (hadFocus && document.activeElement === document.body)
      (status.querySelector("button") ?? main).focus({ preventScroll: true });
  }
}

/** Starts a wait. Returns the timer that shows its text after a moment; 0 if it has none. */
function begin(waiting: string): number {
  running++;
  clearTimeout(back);
  main.setAttribute("aria-busy", "true");
  if (!waiting) return 0;
  clearTimeout(moment);
  moment = setTimeout(() => {
    main.classList.add("late");
    status.textContent = waiting;
  }, MOMENT_MS);
  return moment;
}

/** Ends a wait, whose text is no longer shown. */
function end(told: number): void {
  if (told === moment) {
    clearTimeout(moment);
    main.classList.remove("late");
  }
  running--;
  if (!running) main.removeAttribute("aria-busy");
}

/**
 * Retries after the seconds that the service asks for; a hidden page waits longer. Work started meanwhile cancels it,
 * work started before does not.
 */
function afterPause(again: () => void, seconds: number): void {
  clearTimeout(back);
  back = setTimeout(() => {
    if (document.hidden) afterPause(again, seconds);
    else again();
  }, 1000 * seconds);
}

/** Retries as soon as the service answers; work started meanwhile cancels it. */
function whenBack(again: () => void): void {
  clearTimeout(back);
  const look = async () => {
    const mine = back;
    const isBack = await isAnswering();
    if (mine !== back) return;
    if (isBack) again();
    else whenBack(again);
  };
  back = setTimeout(() => void look(), AGAIN_MS);
}
