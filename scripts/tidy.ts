/**
 * Checks the project's rules that the compiler cannot check: doors, sizes, names, clock and randomness in pure
 * rooms, and the lock file.
 *
 * Run by `npm test`. Prints one line per violation and exits with 1.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brokenLockEntries } from './lock-file.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const LINES_MAX = 500
/**
 * Rooms that may use Node or a browser: their tsconfig extends tsconfig.node.json or tsconfig.browser.json. All
 * other rooms, and the folders named here, are pure.
 */
const EDGE_ROOMS = new Set(
  readdirSync(join(ROOT, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .filter((room) => /tsconfig\.(node|browser)\.json/.test(tsconfigOf(room))),
)
const PURE_FOLDERS = ['src/boostr/protocol/']
/** Most files in one folder; more of them are a sign that a sub-folder is missing. */
const FOLDER_FILES_MAX = 25
/** Doors in addition to a room's index.ts; each is a sub-path export of the package. */
const SIDE_DOORS = new Set(['engine/testing'])

function tsconfigOf(room: string): string {
  return readFileSync(join(ROOT, 'src', room, 'tsconfig.json'), 'utf8')
}

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
  if (!/^[a-z0-9-]+(\.test|\.system\.test|\.d|\.generated)?\.ts$/.test(name))
    yield 'file names are kebab-case'
  if (/^(utils?|helpers?|common|shared|types|misc)(\.test)?\.ts$/.test(name)) {
    yield 'a file must be named after its single exported concept'
  }
  if (/^export \* /m.test(code)) yield 'doors must list names: no `export *`'
  if (!isTest && !text.startsWith('/**') && !text.startsWith('#!')) {
    yield 'a file must start with a comment that says what it owns'
  }
  if (isTest) return

  const isPure = !EDGE_ROOMS.has(room) || PURE_FOLDERS.some((folder) => path.startsWith(folder))
  if (room !== '' && isPure) {
    for (const ban of ['Date.now', 'new Date(', 'Math.random', 'setTimeout', 'performance.now']) {
      if (code.includes(ban))
        yield `\`${ban}\` in a pure room: pass time and randomness as arguments`
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

/**
 * The first comment of a door must say what the room owns, which rooms it may use (matching its tsconfig), and what
 * it is for.
 */
function* brokenDoorComments(all: readonly Source[]): Generator<string> {
  for (const { path, room, text } of all) {
    if (path !== `src/${room}/index.ts`) continue
    const head = text.slice(0, text.indexOf('*/')).replace(/\s*\n \*\s*/g, ' ')
    const owns = / Owns /.test(head) && / For: /.test(head)
    if (!owns)
      yield `${path}: the first comment of a door must contain "Owns …", "May use: …" and "For: …"`
    const said = (/ May use: ([^.]*)\./.exec(head)?.[1] ?? '')
      .split(', ')
      .filter((name) => name !== '' && name !== 'nothing')
    const held = [...tsconfigOf(room).matchAll(/"\.\.\/([a-z]+)"/g)].map((match) => match[1] ?? '')
    if (said.toSorted().join() !== held.toSorted().join()) {
      yield `${path}: "May use: ${said.join(', ')}" but tsconfig.json references ${held.join(', ')}`
    }
  }
}

/** Folders of one room that import each other in a circle, and folders with too many files. */
function* brokenFolders(all: readonly Source[]): Generator<string> {
  const arrows = new Map<string, Set<string>>()
  const sizes = new Map<string, number>()
  for (const { path, room, isTest, text } of all) {
    if (isTest || room === '') continue
    const folder = path.slice(0, path.lastIndexOf('/'))
    sizes.set(folder, (sizes.get(folder) ?? 0) + 1)
    // The door exports files of every folder; it is not a part of its own folder here.
    if (path.endsWith('/index.ts')) continue
    for (const match of withoutComments(text).matchAll(/from '(\.[^']+)'/g)) {
      const target = join(path, '..', match[1] ?? '', '..')
        .split(sep)
        .join('/')
      if (target.split('/')[1] !== room || target === folder) continue
      arrows.set(folder, (arrows.get(folder) ?? new Set()).add(target))
    }
  }
  for (const [folder, count] of sizes) {
    if (count > FOLDER_FILES_MAX)
      yield `${folder}: ${count} files in one folder, more than ${FOLDER_FILES_MAX}: add a sub-folder`
  }
  yield* circlesIn(arrows).map((circle) => `folders import each other in a circle: ${circle}`)
}

/** Files that import each other in a circle, including type imports. */
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
  return circlesIn(targets)
}

/** Each circle of a graph once, as `a -> b -> a`. */
function circlesIn(targets: ReadonlyMap<string, Iterable<string>>): string[] {
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
const ofTheWhole = [
  ...findCircles(sources).map((circle) => `circle: ${circle}`),
  ...brokenFolders(sources),
  ...brokenDoorComments(sources),
  ...brokenLockEntries(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')),
]
for (const rule of ofTheWhole) {
  console.error(rule)
  broken += 1
}
if (broken > 0) {
  console.error(`tidy: ${broken} broken rule(s) in ${sources.length} files`)
  process.exitCode = 1
} else {
  console.log(`tidy: ${sources.length} files, all rules hold`)
}
