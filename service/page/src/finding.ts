// Files chosen or dropped for upload: their names and their order.
const LONGEST_ALBUM = 512; // characters, the limit of tags
const NATURAL = new Intl.Collator(undefined, { numeric: true }); // 9 before 10

/** A file and its path, which begins with the name of the chosen or dropped folder, if any. */
export interface Found {
  file: File;
  path: string;
}

/** The name under which a file is sent, its path inside the folder, and its album, the path of its parent folder. */
export function named(path: string): { name: string; album: string | null } {
  const [folder, ...below] = path.split("/");
  if (!below.length) return { name: path, album: null };
  const album = below.length > 1 ? below.slice(0, -1).join("/") : folder!;
  return { name: below.join("/"), album: [...album].slice(-LONGEST_ALBUM).join("") };
}

/** The name to show for a file. */
export function nameOf({ path }: Found): string {
  return named(path).name;
}

/** The files sorted by name, those of a folder before its subfolders: browsers return them in the order of the disk. */
export function inOrder(files: Found[]): Found[] {
  return files
    .map((one) => ({ one, parts: one.path.split("/") }))
    .sort(byPath)
    .map(({ one }) => one);
}

function byPath({ parts }: { parts: string[] }, { parts: others }: { parts: string[] }): number {
  for (let n = 0; ; n++) {
    const [isFile, isOtherFile] = [n === parts.length - 1, n === others.length - 1];
    if (isFile !== isOtherFile) return isFile ? -1 : 1;
    const order = NATURAL.compare(parts[n]!, others[n]!);
    if (order || isFile) return order;
  }
}

/** A key that identifies a file, even if it is chosen again. */
export function identity({ file, path }: Found): string {
  return [path, file.size, file.lastModified].join("\n");
}
