/**
 * The files in which llama-servers transfer a slot's KV: their names, and their deletion.
 *
 * The server has no route to delete a file, so the folder has to be reachable from here.
 */
import { randomUUID } from 'node:crypto'
import { readdir, stat, unlink } from 'node:fs/promises'
import path from 'node:path'
import { BatonError } from '../../base/index.ts'

const NAME = /^baton-[0-9a-f]{32}\.bin$/
/** A file that was not fetched within this time is deleted. */
const SLOT_FILE_MS = 60_000

export class SlotFiles {
  readonly #folder: string
  readonly #timers = new Map<string, NodeJS.Timeout>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Rejects when the folder does not exist; deletes files of an earlier run. */
  async open(): Promise<void> {
    const names = await readdir(this.#folder).catch((cause: unknown) => {
      throw new BatonError(
        'config.invalid',
        `--slot-save-path ${this.#folder} cannot be read; give the folder of llama-server's --slot-save-path`,
        { cause },
      )
    })
    const oldest = Date.now() - 10 * SLOT_FILE_MS
    for (const name of names.filter((entry) => NAME.test(entry))) {
      const { mtimeMs } = await stat(path.join(this.#folder, name)).catch(() => ({ mtimeMs: NaN }))
      if (mtimeMs < oldest) await this.remove(name)
    }
  }

  /** An unguessable name. The file is deleted automatically after a time. */
  create(): string {
    const name = `baton-${randomUUID().replaceAll('-', '')}.bin`
    const timer = setTimeout(() => void this.remove(name), SLOT_FILE_MS)
    timer.unref()
    this.#timers.set(name, timer)
    return name
  }

  static isName(name: unknown): name is string {
    return typeof name === 'string' && NAME.test(name)
  }

  /** Never rejects: the file may be gone already. */
  async remove(name: string): Promise<void> {
    clearTimeout(this.#timers.get(name))
    this.#timers.delete(name)
    await unlink(path.join(this.#folder, name)).catch(() => undefined)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#timers.keys()].map((name) => this.remove(name)))
  }
}
