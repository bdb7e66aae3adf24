import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { BLOCKS, linesOf, PAGES, ROOT } from './docs-code.ts'
import { BatonsInTurn } from './in-turn.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

/**
 * Checks every code block of the docs: options of `baton` commands, npm scripts and files exist, JSON and YAML
 * parse. Blocks that need a GPU, another machine or much time are marked `no-run`; docs-run.system.test.ts runs the
 * others.
 */
const lines = BLOCKS.filter(({ language }) => language === 'sh').flatMap((block) =>
  linesOf(block)
    .flatMap((line) => line.split(/ && | \| /))
    .map((line) => ({ page: block.page, line: line.trim() })),
)

const BATON =
  /^(?:[A-Z_]+=\S+ )*(?:npx baton(?:-llm)?|npm run -s baton --|node \S*baton\.js|baton) (.*)$/
const commands = lines.flatMap(({ page, line }) => {
  const asked = BATON.exec(line)?.[1]
  return asked === undefined ? [] : [{ page, asked }]
})

const helps = new Map<string, Promise<string>>()
function helpOf(words: readonly string[]): Promise<string> {
  const key = words.join(' ')
  const known = helps.get(key) ?? batons.run([...words, '--help']).then(({ printed }) => printed)
  helps.set(key, known)
  return known
}

const GROUPS = new Set(['keys', 'boostr'])

const LANGUAGES = new Set(['sh', 'ts', 'js', 'json', 'yaml', 'diff', 'text'])

/** One block may contain several YAML documents. */
function readYaml(text: string): void {
  for (const { errors } of parseAllDocuments(text)) if (errors[0] !== undefined) throw errors[0]
}

describe('code blocks of the docs', () => {
  it('every block - names its language, and `no-run` is the only other mark', () => {
    const unclear = BLOCKS.filter(
      ({ language, mark }) => !LANGUAGES.has(language) || !['', 'no-run'].includes(mark),
    )
    expect(unclear).toEqual([])
  })

  it('number of blocks - is not accidentally zero', () => {
    expect([BLOCKS.length > 60, commands.length > 30]).toEqual([true, true])
  })

  it('baton commands - exist with every option that is shown', async () => {
    const wrong: string[] = []
    for (const { page, asked } of commands) {
      const [name = '', second = ''] = asked.split(/\s+/)
      if (name.startsWith('-')) continue
      const words = GROUPS.has(name) && !second.startsWith('-') ? [name, second] : [name]
      const help = await helpOf(words)
      const isKnown = new RegExp(`^Usage: baton ${words.join(' ')}\\b`).test(help)
      if (!isKnown) wrong.push(`${page}: baton ${asked}: no such command`)
      for (const [, flag] of asked.matchAll(/(?<![\w-])(--[a-z][a-z0-9-]*)/g)) {
        if (isKnown && !new RegExp(`${flag}(?![\\w-])`).test(help)) {
          wrong.push(`${page}: baton ${words.join(' ')} has no ${flag}`)
        }
      }
    }
    expect(wrong).toEqual([])
  })

  it('baton commands in running text - exist', async () => {
    const named = PAGES.flatMap((page) => {
      const text = readFileSync(join(ROOT, page), 'utf8')
      return [...text.matchAll(/`baton ([a-z]+)/g)].map(([, name = '']) => ({ page, name }))
    })
    const wrong: string[] = []
    for (const { page, name } of named) {
      const isKnown = (await helpOf([name])).includes(`Usage: baton ${name}`)
      if (!isKnown) wrong.push(`${page}: baton ${name}`)
    }
    expect([named.length > 50, wrong]).toEqual([true, []])
  })

  it('npm scripts - are in package.json', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>
    }
    const asked = lines.flatMap(({ page, line }) => {
      const name = /^npm run (?:-s )?([a-z][\w:-]*)/.exec(line)?.[1]
      return name === undefined ? [] : [{ page, name }]
    })
    expect(asked.length).toBeGreaterThan(3)
    expect(asked.filter(({ name }) => !(name in scripts))).toEqual([])
  })

  it('programs of the repository - exist', () => {
    const run = lines.flatMap(({ page, line }) =>
      [...line.matchAll(/(?:tsx|node)(?: --\S+)* ((?:bench|scripts|examples)\/\S+)/g)].map(
        ([, path = '']) => ({ page, path }),
      ),
    )
    expect(run.length).toBeGreaterThan(5)
    for (const { page, path } of run) {
      expect([page, path, existsSync(join(ROOT, path))]).toEqual([page, path, true])
    }
  })

  it.each(BLOCKS.filter(({ language }) => language === 'json' || language === 'yaml'))(
    '$page: $language - parses',
    ({ language, text }) => {
      const read = (): void => void (language === 'json' ? JSON.parse(text) : readYaml(text))
      expect(read).not.toThrow()
    },
  )
})
