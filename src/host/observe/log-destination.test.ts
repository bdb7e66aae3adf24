import { closeSync, existsSync, openSync } from 'node:fs'
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
