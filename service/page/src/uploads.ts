// Pictures sent in batches, with the progress of each batch's job followed by server-sent events.
import { ask, Refusal } from "./api";
import type { IngestAnswer, JobAnswer, RetryAnswer } from "./openapi";

const BATCH_FILES = 20;
const BATCH_BYTES = 64 * 2 ** 20;
const LONGEST_ALBUM = 512; // characters, as of any tag
const POLL_MS = 1000;
const NO_PICTURE = /^(video|audio|text)\/|^application\/(pdf|zip|json)/;

export interface Outcome {
  filename: string;
  reason: string;
  image_id?: string;
}

export interface Progress {
  total: number;
  sent: number;
  done: number;
  known: number;
  skipped: Outcome[];
  failed: Outcome[];
}

/** A file and where it was: its name, or its path from the folder that was chosen or dropped, with that one's name. */
export interface Found {
  file: File;
  path: string;
}

/** What a file is sent as: within a folder the path from there, with the folder that holds it as its album. */
function named(path: string): { name: string; album: string | null } {
  const [folder, ...below] = path.split("/");
  if (!below.length) return { name: path, album: null };
  const album = below.length > 1 ? below.slice(0, -1).join("/") : folder!;
  return { name: below.join("/"), album: album.slice(-LONGEST_ALBUM) };
}

/** Sends the files and follows them until all can be found; `tell` hears of every step. */
export async function upload(files: Found[], tell: (progress: Progress) => void): Promise<Progress> {
  const progress: Progress = { total: files.length, sent: 0, done: 0, known: 0, skipped: [], failed: [] };
  const pictures = files.filter(({ file, path }) => {
    const reason = whyNot(file);
    if (reason) progress.skipped.push({ filename: named(path).name, reason });
    return !reason;
  });
  tell(progress);
  const jobs: Promise<void>[] = [];
  for (const batch of batches(pictures)) {
    const receipt = await send(batch, progress);
    progress.sent += batch.length;
    tell(progress);
    if (receipt) jobs.push(follow(receipt.job_id, progress, () => tell(progress)));
  }
  await Promise.all(jobs);
  return progress;
}

export async function retry(image_id: string, tell: (progress: Progress) => void): Promise<void> {
  const progress: Progress = { total: 1, sent: 1, done: 0, known: 0, skipped: [], failed: [] };
  const { job_id } = await ask<RetryAnswer>(`/failures/${image_id}/retry`, { method: "POST" });
  await follow(job_id, progress, () => tell(progress));
}

function whyNot(file: File): string | null {
  return NO_PICTURE.test(file.type) ? `is no picture (${file.type})` : null;
}

/** No batch has a name twice, since the album of a file goes by its name. */
function* batches(files: Found[]): Generator<Found[]> {
  let batch: Found[] = [];
  let names = new Set<string>();
  let bytes = 0;
  for (const one of files) {
    const { file, path } = one;
    const { name } = named(path);
    if (batch.length && (batch.length === BATCH_FILES || bytes + file.size > BATCH_BYTES || names.has(name))) {
      yield batch;
      [batch, names, bytes] = [[], new Set(), 0];
    }
    batch.push(one);
    names.add(name);
    bytes += file.size;
  }
  if (batch.length) yield batch;
}

/** The receipt of a batch; null where nothing of it was taken. */
async function send(batch: Found[], progress: Progress): Promise<IngestAnswer | null> {
  const form = new FormData();
  const manifest: Record<string, { tags: { album: string } }> = {};
  for (const { file, path } of batch) {
    const { name, album } = named(path);
    form.append("images", file, name);
    if (album) manifest[name] = { tags: { album } };
  }
  if (Object.keys(manifest).length) form.append("manifest", JSON.stringify(manifest));
  try {
    const receipt = await ask<IngestAnswer>("/ingest", { form });
    progress.skipped.push(...receipt.rejected.map(({ filename, problem }) => ({ filename, reason: problem })));
    progress.known += receipt.accepted.filter((one) => one.duplicate).length;
    return receipt;
  } catch (fault) {
    const reason = fault instanceof Error ? fault.message : String(fault);
    const rejected = fault instanceof Refusal ? (fault.problem.rejected as IngestAnswer["rejected"] | undefined) : undefined;
    const unsent = rejected ?? batch.map(({ path }) => ({ filename: named(path).name, problem: reason }));
    progress.skipped.push(...unsent.map(({ filename, problem }) => ({ filename, reason: problem })));
    return null;
  }
}

/** Follows a job to its end. Where no stream can be had the job itself is asked now and then. */
async function follow(job_id: string, progress: Progress, tell: () => void): Promise<void> {
  let before = 0;
  let end: (job: JobAnswer) => void;
  let giveUp: (fault: Error) => void;
  const ended = new Promise<JobAnswer>((resolve, reject) => ([end, giveUp] = [resolve, reject]));
  const hear = (job: JobAnswer) => {
    progress.done += job.done - before;
    before = job.done;
    tell();
    if (job.state === "done") end(job);
  };
  const source = new EventSource(`/jobs/${job_id}/events`);
  source.addEventListener("progress", (event) => hear(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) poll(job_id, hear).catch((fault: Error) => giveUp(fault));
  });
  try {
    const last = await ended;
    progress.failed.push(...last.failures);
  } finally {
    source.close();
  }
  tell();
}

/** Asks for the job until it is done; a service that restarts, or is busy, is waited for. */
async function poll(job_id: string, hear: (job: JobAnswer) => void): Promise<void> {
  for (;;) {
    try {
      const job = await ask<JobAnswer>(`/jobs/${job_id}`);
      hear(job);
      if (job.state === "done") return;
    } catch (fault) {
      if (fault instanceof Refusal && fault.status < 500 && fault.status !== 429) throw fault;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
