// Dropped and pasted pictures: two drop targets while something is dragged, and folders read recursively.
import { find } from "./dom";
import type { Found } from "./finding";

/** Whether files can be dropped: not on touch screens. */
export const CAN_DROP = !matchMedia("(pointer: coarse)").matches;

const ADDRESS = "Only its address came: save or copy the picture first.";

export interface Takers {
  search(file: File): void;
  /** `unread` are the paths of dropped files and folders that cannot be read. */
  add(files: Found[], unread: string[]): void;
  mayAdd(): boolean;
  /** Closes what lies over the page before dropped or pasted files are used. */
  begin(): Promise<void>;
}

export function onDrop(takers: Takers): void {
  const targets = find("drop");
  document.addEventListener("dragover", (event) => {
    if (isAddress(event)) event.preventDefault();
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    void takers.begin();
    targets.hidden = isCovered();
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) targets.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    targets.hidden = true;
    if (isAddress(event)) {
      event.preventDefault();
      return void takers.begin().then(() => (find("status").textContent = ADDRESS));
    }
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const begun = takers.begin();
    if (isCovered()) return;
    const isAsked = (event.target as HTMLElement).dataset.drop === "search" || !takers.mayAdd();
    void Promise.all([dropped(event.dataTransfer), begun]).then(([{ files, unread }]) => {
      if (!isAsked) takers.add(files, unread);
      else if (files.length)
        takers.search((files.find(({ file }) => file.type.startsWith("image/")) ?? files[0]!).file);
    });
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (!file || isText(event) || isCovered()) return;
    event.preventDefault();
    void takers.begin().then(() => takers.search(file));
  });
}

/** Whether only an address is dragged, such as that of another page's picture in Firefox, which would open it. */
function isAddress({ target, dataTransfer }: DragEvent): boolean {
  const has = (type: string) => dataTransfer!.types.includes(type);
  return has("text/uri-list") && !has("Files") && !(isField(target) && has("text/plain"));
}

function isField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("input, textarea");
}

/** Whether a dialog that must stay open, such as the one for a key, covers the page. */
function isCovered(): boolean {
  return document.querySelector("dialog[open]:not(#detail)") !== null;
}

/** Whether text is pasted into a field: some programs add a picture of it, which is not wanted there. */
function isText(event: ClipboardEvent): boolean {
  return isField(event.target) && !!event.clipboardData?.getData("text/plain");
}

interface Dropped {
  files: Found[];
  unread: string[];
}

async function dropped(transfer: DataTransfer): Promise<Dropped> {
  // Entries are only available during the event, so they are collected before the first await.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (!entries.length) return { files: [...transfer.files].map((file) => ({ file, path: file.name })), unread: [] };
  const found: Dropped = { files: [], unread: [] };
  for (const entry of entries) await collect(entry, found);
  return found;
}

/** Adds the files of an entry; an unreadable one, such as another user's folder, does not stop the others. */
async function collect(entry: FileSystemEntry, found: Dropped): Promise<void> {
  const path = entry.fullPath.slice(1);
  try {
    if (entry.isFile) {
      const file = await new Promise<File>((take, fail) => (entry as FileSystemFileEntry).file(take, fail));
      found.files.push({ file, path });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      // A reader returns up to a hundred entries at a time, and none at the end.
      const part = await new Promise<FileSystemEntry[]>((take, fail) => reader.readEntries(take, fail));
      if (!part.length) return;
      for (const one of part) await collect(one, found);
    }
  } catch {
    found.unread.push(path);
  }
}
