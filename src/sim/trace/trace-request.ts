/**
 * A request of a trace or a workload, and its prompt.
 *
 * `hashIds[i]` stands for the prefix that ends at block i, so equal leading ids are a shared prefix. A trace does
 * not contain tokens; they are generated from (id, offset), so that equal ids give equal tokens.
 */

export interface TraceRequest {
  readonly atMs: number
  readonly inputTokens: number
  readonly outputTokens: number
  /** One per block of the prompt; equal leading ids are a shared prefix. */
  readonly hashIds: readonly number[]
  /** Tokens per id. Default 512. */
  readonly blockTokens?: number
  readonly sessionId?: string
  /** Higher values go first. Default 0. */
  readonly priority?: number
  /** Sent `delayMs` after the request with this index has ended, instead of at `atMs`. */
  readonly after?: number
  readonly delayMs?: number
  /** Sent when all of these allow it, and not before `atMs`; instead of `after`. */
  readonly waitsFor?: readonly TraceDependency[]
}

export interface TraceDependency {
  /** Index in the trace, smaller than the own one. */
  readonly request: number
  readonly on: 'sent' | 'ended'
  readonly delayMs: number
}

export const TRACE_BLOCK_TOKENS = 512

/** The prompt of a trace's request: token j of a block is a function of the block's id and j. */
export function promptTokens(request: TraceRequest): Uint32Array {
  const { inputTokens, hashIds, blockTokens = TRACE_BLOCK_TOKENS } = request
  const tokens = new Uint32Array(inputTokens)
  for (let from = 0, block = 0; from < inputTokens; from += blockTokens, block++) {
    const base = Math.imul(hashIds[block]! + 1, 0x9e3779b1)
    const until = Math.min(from + blockTokens, inputTokens)
    for (
      let i = from, offset = 0x85ebca77 | 0;
      i < until;
      i++, offset = (offset + 0x85ebca77) | 0
    ) {
      const x = base ^ offset
      const mixed = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d)
      tokens[i] = (mixed ^ (mixed >>> 13)) >>> 15
    }
  }
  return tokens
}

/** Share of prompt blocks that an unlimited shared cache would contain: the upper limit for any routing. */
export function idealReuse(requests: readonly TraceRequest[]): number {
  const seen = new Set<number>()
  let [hits, total] = [0, 0]
  for (const { hashIds } of requests) {
    for (const id of hashIds) {
      total += 1
      if (seen.has(id)) hits += 1
      else seen.add(id)
    }
  }
  return total === 0 ? 0 : hits / total
}

/** Number of a prompt's blocks in its first tokens; a partial block counts partly. */
export function traceBlocksIn(tokens: number, promptTokens: number): number {
  const whole = Math.floor(tokens / TRACE_BLOCK_TOKENS)
  const rest = tokens - whole * TRACE_BLOCK_TOKENS
  if (rest === 0) return whole
  return whole + rest / Math.min(TRACE_BLOCK_TOKENS, promptTokens - whole * TRACE_BLOCK_TOKENS)
}
