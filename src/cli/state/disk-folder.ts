/**
 * A folder on disk for files and batches. A file is first written under another name and then renamed, so that
 * a partly written one is never read.
 */
import { accessSync, constants, createReadStream } from 'node:fs'
import {
  appendFile,
  copyFile,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { BatonError } from '../../base/index.ts'
import type { BatchFolder, OwnFile } from '../../frontend/index.ts'
import { makeFolders } from '../../os/index.ts'
import { diskError, unlessMissing } from './disk-error.ts'
import { LeaseFiles } from './lease-files.ts'
import type { LeaseHolder } from './lease-files.ts'

const PIECE_BYTES = 64 * 1024
const DRAFT = '.draft-'

export class DiskFolder implements BatchFolder {
  readonly #path: string
  readonly #instance: string
  readonly #leases: LeaseFiles
  #drafts = 0

  private constructor(path: string, holder: LeaseHolder, nowMs: () => number) {
    this.#path = path
    this.#instance = holder.instance
    this.#leases = new LeaseFiles(path, holder, nowMs)
  }

  /** `holder` and `nowMs`: see `LeaseFiles`. Throws `config.invalid` when the folder cannot be created or written. */
  static open(path: string, holder: LeaseHolder, nowMs: () => number): DiskFolder {
    try {
      makeFolders(path)
      accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
      return new DiskFolder(path, holder, nowMs)
    } catch (cause) {
      const text = `--files-dir ${path} cannot be used: ${(cause as Error).message}`
      throw new BatonError('config.invalid', text, { cause })
    }
  }

  async names(): Promise<readonly string[]> {
    return await readdir(this.#path)
  }

  async read(name: string): Promise<string | undefined> {
    return await unlessMissing(readFile(this.#at(name), 'utf8'))
  }

  async write(name: string, content: string | Uint8Array): Promise<void> {
    const draft = this.#draftOf(name)
    try {
      await writeFile(draft, content, { mode: 0o600 })
      await rename(draft, this.#at(name))
    } catch (cause) {
      await rm(draft, { force: true })
      throw diskError(cause)
    }
  }

  async append(name: string, content: string | Uint8Array): Promise<void> {
    try {
      await appendFile(this.#at(name), content, { mode: 0o600 })
    } catch (cause) {
      throw diskError(cause)
    }
  }

  async own(name: string, bytes: number, mayOwn: () => Promise<boolean>): Promise<OwnFile | null> {
    if (!(await mayOwn())) return null
    await this.#removeCopies(name)
    const draft = this.#draftOf(name)
    let file: FileHandle | null = null
    try {
      const isClone = bytes > 0 && (await this.#clone(name, draft))
      file = await open(draft, isClone ? 'a' : 'ax', 0o600)
      if (isClone) await file.truncate(bytes)
      else await this.#copy(name, bytes, file)
      if (await mayOwn()) {
        await rename(draft, this.#at(name))
        return ownFile(file)
      }
      await file.close()
      await rm(draft, { force: true })
      return null
    } catch (cause) {
      await file?.close()
      await rm(draft, { force: true })
      throw diskError(cause)
    }
  }

  async *pieces(name: string, bytes = Infinity): AsyncGenerator<Uint8Array> {
    if (bytes === 0 || (await this.bytesOf(name)) === undefined) return
    yield* createReadStream(this.#at(name), { highWaterMark: PIECE_BYTES, end: bytes - 1 })
  }

  async bytesOf(name: string): Promise<number | undefined> {
    return (await unlessMissing(stat(this.#at(name))))?.size
  }

  async idleSeconds(name: string): Promise<number | undefined> {
    const facts = await unlessMissing(stat(this.#at(name)))
    return facts === undefined ? undefined : (Date.now() - facts.mtimeMs) / 1000
  }

  /** Without drafts: they are small, or copies of files that are counted. */
  async bytesOfAll(): Promise<number> {
    const names = (await this.names()).filter((name) => !name.startsWith(DRAFT))
    const sizes = await Promise.all(names.map(async (name) => (await this.bytesOf(name)) ?? 0))
    return sizes.reduce((sum, size) => sum + size, 0)
  }

  async remove(name: string): Promise<boolean> {
    const wasThere = (await this.bytesOf(name)) !== undefined
    await rm(this.#at(name), { force: true })
    return wasThere
  }

  async lease(name: string): Promise<boolean> {
    return await this.#leases.take(name)
  }

  async renewLease(name: string): Promise<boolean> {
    return await this.#leases.renew(name)
  }

  async release(name: string): Promise<void> {
    await this.#leases.release(name)
  }

  /** A clone takes neither time nor space. False: the file system cannot make one. */
  async #clone(name: string, draft: string): Promise<boolean> {
    const mode = constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL
    return await copyFile(this.#at(name), draft, mode).then(
      () => true,
      () => false,
    )
  }

  async #copy(name: string, bytes: number, file: FileHandle): Promise<void> {
    for await (const piece of this.pieces(name, bytes)) await file.appendFile(piece)
  }

  /** What earlier owners have begun to copy: it may be large, and they die again and again. */
  async #removeCopies(name: string): Promise<void> {
    const old = (await this.names()).filter(
      (other) => other.startsWith(DRAFT) && other.endsWith(`-${name}`),
    )
    await Promise.all(old.map((draft) => rm(this.#at(draft), { force: true })))
  }

  /** Processes of two containers may have one pid. */
  #draftOf(name: string): string {
    this.#drafts += 1
    return this.#at(`${DRAFT}${this.#instance}-${this.#drafts}-${name}`)
  }

  #at(name: string): string {
    return join(this.#path, name)
  }
}

function ownFile(file: FileHandle): OwnFile {
  return {
    append: async (content) => {
      try {
        await file.appendFile(content)
      } catch (cause) {
        throw diskError(cause)
      }
    },
    close: async () => await file.close(),
  }
}
