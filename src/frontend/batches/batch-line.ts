/**
 * Parses one line of a batch's input: a request, or the reason why it is invalid. The body stays the original
 * bytes, so that no digit of a number is lost.
 */
import { refuseUnwieldy } from '../../api/index.ts'
import { BatonError, isRecord } from '../../base/index.ts'
import { asciiOf, JsonMembers } from '../http/json-members.ts'
import type { BatchFault } from './batch-record.ts'

export interface BatchLine {
  readonly customId: string
  readonly body: Uint8Array
  readonly model: string | undefined
}

const CUSTOM_ID_MAX = 512
const utf8 = new TextDecoder()

/** Throws an error without the line number. */
export function readBatchLine(
  bytes: Uint8Array,
  endpoint: string,
): BatchLine | Omit<BatchFault, 'line'> {
  let members
  let fields
  try {
    refuseUnwieldy(bytes)
    members = new JsonMembers(bytes).top()
    fields = JSON.parse(utf8.decode(bytes)) as Record<string, unknown>
  } catch (thrown) {
    const why = BatonError.from(thrown).message.replace('the JSON body', 'it').slice(0, 200)
    return fault('invalid_json_line', null, `the line is not a JSON object: ${why}`)
  }
  const { custom_id: customId, method = 'POST', url, body } = fields
  if (typeof customId !== 'string' || customId === '' || customId.length > CUSTOM_ID_MAX) {
    const text = `\`custom_id\` must be a text of 1 to ${CUSTOM_ID_MAX} characters`
    return fault('missing_required_parameter', 'custom_id', text)
  }
  if (method !== 'POST') return fault('invalid_method', 'method', '`method` must be POST')
  if (url !== endpoint) {
    const text = `\`url\` must be ${endpoint}, the endpoint of the batch`
    return fault('mismatched_url', 'url', text)
  }
  if (!isRecord(body)) {
    return fault('missing_required_parameter', 'body', '`body` must be an object')
  }
  if (body['stream'] === true) {
    return fault('invalid_request', 'body.stream', 'a request of a batch cannot be streamed')
  }
  const member = members.findLast(({ key }) => key === 'body')
  const { model } = body
  return {
    customId,
    body: member === undefined ? bytes : bytes.subarray(member.valueStart, member.end),
    model: typeof model === 'string' ? model : undefined,
  }
}

/** True when the line contains no request. */
export function isBlank(bytes: Uint8Array): boolean {
  return bytes.length < 64 && asciiOf(bytes, 0, bytes.length).trim() === ''
}

function fault(code: string, param: string | null, message: string): Omit<BatchFault, 'line'> {
  return { code, param, message }
}
