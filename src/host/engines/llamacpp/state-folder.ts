/**
 * The folder through which states go to and from llama.cpp, which knows files only. In memory where the system has
 * such a folder. A file lives for one call; the folder goes with the engine.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SHARED_MEMORY = '/dev/shm'

export class StateFolder {
  /** The first that has room is taken: memory may be as small as 64 MB in a container. */
  readonly #folders: readonly string[]
  #next = 0

  constructor() {
    const parents = hasFolder(SHARED_MEMORY) ? [SHARED_MEMORY, tmpdir()] : [tmpdir()]
    this.#folders = parents.map((parent) => mkdtempSync(join(parent, 'baton-kv-')))
  }

  /** Lets `save` write a file and returns its bytes. */
  collect(save: (path: string) => Promise<unknown>): Promise<Uint8Array> {
    return this.#withFile(async (path) => {
      await save(path)
      return readFile(path)
    })
  }

  /** Lets `load` read a file of these bytes. */
  offer(bytes: Uint8Array, load: (path: string) => Promise<unknown>): Promise<void> {
    return this.#withFile(async (path) => {
      await writeFile(path, bytes, { mode: 0o600 })
      await load(path)
    })
  }

  remove(): void {
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true })
  }

  async #withFile<T>(use: (path: string) => Promise<T>): Promise<T> {
    this.#next += 1
    let failure: unknown
    for (const folder of this.#folders) {
      const path = join(folder, `state-${this.#next}`)
      try {
        return await use(path)
      } catch (error) {
        failure = error
      } finally {
        await rm(path, { force: true })
      }
    }
    throw failure
  }
}

function hasFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
