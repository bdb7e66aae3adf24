/** Slots and slot files of llama-servers. */
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { RequestContext } from '../../src/engine/index.ts'
import type { UpstreamEngine } from '../../src/upstream/index.ts'
import { SlotFiles } from '../../src/upstream/dialects/slot-files.ts'
import { SlotTable } from '../../src/upstream/dialects/slot-table.ts'
import { chunksOf, requestOf, startedEngine } from './engine-kit.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { SeenRequest } from './transcripts.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end()
})

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), 'baton-slots-'))
  open.push(() => rmSync(made, { recursive: true }))
  return made
}

const ids = (...tokens: number[]): Uint32Array => Uint32Array.from(tokens)
const never = new AbortController().signal

describe('SlotTable', () => {
  it('free slots - the one with the longest matching prefix is chosen, otherwise the least recently used', async () => {
    const table = new SlotTable(2)
    const [a, b] = [await table.acquire(ids(1), '', never), await table.acquire(ids(2), '', never)]
    table.release(a, ids(1, 2, 3), '')
    table.release(b, ids(7, 8), '')
    const third = await table.acquire(ids(7, 8, 9), '', never)
    expect(third.id).toBe(b.id)
    table.release(third, ids(7, 8, 9), '')
    expect((await table.acquire(ids(5), '', never)).id).toBe(a.id)
  })

  it('slots of another tenant - are not searched', async () => {
    const table = new SlotTable(2)
    const [a, b] = [await table.acquire(ids(1), '', never), await table.acquire(ids(2), '', never)]
    table.release(b, ids(9), '')
    table.release(a, ids(1, 2, 3), 'tenant')
    expect((await table.acquire(ids(1, 2, 3), '', never)).id).toBe(b.id)
  })

  it('no free slot - requests wait in order; aborted ones are skipped', async () => {
    const table = new SlotTable(1)
    const slot = await table.acquire(ids(1), '', never)
    const leaving = new AbortController()
    const order: string[] = []
    const first = table.acquire(ids(1), '', leaving.signal).catch(() => order.push('left'))
    const second = table.acquire(ids(1), '', never).then((taken) => {
      order.push('second')
      table.release(taken, ids(1), '')
    })
    const third = table.acquire(ids(1), '', never).then(() => order.push('third'))
    leaving.abort()
    await first
    table.release(slot, ids(1), '')
    await Promise.all([second, third])
    expect(order).toEqual(['left', 'second', 'third'])
  })
})

describe('SlotFiles', () => {
  it.each([
    ['baton-0123456789abcdef0123456789abcdef.bin', true],
    ['../baton-0123456789abcdef0123456789abcdef.bin', false],
    ['baton-0123456789abcdef0123456789abcdef.bin/..', false],
    ['room1.bin', false],
    [7, false],
    [undefined, false],
  ])('%s - is a file name from Baton: %s', (name, isOurs) => {
    expect(SlotFiles.isName(name)).toBe(isOurs)
  })

  it('files of an earlier run - are deleted, recent and foreign ones stay', async () => {
    const place = folder()
    const [old, young] = ['0', '1'].map((digit) => `baton-${digit.repeat(32)}.bin`)
    for (const name of [old!, young!, 'other.bin']) writeFileSync(path.join(place, name), 'x')
    for (const name of [old!, 'other.bin']) utimesSync(path.join(place, name), 1, 1)
    await new SlotFiles(place).open()
    expect(readdirSync(place).toSorted()).toEqual([young, 'other.bin'].toSorted())
  })

  it('a folder that does not exist - is refused with the name of the option', async () => {
    await expect(new SlotFiles('/nowhere/at/all').open()).rejects.toThrow(/--slot-save-path/)
  })
})

describe('hand-over with slot files', () => {
  const FILE = `baton-${'a'.repeat(32)}.bin`
  const END = {
    content: '',
    tokens: [],
    stop: true,
    stop_type: 'limit',
    tokens_evaluated: 27,
    timings: { cache_n: 26 },
  }

  async function engineOf(
    mode: 'prefill' | 'decode',
    slotFolder: string,
    answer: (request: SeenRequest) => Buffer | string | null,
  ): Promise<{ engine: UpstreamEngine; seen: readonly SeenRequest[] }> {
    const about: Readonly<Record<string, string>> = {
      '/props': 'get_props',
      '/health': 'get_health',
      '/v1/models': 'get_models',
    }
    const server = await fakeServer((request) => {
      const name = about[request.path]
      return name === undefined ? answer(request) : responseOf('llama-server', name)
    })
    open.push(() => server.close())
    const engine = await startedEngine({ url: server.url, mode, slotFolder })
    open.push(() => engine.cleanup())
    return { engine, seen: server.seen }
  }

  it('prefill - computes in a slot, saves the slot, and returns the file name', async () => {
    const { engine, seen } = await engineOf('prefill', folder(), ({ path: route }) =>
      route === '/completion'
        ? eventResponse([END])
        : jsonResponse(200, { id_slot: 0, n_saved: 27 }),
    )
    const [chunk] = await chunksOf(engine, requestOf({ stop: { maxTokens: 1 } }))
    expect(chunk?.finish).toBe('length')
    const save = seen.find(({ path: route }) => route.includes('action=save'))
    const computed = JSON.parse(
      seen.find(({ path: route }) => route === '/completion')?.body ?? '',
    ) as object
    expect(save?.path).toBe('/slots/0?action=save')
    expect(computed).toMatchObject({ id_slot: 0, n_predict: 0 })
    const { filename } = JSON.parse(save?.body ?? '') as { filename: string }
    expect(chunk?.prefillResult?.engineParams).toEqual({ llama_slot_file: filename })
  })

  it.each([
    ['a slot that cannot be saved', jsonResponse(400, {})],
    ['another slot was saved', jsonResponse(200, { id_slot: 3, n_saved: 27 })],
  ])('%s - no hand-over', async (_name, answer) => {
    const { engine } = await engineOf('prefill', folder(), ({ path: route }) =>
      route === '/completion' ? eventResponse([END]) : answer,
    )
    const [chunk] = await chunksOf(engine, requestOf({ stop: { maxTokens: 1 } }))
    expect(chunk?.prefillResult).toBeUndefined()
  })

  const handedOver = (name: unknown): ReturnType<typeof requestOf> =>
    requestOf({ prefillResult: { engineParams: { llama_slot_file: name } } })

  it('decode - restores the slot, deletes the file, and reports that KV was transferred', async () => {
    const place = folder()
    writeFileSync(path.join(place, FILE), 'kv')
    const { engine, seen } = await engineOf('decode', place, ({ path: route }) =>
      route === '/completion'
        ? eventResponse([{ tokens: [7], stop: false }, END])
        : jsonResponse(200, { id_slot: 0, n_restored: 27 }),
    )
    const chunks = await chunksOf(engine, handedOver(FILE))
    expect(chunks.at(-1)?.engineData).toEqual({ kv_moved: true })
    expect(seen.map(({ path: route }) => route).slice(-2)).toEqual([
      '/slots/0?action=restore',
      '/completion',
    ])
    expect(existsSync(path.join(place, FILE))).toBe(false)
  })

  it.each([
    ['the file is gone', jsonResponse(400, { error: { message: 'no such file' } })],
    ['the server took another slot', jsonResponse(200, { id_slot: 3, n_restored: 27 })],
  ])(
    'decode, %s - computes the prompt, and reports that no KV was transferred',
    async (_name, answer) => {
      const { engine } = await engineOf('decode', folder(), ({ path: route }) =>
        route === '/completion' ? eventResponse([{ tokens: [7], stop: false }, END]) : answer,
      )
      const chunks = await chunksOf(engine, handedOver(FILE))
      expect(chunks.at(-1)).toMatchObject({ finish: 'length', engineData: { kv_moved: false } })
    },
  )

  it('a file name that is not from Baton - is never requested', async () => {
    const { engine, seen } = await engineOf('decode', folder(), () => eventResponse([END]))
    await chunksOf(engine, handedOver('../../etc/passwd'))
    expect(seen.some(({ path: route }) => route.includes('restore'))).toBe(false)
  })

  it('restoring fails with the connection - the slot is free for the next request', async () => {
    const { engine } = await engineOf('decode', folder(), ({ path: route, socket }) => {
      if (route === '/completion') return eventResponse([{ tokens: [7], stop: false }, END])
      socket.destroy()
      return null
    })
    // More than the server has slots.
    for (let times = 0; times < 5; times += 1) {
      await expect(chunksOf(engine, handedOver(FILE))).rejects.toThrow(/closed the connection/)
    }
    expect((await chunksOf(engine, requestOf())).at(-1)?.finish).toBe('length')
  })

  it('a client that disconnects between the legs - the file is deleted nevertheless', async () => {
    const place = folder()
    writeFileSync(path.join(place, FILE), 'kv')
    const { engine } = await engineOf('decode', place, () => null)
    const request = handedOver(FILE)
    const context = new RequestContext(request.requestId)
    context.stop()
    const chunks = await chunksOf(engine, request, context)
    expect(chunks.map(({ finish }) => finish)).toEqual(['cancelled'])
    expect(existsSync(path.join(place, FILE))).toBe(false)
  })

  it('a role without the folder option - is refused with the name of the option', async () => {
    const server = await fakeServer(({ path: route }) =>
      responseOf('llama-server', route === '/props' ? 'get_props' : 'get_health'),
    )
    open.push(() => server.close())
    await expect(startedEngine({ url: server.url, mode: 'prefill' })).rejects.toThrow(
      /--slot-save-path/,
    )
  })
})
