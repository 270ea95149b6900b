import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Standstill } from "../src/standstill";

const WORKER = "worker: no worker was ever heard from";
const REASON = `The service is not ready: ${WORKER}.`;

test("a service is asked for its reason only while nothing goes on", async () => {
  let [now, status] = [1000, 503];
  const fetch = mock.fn(async (_: string) => Response.json({ detail: WORKER, checks: {} }, { status }));
  Object.assign(globalThis, { fetch, sessionStorage: { getItem: () => null } });
  mock.method(performance, "now", () => now);
  const standstill = new Standstill();
  const reasonAt = (seconds: number, state: string) => {
    now = 1000 + 1000 * seconds;
    return standstill.reason(state);
  };
  assert.equal(await reasonAt(0, "5 wait"), "");
  assert.equal(await reasonAt(14, "4 wait"), "");
  assert.equal(await reasonAt(28, "4 wait"), "");
  assert.equal(fetch.mock.callCount(), 0);
  assert.equal(await reasonAt(29, "4 wait"), REASON);
  assert.equal(await reasonAt(32, "4 wait"), REASON); // kept, not asked again each time
  assert.equal(fetch.mock.callCount(), 1);
  assert.equal(fetch.mock.calls[0]!.arguments[0], "/readyz");
  assert.equal(await reasonAt(33, "3 wait"), "");
  status = 200;
  assert.equal(await reasonAt(48, "3 wait"), "");
  assert.equal(fetch.mock.callCount(), 2);
  mock.restoreAll();
});

test("a service that cannot be asked has no reason", async () => {
  const fetch = async () => {
    throw new TypeError("no connection");
  };
  Object.assign(globalThis, { fetch, sessionStorage: { getItem: () => null } });
  let now = 1000;
  mock.method(performance, "now", () => now);
  const standstill = new Standstill();
  await standstill.reason("5 wait");
  now += 20_000;
  assert.equal(await standstill.reason("5 wait"), "");
  mock.restoreAll();
});
