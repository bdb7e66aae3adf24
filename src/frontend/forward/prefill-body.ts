/**
 * Makes the body of the prefill leg of a forwarded request: the client's bytes without the fields of the decode
 * leg, so that both legs make the same tokens of the same prompt.
 */
import { asciiOf } from '../http/json-members.ts'
import type { Member } from '../http/json-members.ts'

export interface PrefillForm {
  /**
   * Fields of the decode leg: how much is generated, and how it is shown. With some of them a server refuses to
   * generate a single token.
   */
  readonly ofDecode: ReadonlySet<string>
  /** The fields of a prefill leg instead, except `stream`. */
  readonly fields: string
  /** A request with one of these fields (not null or false) can only be served by a single server. */
  readonly ofOneServer: readonly string[]
}

const COMPLETIONS: PrefillForm = {
  ofDecode: new Set([
    'stream',
    'stream_options',
    'max_tokens',
    'max_completion_tokens',
    'min_tokens',
  ]),
  fields: '"max_tokens":1',
  ofOneServer: ['use_beam_search'],
}

/** By path: the endpoints where engines accept the fields of a KV transfer. */
const FORMS: ReadonlyMap<string, PrefillForm> = new Map(
  Object.entries({
    '/v1/chat/completions': COMPLETIONS,
    '/v1/completions': COMPLETIONS,
    '/v1/messages': {
      ofDecode: new Set(['stream', 'max_tokens']),
      fields: '"max_tokens":1',
      ofOneServer: [],
    },
    '/v1/responses': {
      ofDecode: new Set(['stream', 'stream_options', 'max_output_tokens', 'store', 'background']),
      // The response of a prefill leg is not needed later, so it is not stored.
      fields: '"max_output_tokens":1,"store":false',
      // Only the server that gave the earlier answer has it.
      ofOneServer: ['background', 'previous_response_id', 'conversation'],
    },
  }),
)

/**
 * Null: engines cannot transfer KV for this path or this request; only a single prompt with a single answer is
 * supported.
 */
export function prefillFormOf(
  bytes: Uint8Array,
  top: readonly Member[],
  path: string,
): PrefillForm | null {
  const form = FORMS.get(path)
  if (form === undefined || form.ofOneServer.some((name) => isSet(bytes, top, name))) return null
  const isOneOfBoth = isOne(bytes, top, 'n') && isOne(bytes, top, 'best_of')
  return isOneOfBoth && hasOnePrompt(bytes, top) ? form : null
}

function isSet(bytes: Uint8Array, top: readonly Member[], name: string): boolean {
  const text = shortValue(bytes, top, name)
  return text !== undefined && text !== 'null' && text !== 'false'
}

function isOne(bytes: Uint8Array, top: readonly Member[], name: string): boolean {
  const text = shortValue(bytes, top, name)
  return text === undefined || text === '1' || text === 'null'
}

/** The start of the value, as far as it is needed; the last member of a name counts. */
function shortValue(bytes: Uint8Array, top: readonly Member[], name: string): string | undefined {
  const member = top.findLast(({ key }) => key === name)
  if (member === undefined) return undefined
  return asciiOf(bytes, member.valueStart, Math.min(member.end, member.valueStart + 8))
}

/** Messages, a text or a list of ids are one prompt; a list of texts is several. */
function hasOnePrompt(bytes: Uint8Array, top: readonly Member[]): boolean {
  const prompt = top.findLast(({ key }) => key === 'prompt')
  if (prompt === undefined) return top.some(({ key }) => key === 'messages' || key === 'input')
  const start = asciiOf(bytes, prompt.valueStart, Math.min(prompt.end, prompt.valueStart + 64))
  return /^(?:"|\[\s*\d)/.test(start)
}
