/** The fields of a query string; of a repeated field the last one. */
export function queryFields(query: string): Readonly<Record<string, string | undefined>> {
  const pairs = query.split('&').filter((pair) => pair !== '')
  return Object.fromEntries(
    pairs.map((pair) => {
      const [name = '', ...rest] = pair.split('=')
      return [decoded(name), decoded(rest.join('='))]
    }),
  )
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return text
  }
}
