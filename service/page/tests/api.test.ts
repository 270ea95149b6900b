import assert from "node:assert/strict";
import { test } from "node:test";
import { canBeTriedAgain, isMissing, isPassing, Refusal, Unreachable } from "../src/api";

const refused = (
  status: number,
  problem: Record<string, string> = { type: "urn:regard:problem:x" },
  retryAfter = NaN,
) => new Refusal(status, problem, retryAfter);

test("what waiting mends is tried again: no answer, a busy service, one that names a time or stands behind a proxy", () => {
  for (const fault of [new Unreachable(), refused(429), refused(502), refused(503, {}), refused(503, undefined, 5)])
    assert(isPassing(fault) && canBeTriedAgain(fault), String(fault));
});

test("what the service lacks can be tried again once it is there, and does not come by waiting", () => {
  for (const fault of [refused(503), refused(507)]) assert(!isPassing(fault) && canBeTriedAgain(fault), fault.message);
});

test("a proxy that takes no request so large is named, since the service would name the file", () => {
  assert.match(refused(413, {}).message, /^A proxy before the service takes no request this large/);
  assert.equal(refused(413, { detail: "The file is too large." }).message, "The file is too large.");
});

test("what is wrong with a request stays wrong", () => {
  for (const fault of [refused(404), refused(422), new Error("no")]) assert(!canBeTriedAgain(fault), fault.message);
  assert(isMissing(refused(404)) && !isMissing(refused(410)) && !isMissing(new Error("no")));
});
