/** A parser must not care how its text is cut: in one piece, one UTF-16 unit at a time, and in two at every place. */
export function everyCut(text: string): string[][] {
  const cuts = Array.from({ length: text.length + 1 }, (_, at) => [
    text.slice(0, at),
    text.slice(at),
  ])
  return [[text], text.split(''), ...cuts]
}
