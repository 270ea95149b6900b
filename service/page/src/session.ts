// The dialog that asks for an API key, and the session of this browser that pictures are loaded by.
import { ask, forgetKey, keepKey, keptKey, onKeyNeeded } from "./api";
import { el, find, mark, workButton } from "./dom";
import type { SessionAnswer } from "./openapi";
import { isolated, messageOf } from "./text";

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
  open ??= keyDialog(why).finally(() => {
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

/** True once a key was taken, false where the user gave up. `why` it is asked for, or who is here so far. */
function keyDialog(why: string): Promise<boolean> {
  find("other-key").hidden = false; // whoever gives up can come back to it
  return new Promise((resolve) => {
    const key = el("input", { id: "key", type: "password", required: true, autocomplete: "current-password" });
    // For password managers, which keep no secret without a name.
    const name = el("input", {
      class: "hidden",
      type: "text",
      autocomplete: "username",
      value: "Regard",
      readonly: true,
      tabindex: -1,
      "aria-hidden": "true",
    });
    const fault = el("p", { id: "key-fault", class: "fault", role: "alert" });
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      void signIn(key, fault, dialog);
    };
    const closed = () => {
      dialog.remove();
      const focused = document.activeElement as HTMLElement | null;
      focused?.blur(); // what was given the focus behind a dialog takes no text in some browsers
      focused?.focus();
      resolve(dialog.returnValue === "taken");
    };
    const dialog = el(
      "dialog",
      { "aria-labelledby": "key-title", class: "small", onclose: closed },
      el(
        "form",
        { onsubmit: submit },
        el("h2", { id: "key-title" }, signedIn ? "Another key, or none" : KEY_WANTED.replace(/\.$/, "")),
        why && why !== KEY_WANTED && el("p", {}, why),
        el(
          "p",
          { class: "quiet" },
          "Whoever runs the service makes one with ",
          el("code", {}, "regard keys create"),
          ".",
        ),
        fault,
        name,
        el("label", { for: "key" }, "API key"),
        key,
        el(
          "p",
          { class: "actions" },
          el("button", { type: "submit", class: "main" }, "Sign in"),
          el("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
          signedIn && workButton("Sign out", () => signOut(fault)),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Forgets the key, and loads the page anew, which then has nothing of what it showed. */
async function signOut(fault: HTMLElement): Promise<void> {
  try {
    await ask("/session", { method: "DELETE" });
  } catch (refused) {
    fault.textContent = messageOf(refused);
    return;
  }
  forgetKey();
  location.reload();
}

/** The answer to a key, with which the cookie comes; null where there is none. */
function sendKey(key: string): Promise<Response | null> {
  const headers = { "Content-Type": "application/json" };
  return fetch("/session", { method: "POST", headers, body: JSON.stringify({ key }) }).catch(() => null);
}

async function signIn(key: HTMLInputElement, fault: HTMLElement, dialog: HTMLDialogElement): Promise<void> {
  const response = await sendKey(key.value.trim());
  if (!response) {
    fault.textContent = "The service does not answer; try again.";
    return;
  }
  if (response.ok) {
    keepKey(key.value.trim());
    tell(await response.json());
    loadLost();
    dialog.close("taken");
    return;
  }
  const problem = await response.json().catch(() => ({}));
  mark(key, true, fault.id);
  fault.textContent = problem.detail ?? `The service answered ${response.status}.`;
}
