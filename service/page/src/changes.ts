// Deletion of a picture, its undoing, and what is said of one that is missing.
import { ask, isMissing } from "./api";
import type { ImageInfo, ImageListed } from "./openapi";
import { mayChange } from "./session";

/** What is said of a picture that is missing. */
export const GONE = "This picture is not there any more: somebody deleted it";

const WHERE = "“Deleted pictures”, below the library, may still bring it back.";

/** What is known of a picture. Error in the page's words where it is missing. */
export async function infoOf(image_id: string): Promise<ImageInfo> {
  try {
    return await ask<ImageInfo>(`/images/${encodeURIComponent(image_id)}/info`);
  } catch (fault) {
    if (!isMissing(fault)) throw fault;
    throw new Error(mayChange() ? `${GONE}. ${WHERE}` : `${GONE}.`);
  }
}

/** Deletes a picture; one that is gone already, by somebody else's doing, is what was wanted. */
export async function deletePicture(image_id: string): Promise<void> {
  try {
    await ask(`/images/${image_id}`, { method: "DELETE" });
  } catch (fault) {
    if (!isMissing(fault)) throw fault;
  }
}

/** Why a picture was set aside; "" where it was not. */
export async function reasonOf(image_id: string): Promise<string> {
  return (await infoOf(image_id)).failure?.reason ?? "";
}

/** Has a picture that was set aside looked at once more. */
export async function retryPicture(image_id: string): Promise<void> {
  await ask(`/failures/${image_id}/retry`, { method: "POST" });
}

/** The picture, whose deletion is undone. */
export function restorePicture(image_id: string): Promise<ImageListed> {
  return ask<ImageListed>(`/images/${image_id}/restore`, { method: "POST" });
}
