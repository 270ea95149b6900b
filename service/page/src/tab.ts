// Storage for this tab: the API key and other values that survive a reload.
const KEY = "regard-key";

const inPage: Record<string, string> = {};

/** The browser's storage for this tab, or a substitute in the page if there is none. */
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

/** The API key of this tab; "" for none. */
export function keptKey(): string {
  return tabStorage()[KEY] ?? "";
}

export function forgetKey(): void {
  delete tabStorage()[KEY];
}
