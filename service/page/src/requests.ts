// Requests for questions with the current options.
import type { PictureQuestion } from "./history";
import type { SearchOptions } from "./options";

export const MOST_EXPLAINED = 100; // results in one answer

/** The body of a search with a sentence, without the model; with explanations unless there are too many results. */
export function textRequest(query: string, options: SearchOptions, k: number): Record<string, unknown> {
  return {
    query,
    k,
    explain: k <= MOST_EXPLAINED,
    sort: options.order,
    filter: options.filter,
    match: options.match,
    group_near_duplicates: options.groups,
    ...options.cutOff,
  };
}

/** The form of a search with a picture for similar ones or for sentences. */
export function pictureForm(
  question: PictureQuestion,
  model: string | null,
  options: SearchOptions,
  k: number,
): FormData {
  const form = new FormData();
  const { asked, kind, words } = question;
  const fields: Record<string, unknown> = {
    ...asked,
    target: kind === "pictures" ? "images" : "captions",
    model,
    k,
    ...options.cutOff,
  };
  if (options.filter) fields.filter = JSON.stringify(options.filter);
  if (kind === "pictures")
    Object.assign(fields, {
      query: words || null,
      sort: options.order,
      group_near_duplicates: options.groups,
      min_probability: null,
    });
  for (const [name, value] of Object.entries(fields))
    if (value !== null) form.set(name, value instanceof File ? value : String(value));
  return form;
}
