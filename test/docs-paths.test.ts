import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const OWN = ['src', 'test', 'bench', 'scripts', 'examples', 'docs']
const files = OWN.flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((path) =>
    join(folder, path),
  ),
)
const names = new Set(files.map((path) => basename(path)))
const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  ...files.filter((path) => path.endsWith('.md')),
]

/** Relative to the repository root, to src/ (as in ARCHITECTURE.md), or to the page. */
function isThere(page: string, path: string): boolean {
  return ['', 'src', 'src/host', 'docs', dirname(page)].some((from) =>
    existsSync(join(ROOT, from, path)),
  )
}

function missing(page: string): string[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
  const links = [...text.matchAll(/\]\(([^)#:\s]+)(?:#[^)]*)?\)/g)].map((match) => match[1] ?? '')
  const code = [...text.matchAll(/`([^`\n]+)`/g)].map((match) => match[1] ?? '').join('\n')
  const paths = [...code.matchAll(/(?:[a-z0-9_-]+\/)+[a-z0-9_.-]+\.(?:tsx?|json|svg|md)\b/g)]
  const bare = [...code.matchAll(/(?<![/\w.*-])[a-z0-9-]+(?:\.test)?\.ts\b/g)]
  return [
    ...links.filter((link) => !existsSync(join(ROOT, dirname(page), link))),
    ...paths.map(([path]) => path).filter((path) => !isThere(page, path)),
    ...bare.map(([name]) => name).filter((name) => !names.has(name)),
  ]
}

describe('documentation', () => {
  it.each(pages)('%s - every file that it names exists', (page) => {
    expect(missing(page)).toEqual([])
  })
})
