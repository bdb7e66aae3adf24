/**
 * The folder through which states go to and from llama.cpp, which knows files only. In memory where the system has
 * such a folder. A file lives for one call; the folder goes with the engine.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SHARED_MEMORY = '/dev/shm'

export class StateFolder {
  readonly #folder: string
  #next = 0

  constructor() {
    this.#folder = mkdtempSync(
      join(hasFolder(SHARED_MEMORY) ? SHARED_MEMORY : tmpdir(), 'baton-kv-'),
    )
  }

  /** Lets `save` write a file and returns its bytes. */
  async collect(save: (path: string) => Promise<unknown>): Promise<Uint8Array> {
    const path = this.#path()
    try {
      await save(path)
      return await readFile(path)
    } finally {
      await rm(path, { force: true })
    }
  }

  /** Lets `load` read a file of these bytes. */
  async offer(bytes: Uint8Array, load: (path: string) => Promise<unknown>): Promise<void> {
    const path = this.#path()
    try {
      await writeFile(path, bytes, { mode: 0o600 })
      await load(path)
    } finally {
      await rm(path, { force: true })
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #path(): string {
    this.#next += 1
    return join(this.#folder, `state-${this.#next}`)
  }
}

function hasFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
