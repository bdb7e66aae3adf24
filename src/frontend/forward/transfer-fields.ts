/**
 * Removes the fields by which engines transfer KV to each other, and `rid`, with which SGLang ends every
 * request whose id starts with the value. A client that could set them could read other clients' KV, corrupt an
 * engine's prefix cache, or end the engine or requests of others. They are cut out of every forwarded body.
 *
 * Owns: which fields these are, where engines look for them, and the cut. All other bytes are preserved.
 */
import type { JsonMembers, Member, Span } from '../http/json-members.ts'
import { replacedSpans } from '../http/replaced-spans.ts'

const TRANSFER_FIELD =
  /^(?:kv_transfer_params|ec_transfer_params|disaggregated_params|bootstrap_\w*|disagg_\w*|rid)$/

/** Objects in which engines look for such fields, at every level below them. */
const CARRIERS: ReadonlySet<string> = new Set([
  'vllm_xargs',
  'extra_args',
  'extra_body',
  'sampling_params',
  'custom_params',
  'nvext',
])

export function isTransferField(key: string): boolean {
  return TRANSFER_FIELD.test(key)
}

/** The spans to cut, in text order and without overlaps. */
export function transferFields(
  json: JsonMembers,
  top: readonly Member[],
  alsoCut: (key: string) => boolean,
): readonly Span[] {
  const cuts: Span[] = []
  cutMembers(json, top, { isCarried: false, isCut: alsoCut }, cuts)
  if (cuts.length < 2) return cuts
  const inOrder = cuts.toSorted((left, right) => left.start - right.start)
  const merged: { start: number; end: number }[] = []
  for (const { start, end } of inOrder) {
    const last = merged.at(-1)
    if (last !== undefined && start <= last.end) last.end = Math.max(last.end, end)
    else merged.push({ start, end })
  }
  return merged
}

/** Returns the same bytes when there is nothing to cut. */
export function withoutSpans(bytes: Uint8Array, cuts: readonly Span[]): Uint8Array {
  if (cuts.length === 0) return bytes
  return replacedSpans(
    bytes,
    cuts.map((span) => ({ span, text: '' })),
  )
}

const CARRIED = { isCarried: true, isCut: () => false }

function cutMembers(
  json: JsonMembers,
  members: readonly Member[],
  { isCarried, isCut }: { readonly isCarried: boolean; readonly isCut: (key: string) => boolean },
  cuts: Span[],
): void {
  let keptEnd: number | null = null
  for (let index = 0; index < members.length; index++) {
    const member = members[index] as Member
    if (isTransferField(member.key) || isCut(member.key)) {
      // With a comma: the one after the member, or before the last member of the object.
      const next = members[index + 1]
      if (next !== undefined) cuts.push({ start: member.start, end: next.start })
      else cuts.push({ start: keptEnd ?? member.start, end: member.end })
      continue
    }
    keptEnd = member.end
    if (isCarried || CARRIERS.has(member.key)) cutValue(json, member.valueStart, cuts)
  }
}

function cutValue(json: JsonMembers, start: number, cuts: Span[]): void {
  cutMembers(json, json.membersAt(start), CARRIED, cuts)
  for (const element of json.elementsAt(start)) cutValue(json, element, cuts)
}
