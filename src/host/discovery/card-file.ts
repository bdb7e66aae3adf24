/**
 * A worker card as the text of a file, and back. What is read was written by another process, perhaps of another
 * version: it is checked before it is believed.
 */
import { z } from 'zod'
import { BatonError, parseWorkerId } from '../../base/index.ts'
import { disaggregationModeToJson, parseDisaggregationMode } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'

const count = z.number().int().nonnegative()
/** Each rank is a row in the router's table: a card must not fill it by itself. */
const RANKS_MAX = 4096

const engineSchema = z.looseObject({
  model: z.string().min(1),
  servedModelName: z.string().optional(),
  modelAliases: z.array(z.string()).optional(),
  loraAdapters: z.array(z.string()).optional(),
  contextLength: count.optional(),
  kvCacheBlockSize: count.optional(),
  totalKvBlocks: count.optional(),
  maxNumSeqs: count.optional(),
  maxNumBatchedTokens: count.optional(),
  dataParallelSize: count.max(RANKS_MAX).optional(),
  dataParallelStartRank: count.optional(),
  bootstrapHost: z.string().min(1).optional(),
  bootstrapPort: count.max(65_535).optional(),
  modelPath: z.string().optional(),
  features: z.array(z.string()).optional(),
})

const cardSchema = z.looseObject({
  workerId: z.string().transform((text, context) => {
    const workerId = parseWorkerId(text)
    if (workerId === text) return workerId
    context.addIssue({ code: 'custom', message: 'not a worker id' })
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
  publishesKvEvents: z.boolean(),
  taints: z.array(z.string()).optional(),
  topology: z.record(z.string(), z.string()).optional(),
  startedAtEpochMs: z.number().optional(),
  version: z.string(),
})

/** One discovery entry: the card, and on which machine its process runs. */
export interface CardFile {
  readonly card: WorkerCard
  /** Two entries with the same machine share process ids. */
  readonly machine: string
}

const fileSchema = z.object({ format: z.literal(1), machine: z.string(), card: cardSchema })

export function encodeCardFile(file: CardFile): string {
  const card = { ...file.card, mode: disaggregationModeToJson(file.card.mode) }
  return `${JSON.stringify({ format: 1, ...file, card }, null, 2)}\n`
}

/** Throws `transport.protocol` and names what is wrong. */
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
