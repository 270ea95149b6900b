// The dialog that asks for an API key, and the session of this browser that pictures are loaded by.
import { ask, keepKey, onKeyNeeded } from "./api";
import { el, find } from "./dom";
import type { SessionAnswer } from "./openapi";

let open: Promise<boolean> | null = null;

/** Asks who looks, and for a key where one is needed; `onother` hears that somebody signed in with another key. */
export async function startSession(onother: () => void): Promise<void> {
  onKeyNeeded(askForKey);
  find("other-key").addEventListener("click", () => void askForKey("").then((taken) => taken && onother()));
  const session = await ask<SessionAnswer>("/session");
  if (session.required && !session.permission) await askForKey("");
  else tell(session);
}

/** One dialog at a time: whoever asks meanwhile waits for the same key. */
function askForKey(why: string): Promise<boolean> {
  return (open ??= keyDialog(why).finally(() => (open = null)));
}

/** Hides what the key does not allow (see page.css), and shows by which key somebody is here. */
function tell({ required, permission, name }: SessionAnswer): void {
  document.body.classList.toggle("read-only", permission === "read");
  const other = find("other-key");
  other.hidden = !required;
  other.title = `Signed in as ${name}, which may ${permission}`;
}

/** True once a key was taken, false where the user gave up. */
function keyDialog(why: string): Promise<boolean> {
  return new Promise((resolve) => {
    const key = el("input", { id: "key", type: "password", required: true, autocomplete: "off" });
    const fault = el("p", { class: "fault", role: "alert" }, why);
    const dialog = el(
      "dialog",
      { "aria-labelledby": "key-title", class: "small", onclose: () => (dialog.remove(), resolve(dialog.returnValue === "taken")) },
      el(
        "form",
        { onsubmit: (event: SubmitEvent) => (event.preventDefault(), void signIn(key, fault, dialog)) },
        el("h2", { id: "key-title" }, "This library asks for a key"),
        fault,
        el("label", { for: "key" }, "API key"),
        key,
        el("button", { type: "submit" }, "Sign in"),
        el("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

async function signIn(key: HTMLInputElement, fault: HTMLElement, dialog: HTMLDialogElement): Promise<void> {
  const body = JSON.stringify({ key: key.value.trim() });
  const headers = { "Content-Type": "application/json" };
  const response = await fetch("/session", { method: "POST", headers, body }).catch(() => null);
  if (!response) {
    fault.textContent = "The service does not answer; try again.";
    return;
  }
  if (response.ok) {
    keepKey(key.value.trim());
    tell(await response.json());
    dialog.close("taken");
    return;
  }
  const problem = await response.json().catch(() => ({}));
  fault.textContent = problem.detail ?? `The service answered ${response.status}.`;
}
