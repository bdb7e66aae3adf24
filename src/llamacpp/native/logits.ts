/** Functions on a row of logits without llama.cpp's samplers: the best token, log-probabilities. */
import type { TokenLogprob, TokenLogprobs } from '../../request/index.ts'

/** −1: no logit is above minus infinity. With equal logits the lower id wins. */
export function bestToken(logits: Float32Array): number {
  let best = -Infinity
  let token = -1
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i] as number
    if (logit > best) {
      best = logit
      token = i
    }
  }
  return token
}

/** Log-probabilities of `token` and of the `top` best ones, by the model itself. */
export function logprobsOf(logits: Float32Array, token: number, top: number): TokenLogprobs {
  const best = bestTokens(logits, Math.max(1, top))
  const highest = logits[best[0] ?? 0] ?? 0
  let sum = 0
  for (let i = 0; i < logits.length; i++) sum += Math.exp((logits[i] as number) - highest)
  const shift = highest + Math.log(sum)
  const entry = (tokenId: number): TokenLogprob => ({
    tokenId,
    logprob: (logits[tokenId] ?? -Infinity) - shift,
  })
  return { ...entry(token), top: best.slice(0, top).map(entry) }
}

function bestTokens(logits: Float32Array, count: number): number[] {
  const best: number[] = []
  let least = -Infinity
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] as number
    if (logit <= least && best.length >= count) continue
    let at = best.length
    while (at > 0 && (logits[best[at - 1] as number] as number) < logit) at--
    best.splice(at, 0, token)
    if (best.length > count) best.pop()
    least = logits[best.at(-1) as number] as number
  }
  return best
}
