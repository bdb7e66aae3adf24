/**
 * Checks what every client receives: exactly one end, and exactly the tokens that the model generates.
 */
import { SimTokens } from '../../simengine/index.ts'
import type { FinishReason, GenerateRequest } from '../../request/index.ts'

const LAB_TOKENS = [1000, 2000] as const
const VIOLATIONS_MAX = 20

export class ReplyWitness {
  readonly violations: string[] = []
  readonly #tokens: SimTokens
  /** For each request its token stream, its length, and whether it has ended. */
  readonly #streams: Uint32Array
  readonly #lengths: Uint32Array
  readonly #sent: Uint8Array
  readonly #ended: Uint8Array

  constructor(requests: number, seed: number) {
    this.#tokens = new SimTokens(seed, LAB_TOKENS)
    this.#streams = new Uint32Array(requests)
    this.#lengths = new Uint32Array(requests)
    this.#sent = new Uint8Array(requests)
    this.#ended = new Uint8Array(requests)
  }

  sent(index: number, request: GenerateRequest): void {
    this.#sent[index] = 1
    this.#streams[index] = this.#tokens.streamOf(request)
    this.#lengths[index] = request.stop.maxTokens ?? 0
  }

  token(index: number, at: number, tokenId: number): void {
    if (this.#ended[index] !== 0) this.report(`request ${index}: a token after the end`)
    const expected = this.#tokens.tokenAt(this.#streams[index]!, at)
    if (tokenId !== expected)
      this.report(`request ${index}: token ${at} is ${tokenId}, expected ${expected}`)
  }

  ended(index: number, finish: FinishReason, tokens: number): void {
    this.#end(index)
    const wanted = this.#lengths[index]!
    if (finish !== 'cancelled' && tokens !== wanted)
      this.report(`request ${index}: ended (${finish}) after ${tokens} of ${wanted} tokens`)
    if (tokens > wanted) this.report(`request ${index}: ${tokens} tokens, asked for ${wanted}`)
  }

  failed(index: number, code: string): void {
    this.#end(index)
    if (code === 'runtime.internal') this.report(`request ${index}: internal error`)
  }

  /** At the end of a run: every request that was sent must have ended. */
  checkAll(): void {
    for (let i = 0; i < this.#sent.length; i++) {
      if (this.#sent[i] === 1 && this.#ended[i] === 0) this.report(`request ${i}: never ended`)
    }
  }

  report(violation: string): void {
    if (this.violations.length < VIOLATIONS_MAX) this.violations.push(violation)
  }

  #end(index: number): void {
    if (this.#ended[index] !== 0) this.report(`request ${index}: ended twice`)
    this.#ended[index] = 1
  }
}
