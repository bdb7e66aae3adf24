/**
 * `agent_hints.speculative_prefill`: after an answer the next turn's prompt is known except for the user's next
 * message. It is sent in the background for one token, so that its KV is cached when the next turn arrives.
 *
 * Nobody waits for it and no client sees it; errors are reported to the observer.
 */
import { BatonError } from '../../base/index.ts'
import type { GenerateRequest, ReplySink, TokenLogprobs } from '../../request/index.ts'
import type { OutputEvent } from '../../text/index.ts'
import type { ChoiceEnd, ChoiceOutput } from '../reply/choice-sink.ts'
import type { BackgroundFailed } from './frontend-event.ts'
import type { PreparedPrompt } from '../prompt/prompt.ts'
import type { ServedModel } from '../models/served-model.ts'

/** Keeps the answer's text on its way to the client. Reasoning is not part of the next prompt. */
export class AnswerKeeper implements ChoiceOutput {
  readonly #output: ChoiceOutput
  answer = ''

  constructor(output: ChoiceOutput) {
    this.#output = output
  }

  text(text: string): void {
    this.answer += text
    this.#output.text(text)
  }

  part(event: OutputEvent): void {
    if (event.kind === 'text') this.answer += event.text
    this.#output.part(event)
  }

  textWithLogprobs(text: string, logprobs: readonly TokenLogprobs[]): void {
    this.answer += text
    this.#output.textWithLogprobs(text, logprobs)
  }

  finish(end: ChoiceEnd): void {
    this.#output.finish(end)
  }
}

/** `done`: the request that was answered; the new one uses the same model and tenant. */
export function prefillNextTurn(
  model: ServedModel,
  done: GenerateRequest,
  nextTurn: Promise<PreparedPrompt>,
  record: { tellOfBackground(event: BackgroundFailed): void },
): void {
  const failed = (error: BatonError): void =>
    record.tellOfBackground({
      kind: 'backgroundFailed',
      what: 'speculative prefill',
      errorCode: error.code,
      message: error.message,
    })
  nextTurn.then(
    ({ tokenIds }) => {
      const { contextLength } = model
      if (contextLength !== undefined && tokenIds.length >= contextLength) return
      model.router.service.send(
        {
          ...done,
          requestId: `${done.requestId}-next`,
          tokenIds,
          stop: { maxTokens: 1, ignoreEos: true },
          output: {},
          sampling: { temperature: 0 },
        },
        backgroundSink(failed),
      )
    },
    (thrown: unknown) => failed(BatonError.from(thrown)),
  )
}

function backgroundSink(failed: (error: BatonError) => void): ReplySink {
  return { onToken: () => {}, onChunk: () => {}, onError: failed }
}
