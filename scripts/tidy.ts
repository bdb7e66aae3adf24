/**
 * The house rules that the compiler cannot see: doors, sizes, names, clock and randomness in pure rooms.
 *
 * Run by `npm test`. Prints one line per broken rule and exits with 1.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const LINES_MAX = 500
const EDGE_ROOMS = new Set(['host', 'cli'])
/** Doors beside a room's own index.ts; each is a sub-path export of the package. */
const SIDE_DOORS = new Set(['engine/testing'])

interface Source {
  readonly path: string
  readonly room: string
  readonly isTest: boolean
  readonly text: string
}

function listFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : listFiles(path)
    return entry.name.endsWith('.ts') ? [path] : []
  })
}

function readSources(): Source[] {
  return listFiles(join(ROOT, 'src')).map((file) => {
    const path = relative(ROOT, file).split(sep).join('/')
    const inRoom = path.split('/')
    return {
      path,
      room: inRoom.length > 2 ? (inRoom[1] ?? '') : '',
      isTest: path.endsWith('.test.ts'),
      text: readFileSync(file, 'utf8'),
    }
  })
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1')
}

function* brokenRules(source: Source): Generator<string> {
  const { path, room, isTest, text } = source
  const lines = text.split('\n').length
  const code = withoutComments(text)
  const name = path.split('/').at(-1) ?? ''

  if (lines > LINES_MAX) yield `${lines} lines, more than ${LINES_MAX}: split it by concept`
  if (!/^[a-z0-9-]+(\.test|\.d|\.generated)?\.ts$/.test(name)) yield 'file names are kebab-case'
  if (/^(utils?|helpers?|common|shared|types|misc)(\.test)?\.ts$/.test(name)) {
    yield 'a file is named after its one concept'
  }
  if (/^export \* /m.test(code)) yield 'doors list names: no `export *`'
  if (!isTest && !text.startsWith('/**') && !text.startsWith('#!')) {
    yield 'a file begins with a comment that says what it owns'
  }
  if (isTest) return

  if (room !== '' && !EDGE_ROOMS.has(room)) {
    for (const ban of ['Date.now', 'new Date(', 'Math.random', 'setTimeout', 'performance.now']) {
      if (code.includes(ban)) yield `\`${ban}\` in a pure room: time and randomness are arguments`
    }
  }
  if (room !== '') yield* brokenDoors(code, path, room)
}

function* brokenDoors(code: string, path: string, room: string): Generator<string> {
  for (const match of code.matchAll(/from '(\.[^']+)'/g)) {
    const target = join(path, '..', match[1] ?? '')
      .split(sep)
      .join('/')
    const parts = target.split('/')
    if (parts[0] !== 'src' || parts.length < 3) continue
    const targetRoom = parts[1] ?? ''
    if (targetRoom === room) continue
    const folder = parts.slice(1, -1).join('/')
    const isDoor = parts.at(-1) === 'index.ts' && (folder === targetRoom || SIDE_DOORS.has(folder))
    if (!isDoor) yield `imports ${target}: another room is entered by its index.ts`
  }
}

/** Files that import each other in a circle, type imports included. */
function findCircles(all: readonly Source[]): string[] {
  const targets = new Map(
    all
      .filter(({ isTest }) => !isTest)
      .map(({ path, text }) => [
        path,
        [...withoutComments(text).matchAll(/from '(\.[^']+)'/g)].map((match) =>
          join(path, '..', match[1] ?? '')
            .split(sep)
            .join('/'),
        ),
      ]),
  )
  const done = new Set<string>()
  const circles: string[] = []
  const walk = (path: string, trail: readonly string[]): void => {
    const seenAt = trail.indexOf(path)
    if (seenAt >= 0) circles.push([...trail.slice(seenAt), path].join(' -> '))
    if (seenAt >= 0 || done.has(path)) return
    for (const target of targets.get(path) ?? []) walk(target, [...trail, path])
    done.add(path)
  }
  for (const path of targets.keys()) walk(path, [])
  return circles
}

const sources = readSources()
let broken = 0
for (const source of sources) {
  for (const rule of brokenRules(source)) {
    console.error(`${source.path}: ${rule}`)
    broken += 1
  }
}
for (const circle of findCircles(sources)) {
  console.error(`circle: ${circle}`)
  broken += 1
}
if (broken > 0) {
  console.error(`tidy: ${broken} broken rule(s) in ${sources.length} files`)
  process.exitCode = 1
} else {
  console.log(`tidy: ${sources.length} files, all rules hold`)
}
