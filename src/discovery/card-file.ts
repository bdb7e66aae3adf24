/**
 * Reads and writes a worker card as the text of a file. The text was written by another process, perhaps of another
 * version, so it is validated before use.
 */
import { z } from 'zod'
import { BatonError, parseWorkerId } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import { isProcessAlive } from '../os/index.ts'
import {
  BLOCK_TOKENS_MAX,
  modeName,
  enginePaceFault,
  isModelName,
  parseDisaggregationMode,
} from '../request/index.ts'
import type { WorkerCard } from '../request/index.ts'

const count = z.number().int().nonnegative()
const name = z.string().refine(isModelName, 'expected one line of text')
/** Largest card file; a usual one has 2 KiB. */
const FILE_BYTES_MAX = 2 ** 20
/** Each rank is a row in the router's table, which one card must not fill. */
const RANKS_MAX = 4096
/** Ranks are exact integers that fit into a frame. */
const START_RANK_MAX = 65_535

const engineSchema = z.looseObject({
  model: name,
  servedModelName: name.optional(),
  modelAliases: z.array(name).optional(),
  loraAdapters: z.array(name).optional(),
  contextLength: count.optional(),
  // Prompts are divided by it, so it must not be 0.
  kvCacheBlockSize: count.min(1).max(BLOCK_TOKENS_MAX).optional(),
  totalKvBlocks: count.optional(),
  maxNumSeqs: count.optional(),
  maxNumBatchedTokens: count.optional(),
  dataParallelSize: count.max(RANKS_MAX).optional(),
  dataParallelStartRank: count.max(START_RANK_MAX).optional(),
  bootstrapHost: z.string().min(1).optional(),
  bootstrapPort: count.max(65_535).optional(),
  modelPath: z.string().optional(),
  textDigest: z.string().optional(),
  embeddingLength: count.optional(),
  runtimeData: z.record(z.string(), z.unknown()).optional(),
  pace: z
    .unknown()
    .superRefine((pace, context) => {
      const fault = pace === undefined ? null : enginePaceFault(pace)
      if (fault !== null) context.addIssue({ code: 'custom', message: fault })
    })
    .optional(),
  features: z.array(z.string()).optional(),
})

const agreementSchema = z.looseObject({
  checksum: z.string(),
  vocabulary: z.string().optional(),
  tokenizer: z.string().optional(),
  template: z.string().optional(),
  weights: z.string().optional(),
})

const textSchema = z.object({
  hash: z.string(),
  files: z.array(z.object({ name: z.string(), bytes: count, sha256: z.string() })).max(64),
})

const cardSchema = z.looseObject({
  workerId: z.string().transform((text, context) => {
    const workerId = parseWorkerId(text)
    if (workerId === text) return workerId
    context.addIssue({ code: 'custom', message: 'expected a worker id' })
    return z.NEVER
  }),
  mode: z
    .enum(['aggregated', 'agg', 'prefill', 'decode'])
    .transform((mode) => parseDisaggregationMode(mode)),
  host: z.string().min(1),
  port: count.max(65_535),
  pid: count.optional(),
  engine: engineSchema,
  engineName: z.string(),
  agreement: agreementSchema.optional(),
  text: textSchema.optional(),
  weight: z.number().nonnegative().optional(),
  changesRole: z.boolean().optional(),
  publishesKvEvents: z.boolean(),
  taints: z.array(z.string()).optional(),
  topology: z.record(z.string(), z.string()).optional(),
  startedAtEpochMs: z.number().optional(),
  version: z.string(),
})

/** One entry of discovery: the card, and the machine on which its process runs. */
export interface CardFile {
  readonly card: WorkerCard
  /** Process ids are comparable between entries of the same machine (see `process-place.ts`). */
  readonly machine: string
}

const fileSchema = z.object({ format: z.literal(1), machine: z.string(), card: cardSchema })

export function encodeCardFile(file: CardFile): string {
  const card = { ...file.card, mode: modeName(file.card.mode) }
  return `${JSON.stringify({ format: 1, ...file, card }, null, 2)}\n`
}

/** Validates a card that was received over a connection. Throws `transport.protocol` that names the fault. */
export function checkCard(value: unknown): WorkerCard {
  const result = cardSchema.safeParse(value)
  if (result.success) return result.data as WorkerCard
  const issue = result.error.issues[0]
  const where = issue === undefined ? '' : ` at ${issue.path.join('.')}: ${issue.message}`
  throw new BatonError('transport.protocol', `the worker's answer is not a valid card${where}`)
}

/**
 * Checked before the file is opened: reading a pipe would block, and a device has no end. Throws
 * `transport.protocol`.
 */
export function checkEntryFile(stats: { readonly size: number; isFile(): boolean }): void {
  if (!stats.isFile()) throw new BatonError('transport.protocol', 'the entry is not a file')
  if (stats.size <= FILE_BYTES_MAX) return
  const what = `the entry has ${stats.size} bytes, the limit for a card is ${FILE_BYTES_MAX}`
  throw new BatonError('transport.protocol', what)
}

/** Throws `transport.protocol` that names the fault. */
export function decodeCardFile(text: string): CardFile {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    throw new BatonError('transport.protocol', 'the entry is not JSON', { cause })
  }
  const result = fileSchema.safeParse(json)
  if (!result.success) {
    const issue = result.error.issues[0]
    const where = issue === undefined ? '' : ` at ${issue.path.join('.')}: ${issue.message}`
    throw new BatonError('transport.protocol', `the entry is not a worker card${where}`)
  }
  return result.data as CardFile
}

/**
 * The entry stored under this worker's id. Throws `transport.protocol` when it contains the card of another worker.
 */
export function decodeEntry(workerId: WorkerId, text: string): CardFile {
  const file = decodeCardFile(text)
  if (file.card.workerId === workerId) return file
  throw new BatonError(
    'transport.protocol',
    "the worker id in the entry differs from the entry's name",
  )
}

/** True when its process id is comparable on this machine (`place`) and the process does not run any more. */
export function hasDied({ card, machine }: CardFile, place: string): boolean {
  return machine === place && card.pid !== undefined && !isProcessAlive(card.pid)
}

/** The sort key by which all frontends learn of workers in the same order, oldest first. */
export function startedMs({ startedAtEpochMs }: WorkerCard): number {
  return startedAtEpochMs ?? 0
}

/** The same process, not another one with its id. */
export function isSameWorker(left: WorkerCard, right: WorkerCard): boolean {
  return (
    left.workerId === right.workerId &&
    left.pid === right.pid &&
    left.startedAtEpochMs === right.startedAtEpochMs
  )
}
