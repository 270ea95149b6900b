import assert from "node:assert/strict";
import { test } from "node:test";
import { Latest } from "../src/latest";

for (const ending of ["an answer", "a fault"])
  test(`what a newer one took the place of is given up, and its end, ${ending}, not told`, async () => {
    const latest = new Latest();
    const shown: string[] = [];
    assert(!latest.begun);
    const old = async (signal: AbortSignal) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      if (ending === "a fault") throw new Error(ending);
      return ending;
    };
    const ends = [latest.run(old, (one) => shown.push(one))];
    await Promise.resolve(); // it has begun
    const settled = latest.settled();
    ends.push(
      latest.run(
        async () => "new",
        (one) => shown.push(one),
      ),
    );
    await settled; // also with what was begun since
    assert.deepEqual([latest.begun, shown], [true, ["new"]]);
    await Promise.all(ends);
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
