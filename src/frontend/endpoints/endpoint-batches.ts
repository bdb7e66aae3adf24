/**
 * `/v1/batches`: many requests in one file, answered while no other request needs the workers.
 */
import { PAGE_LIMITS, parseBatch, parsePage, readJsonObject } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import { batchObject, hasEnded, NO_USAGE } from '../batches/batch-record.ts'
import type { BatchRecord } from '../batches/batch-record.ts'
import type { BatchService } from '../batches/batch-service.ts'
import type { HttpCall } from '../http/http-call.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { createRequestId } from '../http/request-id.ts'
import { neededBatches, tenantOf } from './endpoint-files.ts'
import { jsonReply } from './endpoint-status.ts'
import { pageReply } from './pages.ts'

/** Most batches that have not ended, over all tenants. */
const OPEN_MAX = 1000

export async function createBatch(
  service: BatchService | null,
  http: HttpRequest,
  call: HttpCall,
): Promise<HttpReply> {
  const { files, batches, runner, random, clock } = neededBatches(service)
  const asked = parseBatch(readJsonObject(http.body, http.headers['content-type']))
  const tenant = tenantOf(call)
  const { purpose } = await files.file(asked.inputFileId, tenant)
  if (purpose !== 'batch') {
    const text = `\`input_file_id\`: the file has purpose ${purpose}, expected batch`
    throw new BatonError('request.invalid_argument', text, { data: { param: 'input_file_id' } })
  }
  const open = await batches.unfinished()
  if (open.length >= OPEN_MAX) {
    const text = `${OPEN_MAX} batches have not ended yet, which is the limit; try again later`
    throw new BatonError('capacity.exhausted', text, { data: { limit: OPEN_MAX } })
  }
  const newId = (): string => createRequestId(random).replaceAll('-', '')
  const createdSeconds = Math.floor(clock.epochMs() / 1000)
  const batch: BatchRecord = {
    id: `batch_${newId()}`,
    tenant,
    keyId: call.caller.key?.id ?? null,
    endpoint: asked.endpoint,
    inputFileId: asked.inputFileId,
    completionWindow: asked.completionWindow,
    metadata: asked.metadata ?? null,
    state: 'validating',
    faults: [],
    model: null,
    outputFileId: `file-${newId()}`,
    errorFileId: `file-${newId()}`,
    hasOutput: false,
    hasErrors: false,
    outputKeepSeconds: asked.outputKeepSeconds ?? null,
    total: 0,
    completed: 0,
    failed: 0,
    usage: NO_USAGE,
    createdSeconds,
    expiresSeconds: createdSeconds + asked.windowSeconds,
    reached: {},
  }
  await batches.write(batch)
  runner.poke()
  return jsonReply(200, batchObject(batch))
}

export async function listBatches(
  service: BatchService | null,
  call: HttpCall,
): Promise<HttpReply> {
  const { batches, runner } = neededBatches(service)
  const page = parsePage(call.head.query, PAGE_LIMITS.batches)
  const all = await batches.list(tenantOf(call))
  const shown = await Promise.all(all.map(async (batch) => await runner.shown(batch)))
  return pageReply(shown, page, batchObject)
}

export async function readBatch(service: BatchService | null, call: HttpCall): Promise<HttpReply> {
  const { batches, runner } = neededBatches(service)
  const batch = await batches.batch(call.name, tenantOf(call))
  return jsonReply(200, batchObject(await runner.shown(batch)))
}

export async function cancelBatch(
  service: BatchService | null,
  call: HttpCall,
): Promise<HttpReply> {
  const { batches, runner } = neededBatches(service)
  const batch = await batches.batch(call.name, tenantOf(call))
  if (hasEnded(batch)) {
    const text = `the batch has already ended: it is ${batch.state}`
    throw new BatonError('request.conflict', text)
  }
  await batches.markCancelled(batch.id)
  runner.cancel(batch.id)
  runner.poke()
  const now = runner.running(batch.id) ?? (await batches.batch(batch.id, tenantOf(call)))
  return jsonReply(200, batchObject(now))
}
