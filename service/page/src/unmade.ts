// Pictures whose thumbnail or file to show the service has yet to make.
import { pause, Refusal, secondsOf } from "./api";
import { loadAgain } from "./dom";

/**
 * Loads such pictures again once they can be had. The service makes a few at a time and refuses more, and over HTTP/2 a
 * browser asks for all of a list at once.
 */
export function awaitPictures(): void {
  const awaited = new WeakSet<HTMLImageElement>();
  const wait = ({ target }: Event) => {
    if (!(target instanceof HTMLImageElement) || awaited.has(target)) return;
    if (!target.src.startsWith(`${location.origin}/images/`)) return;
    awaited.add(target); // once: a picture that comes and cannot be shown stays so
    void showOnceMade(target);
  };
  document.addEventListener("error", wait, true); // such events do not bubble
}

async function showOnceMade(image: HTMLImageElement): Promise<void> {
  for (;;) {
    const answer = await fetch(image.src, { method: "HEAD" }).catch(() => null); // an element tells no status
    if (answer?.ok) return loadAgain(image);
    const retryAfter = secondsOf(answer?.headers.get("Retry-After") ?? null);
    if (answer?.status !== 503 || Number.isNaN(retryAfter) || !image.isConnected) return;
    await pause(new Refusal(503, {}, retryAfter));
  }
}
