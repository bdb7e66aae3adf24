/** Detects conversations with content that Baton cannot tokenise: images, audio, video, documents. */
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

/**
 * Such a conversation is forwarded unchanged when the model's workers accept that; otherwise it is refused by
 * name.
 */
export function isForwardedMedia(
  { forwarding, registry }: GenerationDeps,
  fields: Readonly<Record<string, unknown>>,
): boolean {
  if (forwarding === undefined || !holdsMedia(fields)) return false
  const { model } = fields
  try {
    return takesForwarded(registry.names.known(typeof model === 'string' ? model : undefined))
  } catch {
    // The error for an unknown model is Baton's own.
    return false
  }
}

/** For a body of any of the APIs: `messages` or `input`, with lists of parts. */
function holdsMedia(fields: Readonly<Record<string, unknown>>): boolean {
  return [fields['messages'], fields['input']].some((turns) => listOf(turns).some(isMediaTurn))
}

function isMediaTurn(turn: unknown): boolean {
  if (!isRecord(turn)) return false
  return MEDIA.has(turn['type']) || listOf(turn['content']).some(isMediaPart)
}

/** The result of a tool may contain an image too. */
function isMediaPart(part: unknown): boolean {
  if (!isRecord(part)) return false
  return MEDIA.has(part['type']) || listOf(part['content']).some(isMediaPart)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : []
}
