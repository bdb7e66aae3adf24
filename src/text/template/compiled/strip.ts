/** `text.strip(characters)`, at the given ends. */
export function stripped(
  text: string,
  characters: string,
  ends: 'both' | 'left' | 'right',
): string {
  const set = new Set(characters)
  let [start, end] = [0, text.length]
  while (ends !== 'right' && start < end) {
    const [first = ''] = text.slice(start, start + 2)
    if (!set.has(first)) break
    start += first.length
  }
  while (ends !== 'left' && end > start) {
    const last = Array.from(text.slice(Math.max(start, end - 2), end)).at(-1) ?? ''
    if (!set.has(last)) break
    end -= last.length
  }
  return text.slice(start, end)
}
