// The dialog that asks for an API key.
import { button, el, mark, workButton } from "./dom";
import { messageOf } from "./text";

/** The service does not take the key. */
export class KeyRefused extends Error {}

/**
 * True once a key was taken, false where the user gave up. `why` it is asked for, or who is here so far.
 *
 * `signIn` takes a key: KeyRefused, or any Error where it was not heard of; `signOut` is null where nobody is here.
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
      await signIn(key.value.trim());
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
        "Whoever runs the service makes one with ",
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
  return shown(dialog);
}

/** For password managers, which keep no secret without a name. */
function userName(): HTMLElement {
  const hidden = { class: "hidden", readonly: true, tabindex: -1, "aria-hidden": "true" };
  return el("input", { type: "text", autocomplete: "username", value: "Regard", ...hidden });
}

/** Shows a dialog until it is closed: whether that was since a key was taken. */
function shown(dialog: HTMLDialogElement): Promise<boolean> {
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      const focused = document.activeElement as HTMLElement | null;
      focused?.blur(); // what was given the focus behind a dialog takes no text in some browsers
      focused?.focus();
      resolve(dialog.returnValue === "taken");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
