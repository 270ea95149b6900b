// What is sent for a question, with the options as they are.
import type { PictureQuestion } from "./history";
import type { SearchOptions } from "./options";

export const MOST_EXPLAINED = 100; // results of one answer

/** The body that asks for pictures with a sentence, of whatever model; with explanations where they are not too many. */
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

/** The form that asks with a picture for others, or for sentences. */
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
