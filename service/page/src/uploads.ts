// Pictures sent in batches, with the progress of each batch's job followed by server-sent events.
import { ask, canBeTriedAgain, isPassing, pause, Refusal } from "./api";
import { type Found, identity, inOrder, named, nameOf } from "./finding";
import type { Accepted, IngestAnswer, JobAnswer, Rejected, RetryAnswer } from "./openapi";
import { Standstill } from "./standstill";
import { messageOf } from "./text";

const BATCH_FILES = 20;
const BATCH_BYTES = 64 * 2 ** 20;
const ESCAPES = /%(22|[01][0-9a-f])/i; // decoded in names of form fields, unless the manifest has the name
const LOOK_MS = 5000; // interval for checking that a job goes on
const OF_ONE_FILE = [413, 422]; // statuses of refusals that a single file of a request may have caused
const NO_PICTURE = /^(video|audio|text)\/|^application\/(pdf|zip|json)/;

export interface Outcome {
  filename: string;
  reason: string;
  image_id?: string;
}

export interface Progress {
  total: number;
  done: number;
  known: Outcome[];
  restored: Outcome[]; // had been deleted
  skipped: Outcome[];
  failed: Outcome[];
  refused: Found[]; // the service may accept them once somebody has fixed its problem
  faults: string[]; // why some were refused, or their outcome is unknown
  waiting: string; // why the service is waited for; "" if it is not
}

/** An upload in progress. Files added while others are sent wait for their turn, and are counted with them. */
export class Upload {
  readonly progress: Progress = {
    total: 0,
    done: 0,
    known: [],
    restored: [],
    skipped: [],
    failed: [],
    refused: [],
    faults: [],
    waiting: "",
  };
  #turn = Promise.resolve();
  #followed = Promise.resolve();
  #unsent = 0;
  #standing = ""; // why the job that is followed does not go on; "" if it does
  readonly #begun = new Set<string>(); // identities of files, and paths of unreadable ones

  /** `tell` is called after each step, `onsent` after each batch that the service accepted. */
  constructor(
    private readonly tell: (progress: Progress) => void,
    private readonly onsent: () => void,
  ) {}

  /** Whether leaving the page now would lose files. */
  get hasUnsent(): boolean {
    return this.#unsent > 0;
  }

  /**
   * Sends the files and follows them until all can be found. `unread` are counted as left out; files chosen before are
   * ignored.
   */
  async add(files: Found[], unread: string[]): Promise<void> {
    const fresh = inOrder(files.filter((one) => this.#isNew(identity(one))));
    const left = unread.filter((path) => this.#isNew(path));
    this.progress.total += fresh.length + left.length;
    this.#leaveOut(left.map((filename) => ({ filename, problem: "cannot be read" })));
    const pictures = fresh.filter((one) => this.#isPicture(one));
    this.#unsent += pictures.length;
    this.#changed();
    this.#turn = this.#turn.then(() => this.#sendAll(pictures));
    await this.#turn;
    await this.#followed;
  }

  #isNew(name: string): boolean {
    return this.#begun.size < this.#begun.add(name).size;
  }

  /** Retries a picture that was set aside, and follows it. */
  async retry(image_id: string): Promise<void> {
    this.progress.total++;
    this.#changed();
    try {
      const { job_id } = await ask<RetryAnswer>(`/failures/${image_id}/retry`, { method: "POST" });
      await this.#follow(job_id);
    } catch (fault) {
      this.#fail(fault);
    }
  }

  #changed(waiting = this.#standing): void {
    this.progress.waiting = waiting;
    this.tell(this.progress);
  }

  #fail(fault: unknown): void {
    this.progress.faults.push(messageOf(fault));
  }

  #leaveOut(outcomes: Pick<Rejected, "filename" | "problem">[]): void {
    this.progress.skipped.push(...outcomes.map(({ filename, problem }) => ({ filename, reason: problem })));
  }

  #isPicture(one: Found): boolean {
    const { type } = one.file;
    if (!NO_PICTURE.test(type)) return true;
    this.#leaveOut([{ filename: nameOf(one), problem: `is no picture (${type})` }]);
    return false;
  }

  /** Sends pictures batch by batch, until one is refused because of the service's state. */
  async #sendAll(pictures: Found[]): Promise<void> {
    const { refused } = this.progress;
    const before = refused.length;
    for (const batch of batches(pictures)) {
      if (refused.length > before) refused.push(...batch);
      else await this.#send(batch);
      this.#unsent -= batch.length;
      this.#changed();
    }
  }

  /** Sends a batch, and retries while the service does not answer. */
  async #send(batch: Found[]): Promise<void> {
    for (let files = batch; files.length; files = await this.#readable(files)) {
      let receipt: IngestAnswer;
      try {
        receipt = await ask<IngestAnswer>("/ingest", { form: formOf(files) });
      } catch (fault) {
        if (!isPassing(fault)) return this.#refused(files, fault);
        this.#changed(messageOf(fault));
        await pause(fault);
        continue;
      }
      return this.#taken(receipt);
    }
  }

  #taken({ job_id, accepted, rejected }: IngestAnswer): void {
    this.#leaveOut(rejected);
    void this.#follow(job_id, accepted);
    this.onsent();
  }

  /**
   * Handles a refusal: files are left out, or kept to be sent again. If a single file may be the cause, halves are sent
   * to find it.
   */
  async #refused(files: Found[], fault: unknown): Promise<void> {
    if (canBeTriedAgain(fault)) {
      this.progress.refused.push(...files);
      return this.#fail(fault);
    }
    const refusal = fault instanceof Refusal ? fault : null;
    const rejected = refusal?.problem.rejected as Rejected[] | undefined;
    const middle = files.length >> 1;
    if (refusal && !rejected && middle && OF_ONE_FILE.includes(refusal.status)) {
      await this.#send(files.slice(0, middle));
      await this.#send(files.slice(middle));
    } else {
      this.#leaveOut(rejected ?? files.map((one) => ({ filename: nameOf(one), problem: messageOf(fault) })));
    }
  }

  /** The files that can still be read: a changed or moved file fails a request like a lost connection. */
  async #readable(files: Found[]): Promise<Found[]> {
    const can = await Promise.all(files.map(({ file }) => isThere(file)));
    const gone = files.filter((_, n) => !can[n]);
    for (const one of gone) this.#begun.delete(identity(one)); // so that it can be chosen again
    this.#leaveOut(gone.map((one) => ({ filename: nameOf(one), problem: "cannot be read any more; choose it again" })));
    return files.filter((_, n) => can[n]);
  }

  /**
   * Follows a job to its end after the previous ones are done: a stream occupies one of the browser's few connections
   * to the service, and the worker processes pictures in order.
   */
  #follow(job_id: string, accepted: Accepted[] = []): Promise<void> {
    this.#followed = this.#followed.then(() => this.#hearOf(job_id, accepted)).catch((fault) => this.#fail(fault));
    return this.#followed;
  }

  /** Follows a job by events, or by polling if there is no stream. */
  async #hearOf(job_id: string, accepted: Accepted[]): Promise<void> {
    let before = 0;
    let end: (job: JobAnswer) => void;
    let giveUp: (fault: Error) => void;
    const ended = new Promise<JobAnswer>((resolve, reject) => ([end, giveUp] = [resolve, reject]));
    const hear = (job: JobAnswer) => {
      this.progress.done += job.done - before;
      if (job.done > before) this.#standing = "";
      before = job.done;
      this.#changed();
      if (job.state === "done") end(job);
    };
    const stopTelling = this.#tellStandstills(() => before);
    const source = new EventSource(`/jobs/${job_id}/events`);
    source.addEventListener("progress", (event) => hear(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) this.#poll(job_id, hear).catch((fault: Error) => giveUp(fault));
    });
    try {
      this.#end(accepted, (await ended).failures);
    } finally {
      stopTelling();
      source.close();
    }
    this.#changed();
  }

  /** Tells from time to time why the number of pictures that are done does not rise, until the result is called. */
  #tellStandstills(numDone: () => number): () => void {
    const standstill = new Standstill();
    let isOver = false;
    const looks = setInterval(async () => {
      const before = numDone();
      const reason = await standstill.reason(`${before}`);
      if (isOver || before !== numDone() || reason === this.#standing) return;
      this.#standing = reason;
      this.#changed();
    }, LOOK_MS);
    return () => {
      isOver = true;
      clearInterval(looks);
      this.#standing = "";
    };
  }

  /** Counts the outcomes of a job's files; the job itself counts copies of a picture once. */
  #end(accepted: Accepted[], failures: Outcome[]): void {
    const { known, restored, failed } = this.progress;
    failed.push(...failures);
    const counted = new Set<string>();
    for (const one of accepted) {
      const isCopy = counted.has(one.image_id);
      counted.add(one.image_id);
      const failure = failures.find(({ image_id }) => image_id === one.image_id);
      if (failure && isCopy) failed.push(failure);
      if (failure) continue;
      if (isCopy) this.progress.done++;
      if (one.duplicate) known.push({ filename: one.filename, reason: "" });
      if (one.restored) restored.push({ filename: one.filename, reason: "" });
    }
  }

  /** Polls the job until it is done, also while the service restarts or is busy. */
  async #poll(job_id: string, hear: (job: JobAnswer) => void): Promise<void> {
    for (;;) {
      let passing: unknown = null;
      try {
        const job = await ask<JobAnswer>(`/jobs/${job_id}`);
        hear(job);
        if (job.state === "done") return;
      } catch (fault) {
        if (!isPassing(fault)) throw fault;
        this.#changed(messageOf(fault));
        passing = fault;
      }
      await pause(passing);
    }
  }
}

/** Throws an Error if the file can no longer be read, which fails a request like a lost connection. */
export async function checkThere(file: File): Promise<void> {
  if (!(await isThere(file))) throw new Error("The picture to search with cannot be read any more: choose it again.");
}

/** Whether a byte of the file can be read; for a deleted file some browsers return none, without an error. */
function isThere(file: File): Promise<boolean> {
  return file
    .slice(0, 1)
    .arrayBuffer()
    .then(
      (start) => start.byteLength > 0,
      () => false,
    );
}

/** The files in batches, each without repeated names, since albums are assigned by name. */
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

/** The form with the files of a batch and their albums. */
function formOf(batch: Found[]): FormData {
  const form = new FormData();
  const manifest: Record<string, { default_tags?: { album: string } }> = {};
  for (const { file, path } of batch) {
    const { name, album } = named(path);
    form.append("images", file, name);
    if (album) manifest[name] = { default_tags: { album } };
    else if (ESCAPES.test(name)) manifest[name] = {}; // marks the name as literal
  }
  if (Object.keys(manifest).length) form.append("manifest", JSON.stringify(manifest));
  return form;
}
