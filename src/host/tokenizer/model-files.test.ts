import { execFileSync } from 'node:child_process'
import {
  copyFile,
  mkdir,
  mkdtemp,
  readFile,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadModelText } from './model-files.ts'

const MODEL = fileURLToPath(new URL('../../../models/storyteller/', import.meta.url))
const GGUF = `${MODEL}storyteller-q8_0.gguf`

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'baton-model-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

describe('loadModelText', () => {
  it('a Hugging Face folder - tokenizer, template, context length and end tokens', async () => {
    const model = await loadModelText(MODEL)
    expect(model).toMatchObject({
      name: 'storyteller',
      kind: 'hugging-face',
      contextLength: 4096,
      eosTokenIds: [2, 0],
    })
    expect(model.template).not.toBeNull()
    expect(model.ggufPath).toBe(GGUF)
  })

  it('a GGUF file alone - the same ids as with its tokenizer.json', async () => {
    await copyFile(GGUF, path.join(folder, 'alone.gguf'))
    const alone = await loadModelText(folder)
    const beside = await loadModelText(GGUF)
    expect(alone).toMatchObject({ name: 'storyteller', kind: 'gguf', contextLength: 4096 })
    const text = '<|im_start|>user\nGrüße 🎉  <think><|im_end|>\n'
    expect(alone.tokenizer.encode(text, { special: true })).toEqual(
      beside.tokenizer.encode(text, { special: true }),
    )
    expect(alone.template?.source).toBe(beside.template?.source)
  })

  it('a tokenizer.json of another model beside a GGUF file - is not used', async () => {
    await copyFile(GGUF, path.join(folder, 'a.gguf'))
    const text = await readFile(`${MODEL}tokenizer.json`, 'utf8')
    const json = JSON.parse(text) as { model: { vocab: Record<string, number> } }
    const { vocab } = json.model
    const names = Object.keys(vocab)
    json.model.vocab = Object.fromEntries(names.map((name, i) => [name, vocab[names.at(-1 - i)!]!]))
    await writeFile(path.join(folder, 'tokenizer.json'), JSON.stringify(json))
    const model = await loadModelText(path.join(folder, 'a.gguf'))
    expect(model.tokenizer.tokenName(300)).toBe(
      (await loadModelText(GGUF)).tokenizer.tokenName(300),
    )
  })

  it.each([
    [
      'missing',
      async () => path.join(folder, 'nothing'),
      /does not exist: check the path of the model/,
    ],
    ['a device', async () => '/dev/null', /\/dev\/null is neither a file nor a folder/],
    [
      'a broken link in a folder',
      async () => {
        await symlink(path.join(folder, 'nowhere'), path.join(folder, 'link.gguf'))
        return folder
      },
      /the model .* cannot be read: ENOENT/,
    ],
    [
      'a folder in the place of a file',
      async () => {
        await mkdir(path.join(folder, 'tokenizer.json'))
        return folder
      },
      /cannot read .*tokenizer.json/,
    ],
    ['an empty folder', async () => folder, /neither tokenizer.json nor a .gguf/],
    [
      'garbage',
      async () => file('x.gguf', 'garbage garbage garbage'),
      /does not begin with "GGUF"/,
    ],
    ['an empty file', async () => file('x.gguf', ''), /ends at byte 0/],
    ['a truncated file', truncated, /ends at byte 30000/],
    ['no JSON', async () => path.dirname(await file('tokenizer.json', '{')), /is not valid JSON/],
    [
      'other JSON',
      async () => path.dirname(await file('tokenizer.json', '[]')),
      /cannot use this tokenizer.json/,
    ],
  ])('%s - model.load_failed with the reason', async (_name, make, reason) => {
    await expect(make().then(loadModelText)).rejects.toMatchObject({
      code: 'model.load_failed',
      message: expect.stringMatching(reason),
    })
  })

  async function file(name: string, text: string): Promise<string> {
    const target = path.join(folder, name)
    await writeFile(target, text)
    return target
  }

  async function truncated(): Promise<string> {
    const target = path.join(folder, 'x.gguf')
    await copyFile(GGUF, target)
    await truncate(target, 30_000)
    return target
  }

  it.skipIf(process.platform === 'win32')(
    'pipes without a writer in the folder - one that is needed is refused, others are ignored',
    async () => {
      const named = (name: string): string => path.join(folder, name)
      await copyFile(`${MODEL}tokenizer.json`, named('tokenizer.json'))
      execFileSync('mkfifo', [named('a.gguf'), named('config.json')])
      await expect(loadModelText(folder)).rejects.toMatchObject({
        code: 'model.load_failed',
        message: `cannot read ${named('config.json')}: it is not a file`,
      })
      await rm(named('config.json'))
      expect((await loadModelText(folder)).ggufPath).toBeNull()
    },
  )
})
