// What is kept for this tab: the API key, and what else outlasts a page that is loaded anew.
const KEY = "regard-key";

const inPage: Record<string, string> = {};

/** What the browser keeps for this tab, or, where it keeps nothing, the page. */
export function tabStorage(): Record<string, string> {
  try {
    return sessionStorage;
  } catch {
    return inPage;
  }
}

export function keepKey(key: string): void {
  tabStorage()[KEY] = key;
}

/** The key that this tab was given; "" for none. */
export function keptKey(): string {
  return tabStorage()[KEY] ?? "";
}

export function forgetKey(): void {
  delete tabStorage()[KEY];
}
