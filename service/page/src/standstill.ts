// Why pictures go on waiting: what the service says of itself while their number stays the same.
import { ask, Refusal } from "./api";
import { messageOf } from "./text";

const STANDSTILL_MS = 15_000;

export class Standstill {
  #state = "";
  #since = 0;
  #reason = "";

  /** Why the service is not ready, if `state` has not changed for a while; "" otherwise, and if it does not say. */
  async reason(state: string): Promise<string> {
    const now = performance.now();
    if (state !== this.#state) [this.#state, this.#since, this.#reason] = [state, now, ""];
    if (now - this.#since < STANDSTILL_MS) return this.#reason;
    this.#since = now;
    this.#reason = await whyNotReady();
    return this.#reason;
  }
}

async function whyNotReady(): Promise<string> {
  try {
    await ask("/readyz");
    return "";
  } catch (fault) {
    return fault instanceof Refusal ? `The service is not ready: ${messageOf(fault)}.` : "";
  }
}
