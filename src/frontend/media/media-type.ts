/**
 * Determines the kind of media by its declared type and by its first bytes. Data with an unknown start is left
 * to the engine, which decodes it; data with the start of another kind is refused.
 */
import type { MediaKind } from './media-sources.ts'

const DECLARED: Readonly<Record<Exclude<MediaKind, 'any'>, RegExp>> = {
  // SVG is excluded, because it can refer to other documents.
  image: /^image\/(?:png|apng|jpe?g|gif|webp|bmp|tiff|avif|heic|heif)$/,
  audio: /^(?:audio\/[\w.+-]+|video\/(?:webm|mp4)|application\/ogg)$/,
  // Frames of a video may be sent as images.
  video: /^(?:video\/[\w.+-]+|image\/(?:png|jpe?g|gif|webp)|application\/ogg)$/,
  document:
    /^(?:application\/(?:pdf|json|rtf|xml|msword|vnd\.[\w.+-]+)|text\/[\w.+-]+|image\/(?:png|jpe?g|gif|webp|bmp|tiff))$/,
}
/** Types that declare nothing. */
const UNDECLARED = /^(?:|application\/octet-stream|binary\/octet-stream)$/

/** `type`: in lower case, without parameters. */
export function fitsDeclared(kind: MediaKind, type: string): boolean {
  return kind === 'any' || UNDECLARED.test(type) || DECLARED[kind].test(type)
}

type Nature =
  | 'image'
  | 'audio'
  | 'video'
  | 'audio or video'
  | 'pdf'
  | 'archive'
  | 'text'
  | 'program'

const FITTING: Readonly<Record<Exclude<MediaKind, 'any'>, readonly Nature[]>> = {
  image: ['image'],
  audio: ['audio', 'audio or video'],
  video: ['video', 'audio or video', 'image'],
  document: ['pdf', 'archive', 'text', 'image'],
}

/** `head`: the first bytes; 512 are enough. */
export function fitsBytes(kind: MediaKind, head: Uint8Array): boolean {
  const found = formatOf(head)
  if (found === null) return true
  return kind === 'any' ? found.nature !== 'program' : FITTING[kind].includes(found.nature)
}

/** The media type recognised from the first bytes; undefined: unknown. */
export function shownType(head: Uint8Array): string | undefined {
  return formatOf(head)?.type
}

interface Format {
  readonly nature: Nature
  readonly type: string
}

/** Patterns for the first bytes, read as latin1. */
const FORMATS: readonly (readonly [RegExp, Nature, string])[] = [
  [/^\x89PNG\r\n/, 'image', 'image/png'],
  [/^\xff\xd8\xff/, 'image', 'image/jpeg'],
  [/^GIF8[79]a/, 'image', 'image/gif'],
  [/^RIFF[^]{4}WEBP/, 'image', 'image/webp'],
  [/^BM[^]{4}\0\0\0\0/, 'image', 'image/bmp'],
  [/^(?:II\*\0|MM\0\*)/, 'image', 'image/tiff'],
  [/^[^]{4}ftyp(?:avif|avis)/, 'image', 'image/avif'],
  [/^[^]{4}ftyp(?:heic|heix|mif1|msf1)/, 'image', 'image/heic'],
  [/^[^]{4}ftypM4A/, 'audio', 'audio/mp4'],
  [/^[^]{4}ftyp/, 'audio or video', 'video/mp4'],
  [/^RIFF[^]{4}WAVE/, 'audio', 'audio/wav'],
  [/^RIFF[^]{4}AVI /, 'video', 'video/x-msvideo'],
  [/^(?:ID3|\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff])/, 'audio', 'audio/mpeg'],
  [/^\xff[\xf0\xf1\xf8\xf9]/, 'audio', 'audio/aac'],
  [/^fLaC/, 'audio', 'audio/flac'],
  [/^FORM[^]{4}AIF[FC]/, 'audio', 'audio/aiff'],
  [/^OggS/, 'audio or video', 'audio/ogg'],
  [/^[^ -~]E\xdf\xa3/, 'audio or video', 'video/webm'],
  [/^%PDF-/, 'pdf', 'application/pdf'],
  [/^PK[^ -~]{2}/, 'archive', 'application/zip'],
  [/^\xd0\xcf[^ -~]\xe0/, 'archive', 'application/msword'],
  [/^(?:MZ[^ -~]|\x7fELF|[^ -~]\x8b[^ -~]|#!)/, 'program', 'application/octet-stream'],
]

function formatOf(head: Uint8Array): Format | null {
  if (head.length === 0) return null
  const latin1 = String.fromCharCode(...head.subarray(0, 64))
  const found = FORMATS.find(([pattern]) => pattern.test(latin1))
  if (found !== undefined) return { nature: found[1], type: found[2] }
  return isText(head) ? { nature: 'text', type: 'text/plain' } : null
}

/** Only text characters and white space; an incomplete character at the end is ignored. */
function isText(head: Uint8Array): boolean {
  const text = new TextDecoder().decode(head).replace(/\ufffd{1,3}$/, '')
  // oxlint-disable-next-line no-control-regex -- control characters distinguish data from text
  return text !== '' && !/[\0-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]/.test(text)
}
