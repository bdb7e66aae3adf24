/**
 * The files through which states go to and from llama.cpp, which knows files only. In memory where the system has such
 * a folder. Each lives for one call, in a folder of its own that nobody else may enter: a worker that is killed leaves
 * at most the one that was in use.
 */
import { statSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SHARED_MEMORY = '/dev/shm'

export class StateFolder {
  /** The first that has room is taken: memory may be as small as 64 MB in a container. */
  readonly #parents: readonly string[]

  constructor() {
    this.#parents = hasFolder(SHARED_MEMORY) ? [SHARED_MEMORY, tmpdir()] : [tmpdir()]
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

  async #withFile<T>(use: (path: string) => Promise<T>): Promise<T> {
    let failure: unknown
    for (const parent of this.#parents) {
      const folder = await mkdtemp(join(parent, 'baton-kv-'))
      try {
        return await use(join(folder, 'state'))
      } catch (error) {
        failure = error
      } finally {
        await rm(folder, { recursive: true, force: true })
      }
    }
    throw failure
  }
}

function hasFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
