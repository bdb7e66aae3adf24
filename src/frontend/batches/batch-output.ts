/**
 * Writes the two result files of a batch. Each answer is one line. After a restart a request whose line exists
 * is not sent again. The files are made this process's own first: a process that held the batch before, and was only
 * suspended, cannot add lines to them.
 */
import { isRecord } from '../../base/index.ts'
import type { BatchFolder, OwnFile } from './batch-folder.ts'
import { NO_USAGE } from './batch-record.ts'
import type { BatchRecord, BatchUsage } from './batch-record.ts'
import { byteLines } from './byte-lines.ts'
import { contentName, jsonOf } from './stored-files.ts'

type Kind = 'output' | 'error'

export interface OutputLine {
  readonly id: string
  readonly customId: string
  /** Null: the request was not sent. */
  readonly response: {
    readonly status: number
    readonly requestId: string
    readonly body: string
  } | null
  readonly error: { readonly code: string; readonly message: string } | null
}

/** A longer line of an earlier process is not parsed again for its usage. */
const LINE_BYTES_MAX = 256 * 1024 * 1024
const utf8 = new TextDecoder()
const encoder = new TextEncoder()
const NEWLINE = encoder.encode('\n')

export class BatchOutput {
  completed = 0
  failed = 0
  usage: BatchUsage = NO_USAGE
  readonly bytes: Record<Kind, number> = { output: 0, error: 0 }
  readonly #folder: BatchFolder
  readonly #names: Readonly<Record<Kind, string>>
  readonly #mayOwn: () => Promise<boolean>
  readonly #files: Record<Kind, OwnFile | null> = { output: null, error: null }
  #waiting: Record<Kind, string> = { output: '', error: '' }
  #writing: Promise<void> | null = null

  /** `mayOwn`: whether this process (still) holds the batch. */
  constructor(
    folder: BatchFolder,
    { outputFileId, errorFileId }: BatchRecord,
    mayOwn: () => Promise<boolean>,
  ) {
    this.#folder = folder
    this.#mayOwn = mayOwn
    this.#names = { output: contentName(outputFileId), error: contentName(errorFileId) }
  }

  /** Returns the `custom_id`s that have a line; an incomplete last line is removed. */
  async written(): Promise<Set<string>> {
    const done = new Set<string>()
    for (const kind of ['output', 'error'] as const) {
      let whole = 0
      for await (const line of byteLines(this.#folder.pieces(this.#names[kind]), LINE_BYTES_MAX)) {
        const value = jsonOf(utf8.decode(line))
        const customId = value?.['custom_id']
        if (typeof customId !== 'string') break
        whole += line.length + 1
        done.add(customId)
        this.#count(kind, value?.['response'])
      }
      const bytes = await this.#folder.bytesOf(this.#names[kind])
      if (bytes === undefined) continue
      const file = await this.#own(kind, Math.min(bytes, whole))
      // The last line may lack its line break.
      if (bytes < whole) await file?.append(NEWLINE)
      this.bytes[kind] = whole
    }
    return done
  }

  async close(): Promise<void> {
    await Promise.all([this.#files.output?.close(), this.#files.error?.close()])
  }

  /** Resolves when the line is in the file. */
  async write({ id, customId, response, error }: OutputLine): Promise<void> {
    const kind = response !== null && response.status < 400 ? 'output' : 'error'
    const answer =
      response === null
        ? 'null'
        : `{"status_code":${response.status},"request_id":${JSON.stringify(response.requestId)},"body":${response.body}}`
    const line = `{"id":${JSON.stringify(id)},"custom_id":${JSON.stringify(customId)},"response":${answer},"error":${JSON.stringify(error)}}\n`
    this.#count(kind, response === null ? null : { body: jsonOf(response.body) })
    this.#waiting[kind] += line
    this.#writing ??= this.#writeAll()
    await this.#writing
  }

  /** Lines that arrive during a write are written together with the next write. */
  async #writeAll(): Promise<void> {
    await Promise.resolve()
    try {
      while (this.#waiting.output !== '' || this.#waiting.error !== '') {
        const { output, error } = this.#waiting
        this.#waiting = { output: '', error: '' }
        if (output !== '') await this.#append('output', output)
        if (error !== '') await this.#append('error', error)
      }
    } finally {
      this.#writing = null
    }
  }

  async #append(kind: Kind, lines: string): Promise<void> {
    const bytes = encoder.encode(lines)
    const file = this.#files[kind] ?? (await this.#own(kind, 0))
    await file?.append(bytes)
    this.bytes[kind] += bytes.length
  }

  async #own(kind: Kind, bytes: number): Promise<OwnFile | null> {
    const file = await this.#folder.own(this.#names[kind], bytes, this.#mayOwn)
    this.#files[kind] = file
    return file
  }

  #count(kind: Kind, response: unknown): void {
    if (kind === 'error') {
      this.failed += 1
      return
    }
    this.completed += 1
    const body = isRecord(response) ? response['body'] : null
    this.usage = plus(this.usage, isRecord(body) ? body['usage'] : null)
  }
}

/** Adds a usage in the format of any of the APIs. */
function plus(sum: BatchUsage, usage: unknown): BatchUsage {
  if (!isRecord(usage)) return sum
  const count = (from: unknown, ...names: readonly string[]): number => {
    if (!isRecord(from)) return 0
    const found = names.map((name) => from[name]).find((value) => typeof value === 'number')
    return Number(found ?? 0)
  }
  const inputDetails = usage['prompt_tokens_details'] ?? usage['input_tokens_details']
  const outputDetails = usage['completion_tokens_details'] ?? usage['output_tokens_details']
  return {
    inputTokens: sum.inputTokens + count(usage, 'prompt_tokens', 'input_tokens'),
    cachedTokens: sum.cachedTokens + count(inputDetails, 'cached_tokens'),
    outputTokens: sum.outputTokens + count(usage, 'completion_tokens', 'output_tokens'),
    reasoningTokens: sum.reasoningTokens + count(outputDetails, 'reasoning_tokens'),
  }
}
