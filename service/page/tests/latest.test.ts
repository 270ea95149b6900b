import assert from "node:assert/strict";
import { test } from "node:test";
import { Latest } from "../src/latest";

/** Work that lasts until it is told how it ends. */
function held() {
  let resolve = (_: string) => {};
  let reject = (_: Error) => {};
  const promise = new Promise<string>((...ends) => {
    [resolve, reject] = ends;
  });
  return { work: () => promise, resolve, reject };
}

test("what a newer one took the place of is never shown, whatever becomes of it", async () => {
  const latest = new Latest();
  const shown: string[] = [];
  const [first, second] = [held(), held()];
  let isAborted = false;
  const work = (signal: AbortSignal) => {
    signal.addEventListener("abort", () => (isAborted = true));
    return first.work();
  };
  const ends = [latest.run(work, (one) => shown.push(one))];
  await Promise.resolve();
  ends.push(latest.run(second.work, (one) => shown.push(one)));
  assert(isAborted);
  first.reject(new Error("It was given up."));
  second.resolve("second");
  await Promise.all(ends);
  assert.deepEqual(shown, ["second"]);
});

test("one that never began since others came is left out, and what fails is told", async () => {
  const latest = new Latest();
  const begun: number[] = [];
  const work = (n: number) => async () => {
    begun.push(n);
    if (n === 3) throw new Error("no");
  };
  const ends = [1, 2, 3].map((n) => latest.run(work(n), () => {}));
  await assert.rejects(Promise.all(ends), /no/);
  assert.deepEqual(begun, [3]);
});

test("nothing runs any more once it is settled, also of what began meanwhile", async () => {
  const latest = new Latest();
  assert(!latest.begun);
  const [first, second] = [held(), held()];
  const shown: string[] = [];
  void latest.run(first.work, (one) => shown.push(one));
  const settled = latest.settled();
  void latest.run(second.work, (one) => shown.push(one));
  first.resolve("first");
  second.resolve("second");
  await settled;
  assert.deepEqual([latest.begun, shown], [true, ["second"]]);
});
