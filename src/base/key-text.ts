/**
 * The format of an API key, for code that must not print one: a client may put its key in a wrong place, such as a
 * path or an id, and from there it would get into logs.
 */
const KEY = /baton_([a-z0-9]{8})_[A-Za-z0-9_-]{43}/
const KEYS = new RegExp(KEY, 'g')

export function holdsKey(text: string): boolean {
  return KEY.test(text)
}

/** Masks API keys in the text; the first characters remain, which is how key lists name a key. */
export function withoutKeys(text: string): string {
  return text.includes('baton_') ? text.replace(KEYS, 'baton_$1_…') : text
}
