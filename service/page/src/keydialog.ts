// The dialog that asks for an API key.
import { button, el, mark, workButton } from "./dom";
import { messageOf } from "./text";

/** The service refuses the key. */
export class KeyRefused extends Error {}

/**
 * Shows the dialog. Resolves to true once a key was accepted, false if the user gave up. `why`: the reason, or who is
 * signed in.
 *
 * `signIn` throws KeyRefused, or another Error if the service did not answer; `signOut` is null if nobody is signed in.
 */
export function keyDialog(
  title: string,
  why: string,
  signIn: (key: string) => Promise<void>,
  signOut: (() => Promise<void>) | null,
): Promise<boolean> {
  const key = el("input", { id: "key", type: "password", required: true, autocomplete: "current-password" });
  const fault = el("p", { id: "key-fault", class: "fault", role: "alert" });
  const take = async (event: SubmitEvent) => {
    event.preventDefault();
    try {
      await signIn(key.value.replace(/\s/g, "")); // mail programs break long words
      dialog.close("taken");
    } catch (refused) {
      if (refused instanceof KeyRefused) mark(key, true, fault.id);
      fault.textContent = messageOf(refused);
    }
  };
  const leave = async () => {
    await signOut?.().catch((refused) => {
      fault.textContent = messageOf(refused);
    });
  };
  const dialog = el(
    "dialog",
    { "aria-labelledby": "key-title", class: "small" },
    el(
      "form",
      { onsubmit: (event: SubmitEvent) => void take(event) },
      el("h2", { id: "key-title" }, title),
      why && el("p", {}, why),
      el(
        "p",
        { class: "quiet" },
        "Paste the key that you were given. Whoever runs the service makes one with ",
        el("code", {}, "regard keys create"),
        ".",
      ),
      fault,
      userName(),
      el("label", { for: "key" }, "API key"),
      key,
      el(
        "p",
        { class: "actions" },
        el("button", { type: "submit", class: "main" }, "Sign in"),
        button("Cancel", () => dialog.close()),
        signOut && workButton("Sign out", leave),
      ),
    ),
  );
  return shown(dialog, key);
}

/** For password managers, which store no password without a user name. */
function userName(): HTMLElement {
  const hidden = { class: "hidden", readonly: true, tabindex: -1, "aria-hidden": "true" };
  return el("input", { type: "text", autocomplete: "username", value: "Regard", ...hidden });
}

/** Shows a dialog, with the focus on a field, until it is closed. Resolves to whether a key was accepted. */
function shown(dialog: HTMLDialogElement, field: HTMLElement): Promise<boolean> {
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      const focused = document.activeElement as HTMLElement | null;
      focused?.blur(); // in some browsers an element focused behind a dialog takes no text
      focused?.focus();
      resolve(dialog.returnValue === "taken");
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus(); // the browser chooses the first field, even if it is hidden
  });
}
