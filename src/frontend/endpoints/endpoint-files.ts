/**
 * `/v1/files`: the input and output files of batches.
 */
import { PAGE_LIMITS, parsePage } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import type { BatchService } from '../batches/batch-service.ts'
import { contentStream } from '../batches/content-stream.ts'
import type { StoredFile } from '../batches/stored-files.ts'
import { formBoundary } from '../http/form-parts.ts'
import type { HttpCall } from '../http/http-call.ts'
import type { BodyTaker, HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { jsonReply } from './endpoint-status.ts'
import { pageReply } from './pages.ts'

/** Stores a file while its body arrives. */
export function takeFile(service: BatchService | null, call: HttpCall): BodyTaker {
  const boundary = formBoundary(call.head.headers['content-type'])
  const batches = neededBatches(service)
  if (boundary === null) {
    const text = 'expected a form: content-type multipart/form-data with a boundary'
    throw new BatonError('request.unsupported_media', text)
  }
  const upload = batches.beginUpload(tenantOf(call), boundary)
  return {
    take: (piece) => upload.take(piece),
    end: async () => jsonReply(200, fileObject(await upload.end())),
    abort: () => upload.abort(),
  }
}

/** Like `takeFile`, for a body that has arrived completely. */
export async function createFile(
  service: BatchService | null,
  { body }: HttpRequest,
  call: HttpCall,
): Promise<HttpReply> {
  const taker = takeFile(service, call)
  await taker.take(body)
  return await taker.end()
}

export async function listFiles(service: BatchService | null, call: HttpCall): Promise<HttpReply> {
  const page = parsePage(call.head.query, PAGE_LIMITS.files)
  const all = await neededBatches(service).files.list(tenantOf(call))
  const { purpose } = page
  const wanted = purpose === undefined ? all : all.filter((file) => file.purpose === purpose)
  return pageReply(wanted, page, fileObject)
}

export async function readFile(service: BatchService | null, call: HttpCall): Promise<HttpReply> {
  return jsonReply(
    200,
    fileObject(await neededBatches(service).files.file(call.name, tenantOf(call))),
  )
}

export async function readContent(
  service: BatchService | null,
  call: HttpCall,
): Promise<HttpReply> {
  const { files } = neededBatches(service)
  const file = await files.file(call.name, tenantOf(call))
  return {
    status: 200,
    headers: {
      'content-type': 'application/octet-stream',
      'content-length': String(file.bytes),
      'content-disposition': `attachment; filename="${file.id}"`,
    },
    body: contentStream(files.content(file.id, file.bytes), file.bytes, call.head.signal),
  }
}

export async function deleteFile(service: BatchService | null, call: HttpCall): Promise<HttpReply> {
  await neededBatches(service).files.delete(call.name, tenantOf(call))
  return jsonReply(200, { id: call.name, object: 'file', deleted: true })
}

/** Throws `runtime.not_implemented` when files and batches are off. */
export function neededBatches(service: BatchService | null): BatchService {
  if (service !== null) return service
  const text = 'this server stores no files and batches: start it with --files-dir <folder>'
  throw new BatonError('runtime.not_implemented', text)
}

export function tenantOf({ caller }: HttpCall): string {
  return caller.key?.tenant ?? ''
}

function fileObject(file: StoredFile): Record<string, unknown> {
  return {
    id: file.id,
    object: 'file',
    bytes: file.bytes,
    created_at: file.createdSeconds,
    expires_at: file.expiresSeconds,
    filename: file.fileName,
    purpose: file.purpose,
    status: 'processed',
  }
}
