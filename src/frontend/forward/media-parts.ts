/** Whether a conversation holds what has no form in tokens here: images, audio, video, documents. */
import { isRecord } from '../../base/index.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import { takesForwarded } from '../models/passed-through.ts'

const MEDIA: ReadonlySet<unknown> = new Set([
  'image_url',
  'input_image',
  'image',
  'input_audio',
  'audio_url',
  'audio',
  'video_url',
  'video',
  'file',
  'input_file',
  'document',
])

/** Such a conversation goes on as it came, where the model's workers take it so; others refuse it by name. */
export function isForwardedMedia(
  { forwarding, registry }: GenerationDeps,
  fields: Readonly<Record<string, unknown>>,
): boolean {
  if (forwarding === undefined || !holdsMedia(fields)) return false
  const { model } = fields
  try {
    return takesForwarded(registry.known(typeof model === 'string' ? model : undefined))
  } catch {
    // Which model it is for is Baton's own answer.
    return false
  }
}

/** Of a body of any of the APIs: `messages` or `input`, with parts in lists. */
function holdsMedia(fields: Readonly<Record<string, unknown>>): boolean {
  return [fields['messages'], fields['input']].some((turns) => listOf(turns).some(isMediaTurn))
}

function isMediaTurn(turn: unknown): boolean {
  if (!isRecord(turn)) return false
  return MEDIA.has(turn['type']) || listOf(turn['content']).some(isMediaPart)
}

/** The result of a tool may hold an image as well. */
function isMediaPart(part: unknown): boolean {
  if (!isRecord(part)) return false
  return MEDIA.has(part['type']) || listOf(part['content']).some(isMediaPart)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : []
}
