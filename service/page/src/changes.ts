// Deleting and restoring pictures, and the message about missing ones.
import { ask, isMissing } from "./api";
import type { ImageInfo, ImageListed } from "./openapi";
import { mayChange } from "./session";

/** The message about a missing picture. */
export const GONE = "This picture is not there any more: somebody deleted it";

const WHERE = "“Deleted pictures”, below the library, may still bring it back.";

/** Whether this can be the id of a picture, and not the beginning of one. */
export function isWhole(image_id: string): boolean {
  return /^[0-9a-f]{32}$/.test(image_id);
}

/** All properties of a picture. Error in the page's words if it is missing, or its id is not whole. */
export async function infoOf(image_id: string): Promise<ImageInfo> {
  if (!isWhole(image_id)) throw new Error("This address names no picture; perhaps its end is missing.");
  try {
    return await ask<ImageInfo>(`/images/${encodeURIComponent(image_id)}/info`);
  } catch (fault) {
    if (!isMissing(fault)) throw fault;
    throw new Error(mayChange() ? `${GONE}. ${WHERE}` : `${GONE}.`);
  }
}

/** Deletes a picture. It is no error if it is already deleted. */
export async function deletePicture(image_id: string): Promise<void> {
  try {
    await ask(`/images/${image_id}`, { method: "DELETE" });
  } catch (fault) {
    if (!isMissing(fault)) throw fault;
  }
}

/** Why a picture was set aside; "" if it was not. */
export async function reasonOf(image_id: string): Promise<string> {
  return (await infoOf(image_id)).failure?.reason ?? "";
}

/** Retries a picture that was set aside. */
export async function retryPicture(image_id: string): Promise<void> {
  await ask(`/failures/${image_id}/retry`, { method: "POST" });
}

/** Undoes the deletion of a picture. Returns the picture. */
export function restorePicture(image_id: string): Promise<ImageListed> {
  return ask<ImageListed>(`/images/${image_id}/restore`, { method: "POST" });
}
