// Downloads of original files, for users with permission: of one picture, or of several in one ZIP file.
import { ask, Refusal, saveFile } from "./api";
import { el, workButton } from "./dom";
import type { ArchiveTicket } from "./openapi";
import { counted, messageOf, spoken } from "./text";

const MOST = 1000; // pictures of an archive
const LOOK_MS = 300; // between looks whether a download was refused
const LOOKED_MS = 120_000; // after which its answer has surely come

export interface Stored {
  image_id: string;
  filename: string;
  url: string | null;
  captions: string[];
  taken_at: string | null;
}

/** The button; null if only features are stored. `fault` shows errors. */
export function downloadButton(picture: Stored, fault: HTMLElement, looks: string): HTMLButtonElement | null {
  const download = async () => {
    fault.textContent = "";
    try {
      await saveOriginal(picture);
    } catch (refused) {
      fault.textContent = messageOf(refused);
    }
  };
  const label = `Download ${spoken(picture)}`;
  return picture.url ? workButton("Download", download, { class: looks, "aria-label": label }) : null;
}

function saveOriginal({ image_id, filename }: Stored): Promise<void> {
  return saveFile(`/images/${image_id}/original`, filename.split("/").pop()!);
}

/**
 * Makes the browser save the original files, several as one archive. Returns a message. `onfail` is called if the
 * download is refused after all.
 */
export async function saveOriginals(pictures: Stored[], onfail: () => void): Promise<string> {
  const stored = pictures.filter(({ url }) => url);
  const without = pictures.length - stored.length;
  const not = without ? ` ${counted(without, "picture")} not: only features are stored.` : "";
  if (stored.length > MOST) throw new Error(`Select at most ${counted(MOST, "picture")} to download.`);
  if (!stored.length) throw new Error(not.trim());
  if (stored.length === 1) await saveOriginal(stored[0]!);
  const size = stored.length > 1 ? `, as one file of ${megabytes(await saveArchive(stored, onfail))}` : "";
  return `Downloading ${counted(stored.length, "picture")}${size}.${not}`;
}

/** Makes the browser save an archive by itself, so that the page need not hold it. Returns its length. */
async function saveArchive(pictures: Stored[], onfail: () => void): Promise<number> {
  const image_ids = pictures.map(({ image_id }) => image_id);
  const { url, num_bytes } = await ask<ArchiveTicket>("/images/archive/ticket", { json: { image_ids } }).catch(reword);
  const frame = el("iframe", { name: "download", hidden: true, title: "Download" });
  const form = el(
    "form",
    { method: "post", action: url, target: frame.name, hidden: true },
    ...image_ids.map((value) => el("input", { type: "hidden", name: "image_ids", value })),
  );
  document.querySelector(`iframe[name="${frame.name}"]`)?.remove(); // of the previous download
  document.body.append(frame, form);
  form.submit();
  form.remove();
  // A download loads nothing into the frame, and a refusal something that this page may not look at. Firefox sends no
  // event for it.
  const look = setInterval(() => {
    if (frame.contentDocument) return;
    clearInterval(look);
    if (frame.isConnected) onfail();
  }, LOOK_MS);
  setTimeout(() => clearInterval(look), LOOKED_MS);
  return num_bytes;
}

/** Throws a refusal of several pictures in the page's words, without their ids. */
function reword(fault: unknown): never {
  const missing = fault instanceof Refusal && fault.status === 404 ? fault.problem.image_ids : null;
  if (!Array.isArray(missing)) throw fault;
  throw new Error(`Nothing was downloaded: ${counted(missing.length, "original")} cannot be had any more.`);
}

function megabytes(num_bytes: number): string {
  return `${Math.max(0.1, num_bytes / 1e6).toLocaleString("en", { maximumFractionDigits: 1 })} MB`;
}
