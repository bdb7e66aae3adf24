/**
 * Composes the files and batches of one frontend.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, Random } from '../../base/index.ts'
import type { ApiKey } from '../access/api-key.ts'
import { callerOf, OPEN_CALLER } from '../access/caller.ts'
import type { Caller } from '../access/caller.ts'
import { createRequestId } from '../http/request-id.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import type { BatchOptions } from './batch-folder.ts'
import { BatchGate } from './batch-gate.ts'
import type { ModelLoad } from './batch-gate.ts'
import { BatchRunner } from './batch-runner.ts'
import type { AnswerLine } from './line-answer.ts'
import { StoredBatches } from './stored-batches.ts'
import { StoredFiles } from './stored-files.ts'
import { Upload } from './upload.ts'

interface BatchServiceDeps {
  readonly options: BatchOptions
  readonly clock: Clock
  readonly random: Random
  readonly registry: ModelRegistry
  readonly answer: AnswerLine
  /** Null: no keys are required. */
  readonly keys: () => readonly ApiKey[] | null
  readonly lineBytesMax: number
  readonly onFault: (error: unknown) => void
  readonly onGivenUp: (batchId: string) => void
}

const UPLOADS_AT_A_TIME = 16
/** Workers may take this long to register with a frontend that has just started. */
const YOUNG_MS = 5 * 60_000

export class BatchService {
  readonly files: StoredFiles
  readonly batches: StoredBatches
  readonly runner: BatchRunner
  readonly clock: Clock
  readonly random: Random
  readonly #options: BatchOptions
  #uploads = 0

  constructor(deps: BatchServiceDeps) {
    const { options, clock, random, registry, keys, answer, lineBytesMax } = deps
    const begunMs = clock.nowMs()
    this.clock = clock
    this.#options = options
    this.random = random
    this.files = new StoredFiles(options, clock)
    this.batches = new StoredBatches(options.folder, clock)
    this.runner = new BatchRunner(
      {
        options,
        files: this.files,
        batches: this.batches,
        clock,
        random,
        gate: new BatchGate(clock, (model) => loadOf(registry, model), options.requestsMax),
        answer,
        callerOf: ({ keyId }) => callerOfKey(keys(), keyId, clock),
        lineBytesMax,
        onGivenUp: deps.onGivenUp,
        isYoung: () => clock.nowMs() - begunMs < YOUNG_MS,
      },
      deps.onFault,
    )
  }

  /** Throws `capacity.exhausted` when too many uploads are in progress. */
  beginUpload(tenant: string, boundary: string): Upload {
    if (this.#uploads >= UPLOADS_AT_A_TIME) {
      const text = `${UPLOADS_AT_A_TIME} files are being uploaded already; try again later`
      throw new BatonError('capacity.exhausted', text, { data: { limit: UPLOADS_AT_A_TIME } })
    }
    this.#uploads += 1
    return new Upload({
      id: `file-${createRequestId(this.random).replaceAll('-', '')}`,
      tenant,
      boundary,
      files: this.files,
      options: this.#options,
      onEnd: () => {
        this.#uploads -= 1
      },
    })
  }
}

/** Without keys everybody may do everything; with keys a batch belongs to its key while that key is valid. */
function callerOfKey(
  keys: readonly ApiKey[] | null,
  keyId: string | null,
  clock: Clock,
): Caller | null {
  if (keys === null) return { ...OPEN_CALLER, isBackground: true }
  const key = keys.find(({ id }) => id === keyId)
  if (key === undefined || (key.expiresAtEpochMs ?? Infinity) <= clock.epochMs()) return null
  return { ...callerOf(key), isBackground: true }
}

function loadOf(registry: ModelRegistry, name: string | undefined): ModelLoad | undefined {
  const model = knownModel(registry, name)
  if (model === undefined) return undefined
  const status = model.router.status()
  const places = model.cards
    .filter(({ mode }) => mode !== 'prefill')
    .reduce((sum, { engine }) => sum + (engine.maxNumSeqs ?? Infinity), 0)
  return { places: model.cards.length === 0 ? Infinity : places, status }
}

function knownModel(registry: ModelRegistry, name: string | undefined) {
  try {
    return registry.names.known(name)
  } catch {
    return undefined
  }
}
