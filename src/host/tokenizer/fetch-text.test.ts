import { appendFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { isRecord } from '../../base/index.ts'
import { loadModelText } from './model-files.ts'
import { fetchText, TextCacheFault } from './fetch-text.ts'
import type { TextSource } from './fetch-text.ts'
import { modelTextDigest } from './model-digest.ts'
import { TEXT_PIECE_BYTES, TextFiles } from './text-files.ts'

const GGUF = fileURLToPath(
  new URL('../../../models/storyteller/storyteller-q8_0.gguf', import.meta.url),
)
const folders: string[] = []

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-text-'))
  folders.push(folder)
  return folder
}

async function filesAt(path: string): Promise<TextFiles> {
  const files = await TextFiles.at(path)
  if (files === null) throw new Error('nothing to offer')
  return files
}

class Source implements TextSource {
  asked = 0
  isClosed = false
  readonly #answer: (question: { name: string; offset: number }) => Promise<unknown>

  constructor(answer: (question: { name: string; offset: number }) => Promise<unknown>) {
    this.#answer = answer
  }

  ask(question: { name: string; offset: number }): Promise<unknown> {
    this.asked += 1
    return this.#answer(question)
  }

  close(): void {
    this.isClosed = true
  }
}

const from = (files: TextFiles): Source => new Source((question) => files.piece(question))

async function fetched(files: TextFiles, cache: string, ...sources: Source[]): Promise<string> {
  const { manifest } = files
  const opened = sources.map((source) => () => Promise.resolve(source))
  return await fetchText({ manifest, cache, sources: opened, totalMs: 60_000 })
}

describe('fetchText', () => {
  it('a GGUF file - its metadata is enough, and the second load uses the cache', async () => {
    const files = await filesAt(GGUF)
    const cache = newFolder()
    const source = from(files)
    const path = await fetched(files, cache, source)
    expect(modelTextDigest(await loadModelText(path))).toEqual(
      modelTextDigest(await loadModelText(GGUF)),
    )
    expect([source.asked > 0, source.isClosed]).toEqual([true, true])
    const again = from(files)
    expect(await fetched(files, cache, again)).toBe(path)
    expect(again.asked).toBe(0)
  })

  it('files at, below and above the length of a piece - arrive complete', async () => {
    for (const bytes of [TEXT_PIECE_BYTES - 1, TEXT_PIECE_BYTES, TEXT_PIECE_BYTES + 1]) {
      const folder = newFolder()
      writeFileSync(join(folder, 'tokenizer.json'), 'x'.repeat(bytes))
      const source = from(await filesAt(folder))
      await fetched(await filesAt(folder), newFolder(), source)
      expect(source.asked).toBe(bytes > TEXT_PIECE_BYTES ? 2 : 1)
    }
  })

  it('different content, a truncated piece, no answer - is refused, nothing is kept, and the next worker is asked', async () => {
    const folder = newFolder()
    writeFileSync(join(folder, 'tokenizer.json'), '{"a":1}')
    const files = await filesAt(folder)
    const bad = [
      new Source(() => Promise.resolve({ bytes: new TextEncoder().encode('{"a":2}') })),
      new Source(() => Promise.resolve({ bytes: new Uint8Array(0) })),
      new Source(() => Promise.resolve({ bytes: new Uint8Array(8) })),
      new Source(() => Promise.resolve('nothing')),
      new Source(() => Promise.reject(new Error('gone'))),
    ]
    const cache = newFolder()
    await expect(fetched(files, cache, ...bad)).rejects.toMatchObject({ code: 'model.load_failed' })
    expect(readdirSync(cache)).toEqual([])
    expect(bad.every(({ isClosed }) => isClosed)).toBe(true)
    await fetched(files, cache, ...bad, from(files))
    expect(readdirSync(cache)).toEqual([files.manifest.hash])
  })

  it.skipIf(process.platform !== 'linux')(
    'a cache that cannot be created or written - is reported, and no other worker is asked',
    async () => {
      const folder = newFolder()
      const file = join(folder, 'tokenizer.json')
      writeFileSync(file, '{"a":1}')
      const files = await filesAt(folder)
      for (const cache of [join(file, 'text'), '/proc/nowhere/text']) {
        const [first, second] = [from(files), from(files)]
        const fault = await fetched(files, cache, first, second).catch((error: unknown) => error)
        expect(fault).toBeInstanceOf(TextCacheFault)
        expect(String(fault)).toContain(`${cache} cannot store`)
        expect([first.isClosed, second.asked]).toEqual([true, 0])
      }
    },
  )

  it('a cache folder that was changed - is fetched again', async () => {
    const folder = newFolder()
    writeFileSync(join(folder, 'tokenizer.json'), '{"a":1}')
    const files = await filesAt(folder)
    const cache = newFolder()
    const place = await fetched(files, cache, from(files))
    appendFileSync(join(place, 'tokenizer.json'), ' ')
    const source = from(files)
    await fetched(files, cache, source)
    expect(source.asked).toBe(1)
  })

  it('a card with paths outside, too many or too long files, or another hash - is refused', async () => {
    const file = { name: 'tokenizer.json', bytes: 3, sha256: '0'.repeat(64) }
    const lists = [
      [],
      [{ ...file, name: '../x' }],
      [{ ...file, name: '..' }],
      [{ ...file, bytes: 257 * 1024 ** 2 }],
      [{ ...file, bytes: -1 }],
      [file, file],
      Array.from({ length: 9 }, (_, i) => ({ ...file, name: `f${i}` })),
      [file],
    ]
    for (const given of lists) {
      const asked = fetchText({
        manifest: { hash: 'f'.repeat(64), files: given },
        cache: newFolder(),
        sources: [],
        totalMs: 1,
      })
      await expect(asked).rejects.toThrow(/list of files .* invalid/)
    }
  })
})

describe('TextFiles', () => {
  it('a piece that does not exist - is refused', async () => {
    const folder = newFolder()
    writeFileSync(join(folder, 'tokenizer.json'), '{"a":1}')
    const files = await filesAt(folder)
    for (const question of [null, {}, { name: 'x', offset: 0 }, { name: 'tokenizer.json' }]) {
      await expect(files.piece(question)).rejects.toMatchObject({ code: 'request.not_found' })
    }
    for (const offset of [-1, 7]) {
      const asked = files.piece({ name: 'tokenizer.json', offset })
      await expect(asked).rejects.toMatchObject({ code: 'request.invalid_argument' })
    }
    const last = await files.piece({ name: 'tokenizer.json', offset: 6 })
    expect(isRecord(last) && last['bytes']).toEqual(new TextEncoder().encode('}'))
  })

  it('the same content at another place - has the same hash', async () => {
    const [one, two] = [newFolder(), newFolder()]
    for (const folder of [one, two]) writeFileSync(join(folder, 'tokenizer.json'), '{}')
    expect((await filesAt(one)).manifest).toEqual((await filesAt(two)).manifest)
  })
})
