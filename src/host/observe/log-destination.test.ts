import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { logDestination } from './log-destination.ts'

describe.skipIf(!existsSync('/dev/full'))('a log on a full disk', () => {
  it('lines are kept up to a limit, and nothing is thrown', () => {
    const fd = openSync('/dev/full', 'w')
    try {
      const out = logDestination(fd)
      const line = `${'x'.repeat(1023)}\n`
      let dropped = 0
      out.on('drop', () => {
        dropped += 1
      })
      for (let count = 0; count < 1000; count++) out.write(line)
      expect(dropped).toBe(1000 - 256)
    } finally {
      closeSync(fd)
    }
  })
})

describe('a log line above the limit', () => {
  /** What is in the file after these messages. */
  function written(texts: readonly string[]): readonly string[] {
    const folder = mkdtempSync(join(tmpdir(), 'baton-log-'))
    const path = join(folder, 'log')
    const fd = openSync(path, 'w')
    try {
      const logger = pino({ base: null }, logDestination(fd))
      for (const text of texts) logger.error({ text }, 'its message')
      return readFileSync(path, 'utf8').trimEnd().split('\n')
    } finally {
      closeSync(fd)
      rmSync(folder, { recursive: true })
    }
  }
  const BYTES_MAX = 256 * 1024
  const frame = `${written([''])[0] ?? ''}\n`

  it.each([
    ['x', 1],
    ['é', 2],
    ['語', 3],
  ])(
    'of the character %s - is written whole up to the limit, shortened beyond',
    (character, bytes) => {
      const most = Math.floor((BYTES_MAX - frame.length) / bytes)
      for (const count of [most - 1, most]) {
        const [line = ''] = written([character.repeat(count)])
        expect(JSON.parse(line)).toMatchObject({ text: character.repeat(count) })
      }
      const [line = '', ...others] = written([character.repeat(most + 1)])
      expect(others).toEqual([])
      expect(JSON.parse(line)).toEqual({
        level: 50,
        time: expect.any(Number) as number,
        characters: frame.length + most + 1,
        beginning: expect.stringMatching(
          new RegExp(`^\\{"level":50,"time":\\d+,"text":"${character}+$`),
        ) as string,
        end: expect.stringMatching(
          new RegExp(`^${character}+","msg":"its message"\\}\\n$`),
        ) as string,
        msg: 'a log line was too long: its beginning and its end',
      })
    },
  )

  it('of 50 MB - is shortened, and the lines around it are whole', () => {
    const lines = written(['before', 'x'.repeat(50_000_000), 'after'])
    expect(lines).toHaveLength(3)
    expect(lines.map((line) => line.length < 100_000)).toEqual([true, true, true])
    expect(lines[0]).toContain('before')
    expect(lines[2]).toContain('after')
  })
})
