// Dropped and pasted pictures: two targets while something is dragged over the page, and folders read to their bottom.
import { find } from "./dom";
import type { Found } from "./uploads";

export function onDrop(search: (file: File) => void, add: (files: Found[]) => void): void {
  const targets = find("drop");
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    targets.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) targets.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    targets.hidden = true;
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const wanted = (event.target as HTMLElement).dataset.drop;
    void dropped(event.dataTransfer).then((files) => {
      if (wanted === "search" && files[0]) search(files[0].file);
      else add(files);
    });
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (!file) return;
    event.preventDefault();
    search(file);
  });
}

async function dropped(transfer: DataTransfer): Promise<Found[]> {
  // Entries are gone once the event is over, so they are taken before anything is waited for.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  return (await Promise.all(entries.map(filesOf))).flat();
}

async function filesOf(entry: FileSystemEntry): Promise<Found[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((take, fail) => (entry as FileSystemFileEntry).file(take, fail));
    return [{ file, path: entry.fullPath.slice(1) }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const files: Found[] = [];
  for (;;) {
    // A reader gives a hundred entries at a time, and none at the end.
    const part = await new Promise<FileSystemEntry[]>((take, fail) => reader.readEntries(take, fail));
    if (!part.length) return files;
    for (const one of part) files.push(...(await filesOf(one)));
  }
}
