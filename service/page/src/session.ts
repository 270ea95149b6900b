// The session of this browser: the key signed in with, the cookie for pictures, and the permissions.
import { ask, onKeyNeeded } from "./api";
import { find, loadAgain } from "./dom";
import { KeyRefused, keyDialog } from "./keydialog";
import type { SessionAnswer } from "./openapi";
import { forgetKey, keepKey, keptKey } from "./tab";
import { isolated } from "./text";

const KEY_WANTED = "This service wants a key.";
/** Permission -> what it allows, in words. */
const MAY = { read: "only view pictures", write: "view, add and change pictures", admin: "do everything" };

let open: Promise<boolean> | null = null;
let signedIn = ""; // a description of the key; "" if nobody is signed in

/** Lets requests ask for a key; `onother` is called after signing in with another key. */
export function offerKeys(onother: () => void): void {
  onKeyNeeded(askForKey);
  find("other-key").addEventListener("click", () => void askForKey(signedIn).then((taken) => taken && onother()));
}

/** Loads the session, and asks for a key if one is needed. Error if none is given. */
export async function checkSession(): Promise<void> {
  const key = keptKey();
  // Renews the cookie for pictures, which is lost if another tab signed out or in with another key.
  if (key) await sendKey(key); // the next request reports a wrong key
  const session = await ask<SessionAnswer>("/session");
  if (key !== keptKey()) return checkSession(); // the user signed in meanwhile
  tell(session);
  if (session.required && !session.permission && !(await askForKey(KEY_WANTED))) throw new Error(KEY_WANTED);
}

/**
 * Reloads pictures that failed because another tab signed out and so removed the cookie: once each time the tab becomes
 * visible, since other errors would persist.
 */
export function keepPictures(): void {
  let isTried = false;
  const renew = async () => {
    if (isTried || document.hidden || !signedIn || !lost().length) return;
    isTried = true;
    await checkSession().catch(() => {}); // the next request reports errors
    loadLost();
  };
  document.addEventListener("error", () => void renew(), true); // such events do not bubble
  document.addEventListener("visibilitychange", () => {
    isTried = false;
    void renew();
  });
}

function loadLost(): void {
  for (const image of lost()) loadAgain(image);
}

/** Pictures of the service that could not be loaded. */
function lost(): HTMLImageElement[] {
  const isLost = (one: HTMLImageElement) => one.complete && !one.naturalWidth;
  return [...document.images].filter((one) => one.src.startsWith(`${location.origin}/images/`) && isLost(one));
}

/** Whether the user may change the library. */
export function mayChange(): boolean {
  return !document.body.classList.contains("read-only");
}

/** Shows one dialog at a time: concurrent requests wait for the same key. */
function askForKey(why: string): Promise<boolean> {
  find("other-key").hidden = false; // to try again after giving up
  const title = signedIn ? "Another key, or none" : KEY_WANTED.replace(/\.$/, "");
  const said = why === KEY_WANTED ? "" : why;
  open ??= keyDialog(title, said, signIn, signedIn ? signOut : null).finally(() => {
    open = null;
  });
  return open;
}

/** Hides controls that the key does not permit (see frame.css), and shows who is signed in. */
function tell({ required, permission, name }: SessionAnswer): void {
  document.body.classList.toggle("read-only", permission !== "write" && permission !== "admin");
  signedIn = required && permission ? `Signed in as ${isolated(name ?? "")}, which may ${MAY[permission]}` : "";
  const other = find("other-key");
  other.hidden = !required;
  other.title = signedIn;
  find("viewing").hidden = !required || !permission || mayChange() || !!keptKey();
}

/** Forgets the key, and reloads the page to remove what it shows. */
async function signOut(): Promise<void> {
  await ask("/session", { method: "DELETE" });
  forgetKey();
  location.reload();
}

/** The answer to a key, which sets the cookie; null without an answer. */
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
