/** What a chosen token means for its run: one more token, or the end. */
import { BatonError } from '../../../base/index.ts'
import type { SequenceRun } from './sequence-run.ts'
import type { Choice } from './token-chooser.ts'

export function applyChoice(
  run: SequenceRun,
  choice: Choice,
  endTokens: ReadonlySet<number>,
): void {
  const { token, logprobs } = choice
  if (token < 0) {
    run.fail(
      new BatonError('backend.unknown', 'llama.cpp chose no token: no logits or none allowed'),
    )
    return
  }
  const { stop, eosTokenIds } = run.request
  const isStopToken = stop.stopTokenIds?.includes(token) ?? false
  const isEnd = stop.ignoreEos !== true && (endTokens.has(token) || eosTokenIds.includes(token))
  const content =
    logprobs === undefined ? { tokenIds: [token] } : { tokenIds: [token], logprobs: [logprobs] }
  if (isStopToken || isEnd) {
    const shown = stop.includeStopInOutput === true ? content : {}
    if (stop.includeStopInOutput === true) run.tokenCount += 1
    run.end(isStopToken ? 'stop' : 'eos', { ...shown, stopReason: token })
    return
  }
  run.tokens[run.tokenCount] = token
  run.tokenCount += 1
  run.context.notifyFirstToken()
  if (run.outputTokens >= run.maxTokens) run.end('length', content)
  else run.push(content)
}
