// Requests to the service. The API key, where one is needed, is sent in a header, never in a URL.
import type { ProblemAnswer } from "./openapi";
import { inWords } from "./problems";
import { keptKey } from "./tab";

export class Refusal extends Error {
  /** `retryAfter` are the seconds after which the service wants to be asked again; NaN where it names none. */
  constructor(
    readonly status: number,
    readonly problem: Partial<ProblemAnswer> & Record<string, unknown>,
    readonly retryAfter = NaN,
  ) {
    super(inWords(problem) ?? `The service answered ${status}.`);
  }
}

/** No answer came: the service is away, or the connection to it. */
export class Unreachable extends Error {
  constructor() {
    super("The service does not answer.");
  }
}

const WATCH_MS = 15_000; // without an answer, after which it is looked whether the service answers anything
const PAUSE_MS = 1000;
const PASSING = [429, 502, 504];
const MENDED = [503, 507]; // what the service lacks, as a disk that it may write to

/**
 * Whether the same request may succeed when it is sent again after a while. What the service lacks and names no time for
 * comes by somebody's doing, not by waiting.
 */
export function isPassing(fault: unknown): fault is Error {
  if (!(fault instanceof Refusal)) return fault instanceof Unreachable;
  const fromProxy = fault.problem.type === undefined; // which finds no service behind it, as while one is started again
  return PASSING.includes(fault.status) || (fault.status === 503 && (fromProxy || !Number.isNaN(fault.retryAfter)));
}

/** Whether somebody who was told of it may want the same request sent again. */
export function canBeTriedAgain(fault: unknown): fault is Error {
  return isPassing(fault) || (fault instanceof Refusal && MENDED.includes(fault.status));
}

/** Waits for a moment, or for as long as a refusal asks for. */
export function pause(fault: unknown): Promise<void> {
  const asked = fault instanceof Refusal ? fault.retryAfter : NaN;
  return new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE_MS, 1000 * asked || 0)));
}

/** Whether a request was refused because there is no such thing. */
export function isMissing(fault: unknown): boolean {
  return fault instanceof Refusal && fault.status === 404;
}

const SAVED_MS = 40_000; // after which a file is in the hands of the browser

let filesSent = 0; // requests with files that are under way

type KeyDialog = (why: string) => Promise<boolean>;
let askForKey: KeyDialog = async () => false;

export function onKeyNeeded(dialog: KeyDialog): void {
  askForKey = dialog;
}

export interface Options {
  method?: string;
  json?: unknown;
  form?: FormData;
  signal?: AbortSignal;
}

/** The answer's JSON; Refusal where the service says no, after the user had the chance to give a key. */
export async function ask<T>(path: string, options: Options = {}): Promise<T> {
  const response = await accepted(path, options);
  return (response.status === 204 ? undefined : await answered(response.json(), options)) as T;
}

/** A file of the service, for those whom the cookie of pictures is not enough: an element would not send the key. */
export async function fetchFile(path: string): Promise<Blob> {
  return answered((await accepted(path, {})).blob(), {});
}

/** Has the browser save a file of the service by a name. */
export async function saveFile(path: string, name: string): Promise<void> {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await fetchFile(path));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), SAVED_MS); // Safari fetches it after the click has returned
}

/** A good answer; Refusal where there is none. */
async function accepted(path: string, options: Options): Promise<Response> {
  for (;;) {
    const key = keptKey();
    const response = await send(path, options);
    if (response.ok) return response;
    const retryAfter = secondsOf(response.headers.get("Retry-After"));
    const refusal = new Refusal(response.status, await response.json().catch(() => ({})), retryAfter);
    const needsKey = response.status === 401 || "needed" in refusal.problem;
    const isKeyNew = key !== keptKey(); // somebody signed in while it was under way
    if (!needsKey || !(isKeyNew || (await askForKey(refusal.message)))) throw refusal;
  }
}

/** The seconds that `Retry-After` says, which may name a moment, as proxies do; NaN without it. */
function secondsOf(retryAfter: string | null): number {
  if (retryAfter === null) return NaN;
  const seconds = Number(retryAfter);
  return Number.isNaN(seconds) ? (Date.parse(retryAfter) - Date.now()) / 1000 || 0 : seconds;
}

async function send(path: string, { method, json, form, signal }: Options): Promise<Response> {
  const headers = new Headers();
  const key = keptKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  if (json !== undefined) headers.set("Content-Type", "application/json");
  const body = json === undefined ? form : JSON.stringify(json);
  const hung = new AbortController();
  const giveUp = () => hung.abort();
  if (signal?.aborted) giveUp();
  signal?.addEventListener("abort", giveUp); // AbortSignal.any does it in Safari from 17.4 on alone
  const hasFiles = [...(form?.values() ?? [])].some((value) => value instanceof File);
  if (hasFiles) filesSent++;
  let isOver = false;
  const look = async () => {
    // Where files fill a slow line, nothing else gets through.
    if (!filesSent && !(await isAnswering()) && !isOver && !filesSent) giveUp();
  };
  const watch = setInterval(() => void look(), WATCH_MS);
  const answer = fetch(path, { method: method ?? (body ? "POST" : "GET"), headers, body, signal: hung.signal });
  return answered(answer, { signal }).finally(() => {
    isOver = true;
    clearInterval(watch);
    if (hasFiles) filesSent--;
  });
}

/** Whether the service answers, were it with nothing but that. */
export function isAnswering(): Promise<boolean> {
  return fetch("/livez", { signal: AbortSignal.timeout(WATCH_MS) }).then(
    ({ ok }) => ok,
    () => false,
  );
}

/** What comes from the service; Unreachable where it breaks off, unless the page itself gave it up. */
function answered<T>(answer: Promise<T>, { signal }: Options): Promise<T> {
  return answer.catch((fault) => {
    throw signal?.aborted ? fault : new Unreachable();
  });
}
