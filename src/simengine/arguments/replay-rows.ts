/**
 * Exact outputs for a replay: one JSON object per line, found by a key in the request.
 *
 * `{"output_replay_id": "a", "output_length": 2, "output_token_ids": [5, 6]}`; keys must be unique.
 */
import { isRecord } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { countOf, refuse, textOf } from './mock-arg-value.ts'

type ReplayScript = (request: GenerateRequest) => Uint32Array | undefined

/** A request names its row as `extra.outputReplayId`; without it, or with an unknown one, the output is not scripted. */
export function replayScript(name: string, lines: string): ReplayScript {
  const rows = new Map<string, Uint32Array>()
  for (const [index, line] of lines.split('\n').entries()) {
    if (line.trim() === '') continue
    const at = `${name}, line ${index + 1}`
    const row = recordOf(at, line)
    const key = textOf(`${at}: output_replay_id`, row['output_replay_id'])
    if (rows.has(key)) refuse(`${at}: output_replay_id`, key, 'unique in the file')
    rows.set(key, tokensOf(at, row))
  }
  return (request) => {
    const key = request.extra?.['outputReplayId']
    return typeof key === 'string' ? rows.get(key) : undefined
  }
}

function tokensOf(at: string, row: Readonly<Record<string, unknown>>): Uint32Array {
  const ids = row['output_token_ids']
  if (!Array.isArray(ids) || ids.length === 0)
    return refuse(`${at}: output_token_ids`, ids, 'a list of token ids')
  const length = countOf(`${at}: output_length`, row['output_length'], 1)
  if (length !== ids.length) refuse(`${at}: output_length`, length, `${ids.length}, as the tokens`)
  const tokens = ids.map((id, i) => countOf(`${at}: output_token_ids[${i}]`, id, 0, 0xffffffff))
  return Uint32Array.from(tokens)
}

function recordOf(at: string, line: string): Readonly<Record<string, unknown>> {
  let row: unknown
  try {
    row = JSON.parse(line)
  } catch {
    return refuse(at, line, 'JSON')
  }
  return isRecord(row) ? row : refuse(at, row, 'an object')
}
