// Files that were found to be taken in: what each is sent as, and in which order.
const LONGEST_ALBUM = 512; // characters, as of any tag
const NATURAL = new Intl.Collator(undefined, { numeric: true }); // 9 before 10

/** A file and where it was: its name, or its path from the folder that was chosen or dropped, with that one's name. */
export interface Found {
  file: File;
  path: string;
}

/** What a file is sent as: within a folder the path from there, with the folder that holds it as its album. */
export function named(path: string): { name: string; album: string | null } {
  const [folder, ...below] = path.split("/");
  if (!below.length) return { name: path, album: null };
  const album = below.length > 1 ? below.slice(0, -1).join("/") : folder!;
  return { name: below.join("/"), album: [...album].slice(-LONGEST_ALBUM).join("") };
}

/** What is shown of a file that was found. */
export function nameOf({ path }: Found): string {
  return named(path).name;
}

/** The files in the order of their names, those of a folder before its folders: browsers give them as the disk has them. */
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

/** What tells a file from all others, also where it is chosen once more. */
export function identity({ file, path }: Found): string {
  return [path, file.size, file.lastModified].join("\n");
}
