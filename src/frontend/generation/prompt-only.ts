/**
 * A request for the log-probabilities of its prompt and no output tokens. Engines generate at least one token,
 * so one is requested and hidden; the reply ends with it.
 */
import { finishChunk, usageOf } from '../../request/index.ts'
import type { ReplySink, RequestService } from '../../request/index.ts'

export function createPromptOnlyService(below: RequestService): RequestService {
  return {
    send(request, sink) {
      let hasEnded = false
      const end = (cachedTokens?: number): void => {
        if (hasEnded) return
        hasEnded = true
        const usage = usageOf(request.tokenIds.length, 0, cachedTokens)
        sink.onChunk(finishChunk('length', { usage }))
      }
      const own: ReplySink = {
        onToken: () => end(),
        onChunk: ({ tokenIds, finish, usage, ...rest }) => {
          if (hasEnded) return
          if (rest.promptLogprobs !== undefined)
            sink.onChunk({ tokenIds: [], promptLogprobs: rest.promptLogprobs })
          if (finish === 'cancelled') {
            hasEnded = true
            sink.onChunk(finishChunk(finish))
          } else if (finish !== undefined || tokenIds.length > 0) end(usage?.cachedTokens)
        },
        onError: (error) => {
          if (!hasEnded) sink.onError(error)
          hasEnded = true
        },
        onPhase: (event) => sink.onPhase?.(event),
      }
      const stop = { ...request.stop, maxTokens: 1, minTokens: 0 }
      return below.send({ ...request, stop }, own)
    },
  }
}
