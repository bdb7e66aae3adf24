/** True if the text is valid JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return false
    throw thrown
  }
}
