/** A frontend that was suspended for longer than its lease, while another one continued its batch. */
import { mkdtempSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { seededRandom } from '../../src/base/index.ts'
import { OPEN_CALLER } from '../../src/frontend/access/caller.ts'
import { BatchGate } from '../../src/frontend/batches/batch-gate.ts'
import { NO_USAGE } from '../../src/frontend/batches/batch-record.ts'
import type { BatchRecord } from '../../src/frontend/batches/batch-record.ts'
import { BatchRunner } from '../../src/frontend/batches/batch-runner.ts'
import { StoredBatches } from '../../src/frontend/batches/stored-batches.ts'
import { contentName, StoredFiles } from '../../src/frontend/batches/stored-files.ts'
import type { AnswerLine } from '../../src/frontend/batches/line-answer.ts'
import { DiskFolder } from '../../src/cli/state/disk-folder.ts'
import { osClock } from '../../src/os/index.ts'
import { until } from '../until.ts'

const path = mkdtempSync(join(tmpdir(), 'baton-takeover-'))
afterAll(() => rmSync(path, { recursive: true }))

const hex = (digit: string): string => digit.repeat(32)
const BATCH: BatchRecord = {
  id: `batch_${hex('1')}`,
  tenant: '',
  keyId: null,
  endpoint: '/v1/completions',
  inputFileId: `file-${hex('a')}`,
  completionWindow: '24h',
  metadata: null,
  state: 'validating',
  faults: [],
  model: null,
  outputFileId: `file-${hex('b')}`,
  errorFileId: `file-${hex('c')}`,
  hasOutput: false,
  hasErrors: false,
  outputKeepSeconds: null,
  total: 0,
  completed: 0,
  failed: 0,
  usage: NO_USAGE,
  createdSeconds: Math.floor(osClock.epochMs() / 1000),
  expiresSeconds: Math.floor(osClock.epochMs() / 1000) + 86_400,
  reached: {},
}
const IDS = Array.from({ length: 8 }, (_, i) => `line ${i} é`)
const LINES = IDS.map((custom_id) =>
  JSON.stringify({ custom_id, method: 'POST', url: BATCH.endpoint, body: { prompt: 'a' } }),
)

function frontend(instance: string, answer: AnswerLine) {
  let nowMs = 0
  const folder = DiskFolder.open(path, { place: instance, pid: 1, instance }, () => nowMs)
  const options = { folder, fileBytesMax: 1e6, bytesMax: 1e6, keepSeconds: 1e6, requestsMax: 4 }
  const files = new StoredFiles(options, osClock)
  const batches = new StoredBatches(folder, osClock)
  const faults: unknown[] = []
  const givenUp: string[] = []
  const runner = (): BatchRunner =>
    new BatchRunner(
      {
        options,
        files,
        batches,
        clock: osClock,
        random: seededRandom(1),
        gate: new BatchGate(osClock, () => undefined, 4),
        answer,
        callerOf: () => OPEN_CALLER,
        lineBytesMax: 1e6,
        onGivenUp: (id) => givenUp.push(id),
        isYoung: () => false,
      },
      (fault) => faults.push(fault),
    )
  return { folder, files, batches, faults, givenUp, runner, wait: (ms: number) => (nowMs += ms) }
}

/** A copy of this file stops before its end, as of a process that is suspended. */
function pausedCopy(folder: DiskFolder, name: string) {
  let resume: () => void = () => undefined
  let isPaused = false
  const pieces = folder.pieces.bind(folder)
  folder.pieces = async function* (of, bytes) {
    yield* pieces(of, bytes)
    if (of !== name || bytes === undefined) return
    await new Promise<void>((resolve) => {
      resume = resolve
      isPaused = true
    })
  }
  return { isPaused: () => isPaused, proceed: () => resume() }
}

const answered = (text: string) => ({ status: 200, body: JSON.stringify({ text }), error: null })

it('another one has its batch - what it still writes is lost, and each line has one answer', async () => {
  const held: (() => void)[] = []
  let free = 3
  const one = frontend('one', async () => {
    if (free-- <= 0) await new Promise<void>((resolve) => held.push(resolve))
    return answered('déjà vu')
  })
  await one.folder.write(contentName(BATCH.inputFileId), LINES.join('\n'))
  await one.batches.write(BATCH)
  const first = one.runner()
  await until('the first frontend has begun', async () => {
    return held.length === 4 && (await one.batches.read(BATCH.id))?.completed === 3
  })

  const asked: string[] = []
  const two = frontend('two', async ({ requestId }) => {
    asked.push(requestId)
    return await Promise.resolve(answered('vu'))
  })
  expect(await two.folder.lease(BATCH.id)).toBe(false)
  two.wait(30_001)
  expect(await two.folder.lease(BATCH.id)).toBe(true)
  const second = two.runner()
  await until('the second one has finished it', async () => {
    return (await two.batches.read(BATCH.id))?.state === 'completed'
  })
  expect(asked).toHaveLength(5)

  free = Infinity
  for (const resolve of held) resolve()
  await until('the first one has given it up', () => first.size === 0)
  await Promise.all([first.stop(), second.stop()])
  expect(await two.batches.read(BATCH.id)).toMatchObject({ state: 'completed', completed: 8 })
  const { bytes } = await two.files.file(BATCH.outputFileId, '')
  const text = (await two.folder.read(contentName(BATCH.outputFileId))) ?? ''
  expect(Buffer.byteLength(text)).toBe(bytes)
  const ids = text.trimEnd().split('\n')
  expect(ids.map((line) => (JSON.parse(line) as { custom_id: string }).custom_id)).toEqual(IDS)
  expect([one.faults, two.faults]).toEqual([[], []])
  expect([one.givenUp, two.givenUp]).toEqual([[BATCH.id], []])
})

it('another one has its batch while it still copies what was written before - the copy does not replace its files', async () => {
  const record = { ...BATCH, id: `batch_${hex('2')}`, outputFileId: `file-${hex('d')}` }
  const name = contentName(record.outputFileId)
  const one = frontend('three', async () => await Promise.resolve(answered('late')))
  const old = IDS.slice(0, 3).map((custom_id) => `${JSON.stringify({ custom_id, response: {} })}\n`)
  await one.folder.write(contentName(BATCH.inputFileId), LINES.join('\n'))
  await one.folder.write(name, old.join(''))
  await one.batches.write(record)
  const copy = pausedCopy(one.folder, name)
  const first = one.runner()
  await until('the first one copies', () => copy.isPaused())

  const two = frontend('four', async () => await Promise.resolve(answered('vu')))
  expect(await two.folder.lease(record.id)).toBe(false)
  two.wait(30_001)
  expect(await two.folder.lease(record.id)).toBe(true)
  const second = two.runner()
  await until('the second one has finished it', async () => {
    return (await two.batches.read(record.id))?.state === 'completed'
  })
  copy.proceed()
  await until('the first one has given it up', () => first.size === 0)
  await Promise.all([first.stop(), second.stop()])
  const text = (await two.folder.read(name)) ?? ''
  expect(text.trimEnd().split('\n')).toHaveLength(IDS.length)
  expect(Buffer.byteLength(text)).toBe((await two.files.file(record.outputFileId, '')).bytes)
  expect((await two.folder.names()).filter((file) => file.startsWith('.draft-'))).toEqual([])
})

it('another one has finished its batch - what it still writes replaces no file', async () => {
  const record = { ...BATCH, id: `batch_${hex('3')}`, outputFileId: `file-${hex('e')}` }
  const name = contentName(record.outputFileId)
  const held: (() => void)[] = []
  let answers = 0
  const one = frontend('five', async () => {
    await new Promise<void>((resolve) => held.push(resolve))
    answers++
    return answered('late')
  })
  await one.folder.write(contentName(BATCH.inputFileId), LINES.join('\n'))
  await one.batches.write(record)
  const first = one.runner()
  await until('the first one has asked', () => held.length === 4)

  const two = frontend('six', async () => await Promise.resolve(answered('vu')))
  expect(await two.folder.lease(record.id)).toBe(false)
  two.wait(30_001)
  expect(await two.folder.lease(record.id)).toBe(true)
  const second = two.runner()
  await until('the second one has finished it', async () => {
    return (await two.batches.read(record.id))?.state === 'completed' && second.size === 0
  })
  // They come one by one, so that each is written alone or during the write of another.
  for (const resolve of held) {
    resolve()
    const before = answers
    await until('it is answered', () => answers > before)
  }
  await until('the first one has given it up', () => first.size === 0)
  await Promise.all([first.stop(), second.stop()])
  const text = (await two.folder.read(name)) ?? ''
  expect(text.trimEnd().split('\n')).toHaveLength(IDS.length)
  expect(Buffer.byteLength(text)).toBe((await two.files.file(record.outputFileId, '')).bytes)
  expect(await two.batches.read(record.id)).toMatchObject({ state: 'completed', completed: 8 })
  expect([one.givenUp, two.givenUp]).toEqual([[record.id], []])
})

it('another batch that begins while the lines of one are copied - does not count the copy', async () => {
  const large = { ...BATCH, id: `batch_${hex('4')}`, outputFileId: `file-${hex('f')}` }
  const small = { ...BATCH, id: `batch_${hex('5')}`, outputFileId: `file-${hex('6')}` }
  const name = contentName(large.outputFileId)
  const one = frontend('seven', async () => await Promise.resolve(answered('vu')))
  const line = { custom_id: IDS[0], response: { body: 'x'.repeat(600_000) } }
  await one.folder.write(contentName(BATCH.inputFileId), LINES.join('\n'))
  await one.folder.write(name, `${JSON.stringify(line)}\n`)
  await one.batches.write(large)
  const copy = pausedCopy(one.folder, name)
  const first = one.runner()
  await until('the first one copies', () => copy.isPaused())

  const two = frontend('eight', async () => await Promise.resolve(answered('vu')))
  await two.batches.write(small)
  const second = two.runner()
  await until('the other batch has ended', async () => {
    return (await two.batches.read(small.id))?.reached.finalizing !== undefined && second.size === 0
  })
  copy.proceed()
  await until('the first batch has ended', () => first.size === 0)
  await Promise.all([first.stop(), second.stop()])
  expect([one.givenUp, two.givenUp]).toEqual([[], []])
  for (const { id } of [large, small]) {
    expect(await two.batches.read(id)).toMatchObject({ state: 'completed', completed: 8 })
  }
  await one.folder.remove(name)
})

it('a batch that has written nothing for days - another frontend removes none of its files', async () => {
  const record = { ...BATCH, id: `batch_${hex('6')}`, outputFileId: `file-${hex('7')}` }
  const name = contentName(record.outputFileId)
  const held: (() => void)[] = []
  const one = frontend('nine', async () => {
    if (held.length < 4) await new Promise<void>((resolve) => held.push(resolve))
    return answered('vu')
  })
  await one.folder.write(contentName(BATCH.inputFileId), LINES.join('\n'))
  await one.folder.write(name, `${JSON.stringify({ custom_id: IDS[0], response: {} })}\n`)
  await one.batches.write(record)
  const first = one.runner()
  await until('the first one has asked', () => held.length === 4)
  const days = Date.now() / 1000 - 9 * 86_400
  utimesSync(join(path, name), days, days)

  const two = frontend('ten', async () => await Promise.resolve(answered('vu')))
  // Removed after the files.
  const last = `batch_${hex('0')}.lease`
  await two.folder.write(last, '')
  const second = two.runner()
  await until('the other one has removed what is left', async () => {
    return (await two.folder.bytesOf(last)) === undefined
  })
  for (const resolve of held) resolve()
  await until('the batch has ended', () => first.size === 0)
  await Promise.all([first.stop(), second.stop()])
  const text = (await two.folder.read(name)) ?? ''
  expect(text.trimEnd().split('\n')).toHaveLength(IDS.length)
})
