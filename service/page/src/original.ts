// The button that saves a picture's file as it was uploaded, for those who may.
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

/** None where features alone are stored. `fault` tells why it could not be had. */
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
