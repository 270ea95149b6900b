// Requests to the service. The API key, where one is needed, is sent in a header, never in a URL.
import type { ProblemAnswer } from "./openapi";
import { inWords } from "./problems";
import { keptKey } from "./tab";

export class Refusal extends Error {
  /** `retryAfter`: the seconds after which the service asks for a retry; NaN if it names none. */
  constructor(
    readonly status: number,
    readonly problem: Partial<ProblemAnswer> & Record<string, unknown>,
    readonly retryAfter = NaN,
  ) {
    super(inWords(problem) ?? withoutProblem(status));
  }
}

/** The message of an answer that is not the service's own, but a proxy's. */
function withoutProblem(status: number): string {
  return status === 413
    ? "A proxy before the service takes no request this large (413)."
    : `The service answered ${status}.`;
}

/** No answer came: the service is down, or the connection to it. */
export class Unreachable extends Error {
  constructor() {
    super("The service does not answer.");
  }
}

const WATCH_MS = 15_000; // without an answer, after which to check whether the service responds at all
const PAUSE_MS = 1000;
const PASSING = [429, 502, 504];
const MENDED = [503, 507]; // the service lacks something, such as a writable disk, that somebody may fix

/**
 * Whether the same request may succeed after a while. A 503 of the service without a time to retry needs somebody to
 * fix the cause.
 */
export function isPassing(fault: unknown): fault is Error {
  if (!(fault instanceof Refusal)) return fault instanceof Unreachable;
  const fromProxy = fault.problem.type === undefined; // a proxy without its service, for example during a restart
  return PASSING.includes(fault.status) || (fault.status === 503 && (fromProxy || !Number.isNaN(fault.retryAfter)));
}

/** Whether to offer the user a retry of the same request. */
export function canBeTriedAgain(fault: unknown): fault is Error {
  return isPassing(fault) || (fault instanceof Refusal && MENDED.includes(fault.status));
}

/** Waits for a moment, or as long as a refusal demands. */
export function pause(fault: unknown): Promise<void> {
  const asked = fault instanceof Refusal ? fault.retryAfter : NaN;
  return new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE_MS, 1000 * asked || 0)));
}

/** Whether a request was refused because its subject does not exist. */
export function isMissing(fault: unknown): boolean {
  return fault instanceof Refusal && fault.status === 404;
}

const SAVED_MS = 40_000; // after which the browser has surely fetched a file to save

let filesSent = 0; // running requests with files

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

/** The answer's JSON. Throws Refusal if the service refuses, after the user had the chance to enter a key. */
export async function ask<T>(path: string, options: Options = {}): Promise<T> {
  const response = await accepted(path, options);
  return (response.status === 204 ? undefined : await answered(response.json(), options)) as T;
}

/** A file of the service that needs the key: an element with its address would only send the cookie for pictures. */
export async function fetchFile(path: string): Promise<Blob> {
  return answered((await accepted(path, {})).blob(), {});
}

/** Makes the browser save a file of the service under a name. */
export async function saveFile(path: string, name: string): Promise<void> {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await fetchFile(path));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), SAVED_MS); // Safari fetches it after the click has returned
}

/** A successful answer; throws Refusal otherwise. */
async function accepted(path: string, options: Options): Promise<Response> {
  for (;;) {
    const key = keptKey();
    const response = await send(path, options);
    if (response.ok) return response;
    const retryAfter = secondsOf(response.headers.get("Retry-After"));
    const refusal = new Refusal(response.status, await response.json().catch(() => ({})), retryAfter);
    const needsKey = response.status === 401 || "needed" in refusal.problem;
    const isKeyNew = key !== keptKey(); // the user signed in meanwhile
    if (!needsKey || !(isKeyNew || (await askForKey(refusal.message)))) throw refusal;
  }
}

/** The seconds in `Retry-After`, which may be a date if it comes from a proxy; NaN without it. */
export function secondsOf(retryAfter: string | null): number {
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
  signal?.addEventListener("abort", giveUp); // Safari has AbortSignal.any only from 17.4 on
  const hasFiles = [...(form?.values() ?? [])].some((value) => value instanceof File);
  if (hasFiles) filesSent++;
  let isOver = false;
  const look = async () => {
    // While uploads fill a slow connection, the check itself would time out.
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

/** Whether the service responds at all. */
export function isAnswering(): Promise<boolean> {
  return fetch("/livez", { signal: AbortSignal.timeout(WATCH_MS) }).then(
    ({ ok }) => ok,
    () => false,
  );
}

/** The result of a request; Unreachable if the connection fails, unless the page itself aborted the request. */
function answered<T>(answer: Promise<T>, { signal }: Options): Promise<T> {
  return answer.catch((fault) => {
    throw signal?.aborted ? fault : new Unreachable();
  });
}
