/** A tool for tests of tool calls, and the text of a streamed reply. */
export const TOOLS = [
  {
    type: 'function',
    function: { name: 'weather', parameters: { type: 'object', properties: {} } },
  },
]

/** The deltas of a stream, joined per field. */
// oxlint-disable-next-line typescript/no-explicit-any -- JSON of any shape
export function joined(events: any[], field: string): string {
  return events
    .filter((event) => event !== '[DONE]')
    .map((event) => event.choices[0]?.delta[field] ?? '')
    .join('')
}
