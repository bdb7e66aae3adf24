/**
 * The files through which states go to and from llama.cpp, which knows files only. In memory where the system has such
 * a folder. Each lives for one call, in a folder that nobody else may enter.
 */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeProcessFolder } from '../../process-folder.ts'
import type { ProcessFolder } from '../../process-folder.ts'
import { SHARED_MEMORY, sharedMemoryFault } from '../../shared-memory.ts'

export class StateFolder {
  /** The first that has room is taken: memory may be small in a container. */
  readonly #parents: readonly string[]
  readonly #folders = new Map<string, ProcessFolder>()
  #files = 0

  constructor(parents?: readonly string[]) {
    const memory = sharedMemoryFault() === null ? [SHARED_MEMORY] : []
    this.#parents = parents ?? [...memory, tmpdir()]
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
      await writeFile(path, bytes)
      await load(path)
    })
  }

  /** Idempotent. */
  close(): void {
    for (const folder of this.#folders.values()) folder.remove()
    this.#folders.clear()
  }

  async #withFile<T>(use: (path: string) => Promise<T>): Promise<T> {
    let failure: unknown
    for (const parent of this.#parents) {
      try {
        const path = join(this.#folderIn(parent).path, String(this.#files++))
        try {
          return await use(path)
        } finally {
          await rm(path, { force: true })
        }
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }

  #folderIn(parent: string): ProcessFolder {
    const folder = this.#folders.get(parent) ?? makeProcessFolder(parent, 'baton-state-')
    this.#folders.set(parent, folder)
    return folder
  }
}
