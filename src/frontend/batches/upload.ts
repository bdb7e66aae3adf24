/**
 * An upload to the folder: each piece is written before more is read, so that a file of any size needs only the
 * memory of one piece.
 *
 * receiving ── end ──▶ stored
 * └── error, client disconnected ──▶ the written part is deleted
 */
import { parseFileForm } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import { FormReader } from '../http/form-reader.ts'
import type { BatchFolder, BatchOptions } from './batch-folder.ts'
import { contentName, fullError } from './stored-files.ts'
import type { StoredFile, StoredFiles } from './stored-files.ts'

interface UploadOptions {
  readonly id: string
  readonly tenant: string
  readonly boundary: string
  readonly files: StoredFiles
  readonly options: BatchOptions
  /** Called once, however the upload ends. */
  readonly onEnd: () => void
}

const TEXT_BYTES_MAX = 1024
const NAME_MAX = 255
/** The used space of the folder is checked this often, because other uploads fill it too. */
const LOOK_EVERY_BYTES = 8 * 1024 * 1024

export class Upload {
  readonly #options: UploadOptions
  readonly #folder: BatchFolder
  readonly #reader: FormReader
  readonly #texts = new Map<string, Uint8Array>()
  /** Pieces of the file that are not written yet. */
  #pieces: Uint8Array[] = []
  #fileName: string | null = null
  #part = ''
  #fileBytes = 0
  #bytesToLook = 0
  #isOver = false

  constructor(options: UploadOptions) {
    this.#options = options
    this.#folder = options.options.folder
    this.#reader = new FormReader(options.boundary, {
      onPart: ({ name, fileName }) => this.#begin(name, fileName),
      onData: (bytes) => this.#data(bytes),
    })
  }

  /** Rejects with the error for the client; the upload is over then. */
  async take(piece: Uint8Array): Promise<void> {
    try {
      this.#reader.push(piece)
      for (const bytes of this.#pieces.splice(0)) await this.#write(bytes)
    } catch (thrown) {
      await this.abort()
      throw thrown
    }
  }

  /** The body is complete. Throws the error for the client. */
  async end(): Promise<StoredFile> {
    try {
      const { files, id, tenant } = this.#options
      if (this.#fileName === null) throw invalid('`file` is missing from the form')
      if (!this.#reader.isWhole) throw invalid('the form is incomplete')
      const { purpose, keepSeconds } = parseFileForm(this.#textsOf())
      if (this.#fileBytes === 0) await this.#folder.write(contentName(id), new Uint8Array(0))
      const file = { id, tenant, fileName: this.#fileName, purpose }
      const stored = await files.publish(file, this.#fileBytes, keepSeconds)
      this.#over()
      return stored
    } catch (thrown) {
      await this.abort()
      throw thrown
    }
  }

  async abort(): Promise<void> {
    if (this.#isOver) return
    this.#over()
    this.#pieces = []
    await this.#folder.remove(contentName(this.#options.id))
  }

  #over(): void {
    this.#isOver = true
    this.#options.onEnd()
  }

  #begin(name: string, fileName: string | undefined): void {
    // Of several `file` parts the first one counts.
    this.#part = name === 'file' && this.#fileName !== null ? '' : name
    if (this.#part === 'file') this.#fileName = (fileName ?? 'file').slice(0, NAME_MAX)
    else if (this.#part !== '') this.#texts.set(name, new Uint8Array(0))
  }

  #data(bytes: Uint8Array): void {
    if (this.#part === 'file') {
      this.#pieces.push(bytes)
      return
    }
    const before = this.#texts.get(this.#part)
    if (before === undefined || before.length === TEXT_BYTES_MAX) return
    const more = bytes.subarray(0, TEXT_BYTES_MAX - before.length)
    const all = new Uint8Array(before.length + more.length)
    all.set(before)
    all.set(more, before.length)
    this.#texts.set(this.#part, all)
  }

  async #write(bytes: Uint8Array): Promise<void> {
    const { bytesMax } = this.#options.options
    this.#fileBytes += bytes.length
    this.#bytesToLook -= bytes.length
    if (this.#bytesToLook < 0) {
      this.#bytesToLook = LOOK_EVERY_BYTES
      const room = bytesMax - (await this.#folder.bytesOfAll())
      if (bytes.length > room) throw fullError(bytesMax)
      this.#bytesToLook = Math.min(LOOK_EVERY_BYTES, room - bytes.length)
    }
    await this.#folder.append(contentName(this.#options.id), bytes)
  }

  #textsOf(): Record<string, string> {
    const utf8 = new TextDecoder()
    return Object.fromEntries(
      [...this.#texts].map(([name, bytes]) => [name, utf8.decode(bytes).trim()]),
    )
  }
}

function invalid(text: string): BatonError {
  return new BatonError('request.invalid_argument', text, { data: { param: 'file' } })
}
