import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { type Progress, Upload } from "../src/uploads";

/** A service whose answer to a request with files is given by their names; jobs are done at once. */
function serve(
  answer: (names: string[]) => [status: number, body: unknown],
  headers: HeadersInit | "" = "",
  failures: object[] = [],
): FormData[] {
  const forms: FormData[] = [];
  const done = (names: string[]) => names.map((filename) => ({ filename, image_id: filename.replace("copy-", "") }));
  class Events extends EventTarget {
    constructor(address: string) {
      super();
      const job = { done: Number(address.split("/")[2]), state: "done", failures };
      setTimeout(() => this.dispatchEvent(new MessageEvent("progress", { data: JSON.stringify(job) })));
    }
    close() {}
  }
  const fetch = async (_: string, { body }: { body: FormData }) => {
    forms.push(body);
    const names = body.getAll("images").map((file) => (file as File).name);
    const [status, said] = answer(names);
    const accepted = done(names);
    const pictures = new Set(accepted.map((one) => one.image_id));
    const receipt = { job_id: `${pictures.size - failures.length}`, accepted, rejected: [] };
    return Response.json(status === 202 ? receipt : said, { status, headers: headers || {} });
  };
  Object.assign(globalThis, { fetch, EventSource: Events, sessionStorage: { getItem: () => null } });
  return forms;
}

async function sent(paths: string[]): Promise<Progress> {
  const upload = new Upload(
    () => {},
    () => {},
  );
  await upload.add(
    paths.map((path) => ({ path, file: new File(["x"], path) })),
    [],
  );
  assert(!upload.hasUnsent);
  return upload.progress;
}

const NAMES = ["a.png", "b.png", "bad.png", "c.png", "d.png"];

for (const [status, body] of [
  [413, {}],
  [422, { detail: "It is too much." }],
] as const)
  test(`a batch that is refused with ${status} for one file is sent without it`, async () => {
    serve((names) => (names.includes("bad.png") ? [status, body] : [202, null]));
    const { done, skipped, faults } = await sent(NAMES);
    assert.deepEqual([done, skipped.map((one) => one.filename), faults], [4, ["bad.png"], []]);
  });

test("what is refused for every file by name, or for no file, is sent once", async () => {
  const rejected = NAMES.map((filename) => ({ filename, problem: "no picture" }));
  for (const answer of [
    [422, { rejected }],
    [403, { detail: "No." }],
  ] as [number, unknown][]) {
    const forms = serve(() => answer);
    assert.equal((await sent(NAMES)).skipped.length, NAMES.length);
    assert.equal(forms.length, 1);
  }
});

for (const status of [503, 507])
  test(`what is refused with ${status} for what the service lacks is sent once, and kept to be sent again`, async () => {
    let asked = 0;
    const forms = serve(() => [
      asked++ ? 403 : status,
      { type: "urn:regard:problem:not-ready", detail: "The server may not write." },
    ]);
    const names = Array.from({ length: 30 }, (_, n) => `${n}.png`); // more than one batch
    const { refused, skipped, faults } = await sent(names);
    assert.deepEqual([refused.map(({ path }) => path), skipped, faults], [names, [], ["The server may not write."]]);
    assert.equal(forms.length, 1);
  });

test("a copy of a picture that is set aside has failed as that has", async () => {
  serve(() => [202, null], "", [{ filename: "b.png", image_id: "b.png" }]);
  const { done, failed } = await sent(["a.png", "copy-a.png", "b.png", "copy-b.png"]);
  assert.deepEqual([done, failed.length], [2, 2]);
});

const PASSING: [status: number, retryAfter: string][] = [
  [502, ""],
  [503, ""],
  [504, ""],
  [503, "0"],
  [503, "2"],
  [503, new Date().toUTCString()],
];

for (const [status, retryAfter] of PASSING)
  test(`a service that answers ${status} ${retryAfter} for a while is sent the same again`, async () => {
    let left = 1;
    const forms = serve(() => (left-- ? [status, {}] : [202, null]), retryAfter && { "Retry-After": retryAfter });
    const start = performance.now();
    const { done, refused, faults } = await sent(NAMES);
    assert.deepEqual([done, refused, faults, forms.length], [5, [], [], 2]);
    assert(retryAfter !== "2" || performance.now() - start > 1900);
  });

test("files are sent in the order of their names, those of a folder before its folders", async () => {
  const forms = serve(() => [202, null]);
  await sent(["a/b/2.png", "a/DSC10.png", "a/B/1.png", "a/DSC9.png", "a/c.png", "a/b/1.png"]);
  const names = forms.flatMap((form) => form.getAll("images").map((file) => (file as File).name));
  assert.deepEqual(names, ["c.png", "DSC9.png", "DSC10.png", "b/1.png", "b/2.png", "B/1.png"]);
});

test("what is chosen again while it is sent is taken once, and what changed since once more", async () => {
  const forms = serve((names) => (names.includes("bad.png") ? [422, {}] : [202, null]));
  const upload = new Upload(
    () => {},
    () => {},
  );
  const files = ["a/bad.png", "a/good.png"].map((path) => ({ path, file: new File(["x"], path, { lastModified: 1 }) }));
  const changed = { path: "a/good.png", file: new File(["x"], "good.png", { lastModified: 2 }) };
  await Promise.all([upload.add(files, ["a/no"]), upload.add([...files], ["a/no"]), upload.add([changed], [])]);
  assert.deepEqual(
    upload.progress.skipped.map(({ filename }) => filename),
    ["a/no", "bad.png"],
  );
  assert.deepEqual([upload.progress.total, upload.progress.done], [4, 2]);
  assert.equal(forms.length, 4);
});

test("an album is cut between letters, never in one", async () => {
  const forms = serve(() => [202, null]);
  await sent([`top/${"\u{1f333}".repeat(600)}/a.png`]);
  const [about] = Object.values<{ default_tags: object }>(JSON.parse(forms[0]!.get("manifest") as string));
  assert.deepEqual(about!.default_tags, { album: "\u{1f333}".repeat(512) });
});

test("why a job does not go on is said until it does, whatever else happens meanwhile", async () => {
  serve(() => [202, null]);
  const { fetch } = globalThis;
  let [job, now] = [new EventTarget(), 1000];
  let answer = (_: Response) => {};
  const asked = (path: string, options: RequestInit) =>
    path === "/readyz" ? new Promise((resolve) => (answer = resolve)) : fetch(path, options);
  class Events extends EventTarget {
    close = () => {};
    constructor() {
      super();
      job = this;
    }
  }
  Object.assign(globalThis, { fetch: asked, EventSource: Events });
  mock.method(performance, "now", () => now);
  mock.timers.enable({ apis: ["setInterval"] });
  const rest = () => new Promise((resolve) => setTimeout(resolve));
  const standStill = async (answersLate = () => {}) => {
    for (let n = 0; n < 6; n++, now += 5000) await rest().then(() => mock.timers.tick(5000));
    answersLate();
    answer(Response.json({ detail: "no worker" }, { status: 503 }));
    await rest();
  };
  const upload = new Upload(...([() => {}, () => {}] as const));
  const add = (path: string) => void upload.add([{ path, file: new File(["x"], path) }], []);
  const hear = (data: object) => job.dispatchEvent(new MessageEvent("progress", { data: JSON.stringify(data) }));
  add("a.png");
  await standStill();
  add("b.png");
  assert.equal(upload.progress.waiting, "The service is not ready: no worker.");
  await standStill(() => hear({ done: 1, state: "running" }));
  assert.equal(upload.progress.waiting, "");
  mock.timers.reset();
  mock.restoreAll();
});
