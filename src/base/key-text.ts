/**
 * How an API key looks, for whoever must not show one: a client may put its key where it does not belong, into a path or an
 * id, and from there it would come into logs.
 */
const KEY = /baton_([a-z0-9]{8})_[A-Za-z0-9_-]{43}/
const KEYS = new RegExp(KEY, 'g')

export function holdsKey(text: string): boolean {
  return KEY.test(text)
}

/** What is left names the key, as lists of keys do. */
export function withoutKeys(text: string): string {
  return text.includes('baton_') ? text.replace(KEYS, 'baton_$1_…') : text
}
