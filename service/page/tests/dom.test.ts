import assert from "node:assert/strict";
import { test } from "node:test";
import { onEnterInList } from "../src/dom";

/** How often a field takes its text by itself, after events as a browser sends them; `/` separates a key. */
function taken(...events: string[]): number {
  const field = new EventTarget();
  let num = 0;
  onEnterInList(field, () => num++);
  for (const one of events) {
    const [type, key = "", keyCode = 0] = one.split("/");
    field.dispatchEvent(Object.assign(new Event(type!), { key, keyCode: Number(keyCode) }));
  }
  return num;
}

test("Enter that only closes the suggestions takes the text, as in Safari", () => {
  assert.equal(taken("input", "keydown/Enter/13", "keyup/Enter/13"), 1);
});

test("Enter that has an effect of its own takes nothing besides", () => {
  assert.equal(taken("keydown/Enter/13", "keypress/Enter/13", "change", "keyup/Enter/13"), 0);
  assert.equal(taken("keydown/Enter/13", "input", "change", "keyup/Enter/13"), 0); // a chosen suggestion in Safari
  assert.equal(taken("input", "keyup/Enter/13"), 0); // and in Firefox
  assert.equal(taken("keydown/Enter/229", "keyup/Enter/13"), 0); // the end of a composed text
  assert.equal(taken("keyup/Enter/13"), 0); // pressed in another element
  assert.equal(taken("keydown/Enter/13", "blur", "keyup/Enter/13"), 0);
  assert.equal(taken("keydown/Enter/13", "keydown/a/65", "keyup/Enter/13"), 0);
});
