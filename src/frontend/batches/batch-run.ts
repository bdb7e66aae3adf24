/**
 * The life of one batch in the process that holds its lease: validate the input, answer each line that has no
 * answer yet, publish the files.
 *
 * validating ──▶ in_progress ──▶ finalizing ──▶ completed | expired | cancelled
 * └──▶ failed     └── stop() keeps the state; another process continues
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Random, Timer } from '../../base/index.ts'
import type { Caller } from '../access/caller.ts'
import { createRequestId } from '../http/request-id.ts'
import { checkInput } from './batch-check.ts'
import type { BatchOptions } from './batch-folder.ts'
import type { BatchGate } from './batch-gate.ts'
import { isBlank, readBatchLine } from './batch-line.ts'
import type { BatchLine } from './batch-line.ts'
import { BatchOutput } from './batch-output.ts'
import type { OutputLine } from './batch-output.ts'
import { hasEnded } from './batch-record.ts'
import type { BatchFault, BatchRecord, BatchState } from './batch-record.ts'
import { BatchSignal } from './batch-signal.ts'
import { byteLines } from './byte-lines.ts'
import { attemptAfterMs } from './line-retry.ts'
import type { AnswerLine } from './line-answer.ts'
import type { StoredBatches } from './stored-batches.ts'
import { fullError } from './stored-files.ts'
import type { StoredFiles } from './stored-files.ts'

export interface BatchRunDeps {
  readonly options: BatchOptions
  readonly files: StoredFiles
  readonly batches: StoredBatches
  readonly clock: Clock
  readonly random: Random
  readonly gate: BatchGate
  readonly answer: AnswerLine
  /** Null: the key that created the batch is not valid any more. */
  readonly callerOf: (batch: BatchRecord) => Caller | null
  readonly lineBytesMax: number
  readonly onGivenUp: (batchId: string) => void
  /** True during the time after the start in which a model may still be unknown. */
  readonly isYoung: () => boolean
}

type End = 'expired' | 'cancelled' | 'stopped' | 'full'

const WHY = {
  expired: {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  },
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before this request.' },
} as const
/** The record is written this long after a line was answered, together with further lines. */
const RECORD_MS = 1000
/** Lines that have started or wait for a retry, as a multiple of those that may run. */
const BEGUN_SHARE = 2

export class BatchRun {
  batch: BatchRecord
  readonly #deps: BatchRunDeps
  readonly #signal = new BatchSignal()
  readonly #output: BatchOutput
  #end: End | null = null
  #open = 0
  #whenFewer: (() => void) | null = null
  #recordTimer: Timer | null = null
  /** What is in the folder, or on the way to it. */
  #recorded: BatchRecord
  #recording: Promise<unknown> = Promise.resolve()
  #fault: unknown = null

  constructor(deps: BatchRunDeps, batch: BatchRecord) {
    this.#deps = deps
    this.batch = batch
    this.#recorded = batch
    this.#output = new BatchOutput(deps.options.folder, batch, () => this.#isHeld())
  }

  cancel(): void {
    if (this.#end === null && !hasEnded(this.batch)) {
      this.batch = this.#at('cancelling')
      this.#endBy('cancelled')
    }
  }

  /** Keeps the state; running requests are cancelled and get no line. */
  stop(): void {
    this.#endBy('stopped')
  }

  /** Another process has the batch: nothing more is written here. */
  giveUp(): void {
    if (this.#end === 'stopped') return
    this.#endBy('stopped')
    this.#deps.onGivenUp(this.batch.id)
  }

  /** The current record once it is stored: what a client has seen is not lost when this process dies. */
  async shown(): Promise<BatchRecord> {
    const { batch } = this
    if (batch !== this.#recorded && !hasEnded(batch)) await this.#record(batch)
    else await this.#recording
    return batch
  }

  /** Resolves when the batch has ended or was stopped. Rejects when its files cannot be written. */
  async run(): Promise<void> {
    const { clock } = this.#deps
    const leftMs = this.batch.expiresSeconds * 1000 - clock.epochMs()
    const expiry = clock.after(Math.max(leftMs, 0), () => this.#endBy('expired'))
    try {
      if (this.batch.state === 'cancelling') this.#endBy('cancelled')
      if (this.batch.state === 'validating' && this.#end === null && !(await this.#check())) return
      const asked = await this.#answerAll()
      await this.#fewerThan(1)
      if (this.#fault !== null) throw this.#fault
      if (this.#end === 'stopped') return
      await this.#publish(asked)
    } finally {
      expiry.cancel()
      this.#recordTimer?.cancel()
      await this.#output.close()
    }
  }

  async #check(): Promise<boolean> {
    const { files, lineBytesMax } = this.#deps
    const { endpoint, inputFileId } = this.batch
    const checked = await checkInput(files.content(inputFileId), endpoint, lineBytesMax)
    const { total, model, faults } = checked
    if (this.#end === 'stopped') return false
    const state = faults.length > 0 ? 'failed' : 'in_progress'
    // A batch that is being cancelled stays in that state.
    const next = this.#end === 'cancelled' && state === 'in_progress' ? this.batch : this.#at(state)
    await this.#record({ ...next, total, model, faults })
    return state === 'in_progress'
  }

  /** Returns the number of lines. */
  async #answerAll(): Promise<number> {
    const { gate, files, lineBytesMax, options } = this.#deps
    const { inputFileId, endpoint } = this.batch
    const done = await this.#output.written()
    this.#countLines()
    const usedBytes = await options.folder.bytesOfAll()
    const writtenBefore = this.#writtenBytes
    let lines = 0
    for await (const bytes of byteLines(files.content(inputFileId), lineBytesMax)) {
      if (isBlank(bytes)) continue
      lines += 1
      const line = readBatchLine(bytes, endpoint)
      if ('code' in line || done.has(line.customId)) continue
      await this.#fewerThan(options.requestsMax * BEGUN_SHARE)
      if (usedBytes + this.#writtenBytes - writtenBefore > options.bytesMax) this.#endBy('full')
      const isIn = await gate.enter(line.model, this.#signal)
      if (this.#end === 'stopped' || this.#end === 'full') {
        if (isIn) gate.leave(line.model)
        return lines
      }
      this.#open += 1
      this.#answerLine(line, isIn).then(
        () => this.#closed(),
        (fault: unknown) => {
          this.#fault ??= fault
          this.#endBy('stopped')
          this.#closed()
        },
      )
    }
    return lines
  }

  get #writtenBytes(): number {
    const { output, error } = this.#output.bytes
    return output + error
  }

  async #answerLine(line: BatchLine, isIn: boolean): Promise<void> {
    let mayAsk = isIn
    for (let attempt = 1; mayAsk; attempt++) {
      const { written, waitMs } = await this.#attempt(line, attempt)
      if (written) return
      if (waitMs === null) break
      await this.#pause(waitMs)
      mayAsk = await this.#deps.gate.enter(line.model, this.#signal)
    }
    if (this.#end !== 'expired' && this.#end !== 'cancelled') return
    await this.#write({
      id: this.#newId(),
      customId: line.customId,
      response: null,
      error: WHY[this.#end],
    })
  }

  /** Runs one line in a slot of the gate, which is released afterwards. */
  async #attempt(
    line: BatchLine,
    attempt: number,
  ): Promise<{ readonly written: boolean; readonly waitMs: number | null }> {
    const { gate, answer, callerOf, isYoung } = this.#deps
    const { customId, body } = line
    const id = this.#newId()
    const caller = callerOf(this.batch)
    if (caller === null) {
      gate.leave(line.model)
      await this.#write({ id, customId, response: null, error: KEY_GONE })
      return { written: true, waitMs: null }
    }
    const { endpoint } = this.batch
    const signal = this.#signal
    const {
      status,
      body: text,
      error,
    } = await answer({
      endpoint,
      body,
      requestId: id,
      caller,
      signal,
    }).finally(() => gate.leave(line.model))
    if (error !== null) {
      if (signal.aborted) return { written: false, waitMs: null }
      const waitMs = attemptAfterMs(error, attempt, isYoung())
      if (waitMs !== null) return { written: false, waitMs }
    }
    const response = { status, requestId: id, body: text }
    await this.#write({ id, customId, response, error: null })
    return { written: true, waitMs: null }
  }

  async #write(line: OutputLine): Promise<void> {
    await this.#output.write(line)
    this.#countLines()
    this.#recordTimer ??= this.#deps.clock.after(RECORD_MS, () => {
      this.#recordTimer = null
      this.shown().catch((fault: unknown) => {
        this.#fault ??= fault
        this.#endBy('stopped')
      })
    })
  }

  #countLines(): void {
    const { completed, failed, usage } = this.#output
    this.batch = { ...this.batch, completed, failed, usage }
  }

  async #publish(asked: number): Promise<void> {
    const { files } = this.#deps
    const { completed, failed, usage, bytes } = this.#output
    const faults = this.#faults(asked)
    const total = Math.max(this.batch.total, asked)
    const counted = { ...this.#at('finalizing'), total, completed, failed, usage, faults }
    await this.#record(counted)
    if (this.#end === 'stopped') return
    const { id, tenant, outputFileId, errorFileId, outputKeepSeconds } = counted
    const keep = outputKeepSeconds ?? undefined
    const file = { tenant, purpose: 'batch_output' }
    if (bytes.output > 0) {
      const fileName = `${id}_output.jsonl`
      await files.publish({ ...file, id: outputFileId, fileName }, bytes.output, keep)
    }
    if (bytes.error > 0) {
      const fileName = `${id}_error.jsonl`
      await files.publish({ ...file, id: errorFileId, fileName }, bytes.error, keep)
    }
    const written = { hasOutput: bytes.output > 0, hasErrors: bytes.error > 0 }
    const isOver = this.#end === 'expired' || this.#end === 'cancelled'
    const state = faults.length > 0 ? 'failed' : isOver ? (this.#end as BatchState) : 'completed'
    await this.#record({ ...this.#at(state), ...written })
  }

  #faults(asked: number): readonly BatchFault[] {
    const of = (code: string, message: string) => [{ code, message, line: null, param: null }]
    if (this.#end === 'full') {
      return of('storage_full', fullError(this.#deps.options.bytesMax).message)
    }
    // It was cancelled before its input was validated.
    const { total } = this.batch
    return asked < total ? of('input_gone', 'the input file was deleted while the batch ran') : []
  }

  async #record(batch: BatchRecord): Promise<void> {
    this.batch = batch
    this.#recorded = batch
    const { batches } = this.#deps
    // One after the other, so that an older record never replaces a newer one.
    const written = this.#recording.then(async () => {
      if (await this.#isHeld()) await batches.write(batch)
    })
    this.#recording = written.catch(() => {})
    await written
  }

  /** Whether another process has the batch now, because this one was suspended: then it writes nothing more. */
  async #isHeld(): Promise<boolean> {
    const isHeld = await this.#deps.options.folder.renewLease(this.batch.id)
    if (!isHeld) this.giveUp()
    return isHeld
  }

  #at(state: BatchState): BatchRecord {
    const seconds = Math.floor(this.#deps.clock.epochMs() / 1000)
    return { ...this.batch, state, reached: { ...this.batch.reached, [state]: seconds } }
  }

  #endBy(end: End): void {
    // Stopping the process does not wait for a batch that is being cancelled.
    if (this.#end !== null && end !== 'stopped') return
    this.#end = end
    this.#signal.abort()
    this.#whenFewer?.()
  }

  #closed(): void {
    this.#open -= 1
    this.#whenFewer?.()
  }

  async #fewerThan(limit: number): Promise<void> {
    while (this.#open >= limit) {
      await new Promise<void>((resolve) => {
        this.#whenFewer = resolve
      })
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        timer.cancel()
        this.#signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = this.#deps.clock.after(ms, done)
      this.#signal.addEventListener('abort', done)
    })
  }

  #newId(): string {
    return `batch_req_${createRequestId(this.#deps.random).replaceAll('-', '')}`
  }
}

const KEY_GONE = {
  code: new BatonError('request.unauthenticated', '').code,
  message: 'the key that created this batch is not valid any more',
} as const
