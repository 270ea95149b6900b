// Deletion of a picture, and its undoing.
import { ask, isMissing } from "./api";
import type { ImageListed } from "./openapi";

/** Deletes a picture; one that is gone already, by somebody else's doing, is what was wanted. */
export async function deletePicture(image_id: string): Promise<void> {
  try {
    await ask(`/images/${image_id}`, { method: "DELETE" });
  } catch (fault) {
    if (!isMissing(fault)) throw fault;
  }
}

/** The picture, whose deletion is undone. */
export function restorePicture(image_id: string): Promise<ImageListed> {
  return ask<ImageListed>(`/images/${image_id}/restore`, { method: "POST" });
}
