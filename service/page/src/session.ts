// The session of this browser: by which key somebody is here, whether pictures load by it, and what it allows.
import { ask, onKeyNeeded } from "./api";
import { find } from "./dom";
import { KeyRefused, keyDialog } from "./keydialog";
import type { SessionAnswer } from "./openapi";
import { forgetKey, keepKey, keptKey } from "./tab";
import { isolated } from "./text";

const KEY_WANTED = "This service wants a key.";

let open: Promise<boolean> | null = null;
let signedIn = ""; // by which key, in words; "" for none

/** Lets requests ask for a key; `onother` hears that somebody signed in with another key. */
export function offerKeys(onother: () => void): void {
  onKeyNeeded(askForKey);
  find("other-key").addEventListener("click", () => void askForKey(signedIn).then((taken) => taken && onother()));
}

/** Asks who looks, and for a key where one is needed. Error where none is given. */
export async function checkSession(): Promise<void> {
  const key = keptKey();
  // Pictures are loaded by the cookie, which is gone where another tab signed out, or in with another key.
  if (key) await sendKey(key); // a wrong one is told by what is asked next
  const session = await ask<SessionAnswer>("/session");
  if (key !== keptKey()) return checkSession(); // somebody signed in while it was under way
  tell(session);
  if (session.required && !session.permission && !(await askForKey(KEY_WANTED))) throw new Error(KEY_WANTED);
}

/**
 * Has pictures load once more that could not be loaded since another tab signed out, and so took the cookie: once for each
 * time that the tab is looked at, as what else keeps a picture from loading stays.
 */
export function keepPictures(): void {
  let isTried = false;
  const renew = async () => {
    if (isTried || document.hidden || !signedIn || !lost().length) return;
    isTried = true;
    await checkSession().catch(() => {}); // told by what is asked next
    loadLost();
  };
  document.addEventListener("error", () => void renew(), true); // such events do not bubble
  document.addEventListener("visibilitychange", () => {
    isTried = false;
    void renew();
  });
}

function loadLost(): void {
  for (const image of lost()) image.setAttribute("src", image.src);
}

/** Pictures of the service that could not be loaded. */
function lost(): HTMLImageElement[] {
  const isLost = (one: HTMLImageElement) => one.complete && !one.naturalWidth;
  return [...document.images].filter((one) => one.src.startsWith(`${location.origin}/images/`) && isLost(one));
}

/** Whether whoever is here may change the library. */
export function mayChange(): boolean {
  return !document.body.classList.contains("read-only");
}

/** One dialog at a time: whoever asks meanwhile waits for the same key. */
function askForKey(why: string): Promise<boolean> {
  find("other-key").hidden = false; // whoever gives up can come back to it
  const title = signedIn ? "Another key, or none" : KEY_WANTED.replace(/\.$/, "");
  const said = why === KEY_WANTED ? "" : why;
  open ??= keyDialog(title, said, signIn, signedIn ? signOut : null).finally(() => {
    open = null;
  });
  return open;
}

/** Hides what the key does not allow (see frame.css), and keeps by which key somebody is here. */
function tell({ required, permission, name }: SessionAnswer): void {
  document.body.classList.toggle("read-only", permission !== "write" && permission !== "admin");
  signedIn = required && permission ? `Signed in as ${isolated(name ?? "")}, which may ${permission}` : "";
  const other = find("other-key");
  other.hidden = !required;
  other.title = signedIn;
  find("viewing").hidden = !required || !permission || mayChange() || !!keptKey();
}

/** Forgets the key, and loads the page anew, which then has nothing of what it showed. */
async function signOut(): Promise<void> {
  await ask("/session", { method: "DELETE" });
  forgetKey();
  location.reload();
}

/** The answer to a key, with which the cookie comes; null where there is none. */
function sendKey(key: string): Promise<Response | null> {
  const headers = { "Content-Type": "application/json" };
  return fetch("/session", { method: "POST", headers, body: JSON.stringify({ key }) }).catch(() => null);
}

async function signIn(key: string): Promise<void> {
  const response = await sendKey(key);
  if (!response) throw new Error("The service does not answer; try again.");
  if (!response.ok) {
    const { detail } = await response.json().catch(() => ({}));
    throw new KeyRefused(detail ?? `The service answered ${response.status}.`);
  }
  keepKey(key);
  tell(await response.json());
  loadLost();
}
