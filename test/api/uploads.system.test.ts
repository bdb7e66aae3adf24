import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import type { ClientRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toFile } from 'openai'
import type OpenAI from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { clientOf } from './openai-of.ts'

const MIB = 1024 * 1024
const HEAD =
  '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

const ENGINE = ['--engine', 'sim', '--in-process', '--aggregated', '1']

describe('uploads', () => {
  let folder: string
  let server: RunningServer
  let client: OpenAI
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'baton-uploads-'))
    const limits = ['--file-limit', '144MiB', '--files-limit', '240MiB']
    server = await startServer([...ENGINE, '--files-dir', folder, ...limits])
    client = clientOf(server)
  })
  // Files of one test must not affect another one.
  afterEach(() => {
    for (const name of there()) rmSync(join(folder, name), { force: true })
  })
  afterAll(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  const there = () => readdirSync(folder).filter((name) => name.startsWith('file-'))
  /** Peak memory in KiB; only Linux reports it. */
  const mostMemory = () => (process.platform === 'linux' ? memoryOf() : 0)
  const memoryOf = () =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.frontendPid}/status`, 'utf8'))?.[1])

  /** Begins an upload that stays open. */
  function begin(): ClientRequest & { answered: Promise<number> } {
    const sent = request(`${server.url}/v1/files`, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
    })
    const answered = new Promise<number>((resolve) => {
      sent.on('response', (res) => {
        res.resume()
        resolve(res.statusCode ?? 0)
      })
      sent.on('error', () => resolve(0))
    })
    sent.write(`${HEAD}some bytes`)
    return Object.assign(sent, { answered })
  }

  it('a large file - is complete on disk, and was never in memory as a whole', async () => {
    const content = Buffer.alloc(136 * MIB)
    for (let at = 0; at < content.length; at += 4093) content.writeUInt32LE(at, at & ~3)
    const before = mostMemory()
    const file = await client.files.create({ file: await toFile(content, 'x'), purpose: 'batch' })
    expect(file.bytes).toBe(content.length)
    expect(readFileSync(join(folder, `${file.id}.content`)).equals(content)).toBe(true)
    // Chunks that the garbage collector has not freed yet: up to 60 MiB were seen on Node 24.
    expect((mostMemory() - before) / 1024).toBeLessThan(115)
    const back = Buffer.from(await (await client.files.content(file.id)).arrayBuffer())
    expect(back.equals(content)).toBe(true)
    await client.files.delete(file.id)
    expect(there()).toEqual([])
  })

  it('a file over the limit of one or of all files - is refused and nothing of it is kept', async () => {
    const own = mkdtempSync(join(tmpdir(), 'baton-uploads-'))
    const limits = ['--file-limit', '2MiB', '--files-limit', '3MiB']
    const small = await startServer([...ENGINE, '--files-dir', own, ...limits])
    onTestFinished(async () => {
      await small.stop()
      rmSync(own, { recursive: true })
    })
    const { files } = clientOf(small)
    const of = async (bytes: number) =>
      await files.create({ file: await toFile(Buffer.alloc(bytes), 'x'), purpose: 'batch' })
    // The limit applies to the body, and a form is a little longer than its file.
    const fits = 2 * MIB - 4096
    await expect(of(2 * MIB)).rejects.toMatchObject({ status: 413 })
    const first = await of(fits)
    await expect(of(fits)).rejects.toMatchObject({ status: 529 })
    const left = readdirSync(own).filter((name) => name.startsWith('file-'))
    expect(left.toSorted()).toEqual([`${first.id}.content`, `${first.id}.json`])
    await files.delete(first.id)
  })

  it('a client that disconnects - nothing of its upload is kept', async () => {
    const sent = begin()
    await expect.poll(there).toHaveLength(1)
    sent.destroy()
    await expect.poll(there).toEqual([])
  })

  it.each([
    [
      'no file',
      '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--',
      'missing',
    ],
    ['no end', `${HEAD}x`, 'incomplete'],
    [
      'no purpose',
      '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--',
      'purpose',
    ],
  ])('a form with %s - 400, and nothing of it is kept', async (_what, body, why) => {
    const reply = await fetch(`${server.url}/v1/files`, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
      body,
    })
    expect(reply.status).toBe(400)
    expect(((await reply.json()) as { error: { message: string } }).error.message).toContain(why)
    expect(there()).toEqual([])
  })

  it('a compressed body, and an empty file - are accepted', async () => {
    const { gzipSync } = await import('node:zlib')
    for (const content of ['{"a":1}\n', '']) {
      const reply = await fetch(`${server.url}/v1/files`, {
        method: 'POST',
        headers: { 'content-type': 'multipart/form-data; boundary=b', 'content-encoding': 'gzip' },
        body: gzipSync(`${HEAD}${content}\r\n--b--`),
      })
      const { id, bytes } = (await reply.json()) as { id: string; bytes: number }
      expect([reply.status, bytes]).toEqual([200, content.length])
      expect(await (await client.files.content(id)).text()).toBe(content)
      await client.files.delete(id)
    }
  })

  it('16 concurrent uploads - the next one is refused with Retry-After, later ones are accepted', async () => {
    const open = Array.from({ length: 16 }, begin)
    await expect.poll(there).toHaveLength(16)
    const refused = await fetch(`${server.url}/v1/files`, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
      body: `${HEAD}x\r\n--b--`,
    })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([529, expect.any(String)])
    for (const sent of open) sent.end('\r\n--b--')
    const codes = await Promise.all(open.map(({ answered }) => answered))
    expect(new Set(codes)).toEqual(new Set([200]))
    const file = await client.files.create({
      file: await toFile(Buffer.from('x'), 'x'),
      purpose: 'batch',
    })
    expect(file.bytes).toBe(1)
  })
})
