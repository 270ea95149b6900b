// The button that downloads a picture's original file, for users with permission.
import { saveFile } from "./api";
import { workButton } from "./dom";
import { messageOf, spoken } from "./text";

interface Stored {
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
      await saveFile(`/images/${picture.image_id}/original`, picture.filename.split("/").pop()!);
    } catch (refused) {
      fault.textContent = messageOf(refused);
    }
  };
  const label = `Download ${spoken(picture)}`;
  return picture.url ? workButton("Download", download, { class: looks, "aria-label": label }) : null;
}
