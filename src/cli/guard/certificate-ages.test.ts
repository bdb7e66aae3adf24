import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../sim/index.ts'
import { ageWarning, CertificateAges } from './certificate-ages.ts'
import { certificateOf } from './pem-files.ts'

const path = fileURLToPath(new URL('../../../test/fixtures/tls/expired.pem', import.meta.url))
const FLAG = '--tls-cert'
const CERTIFICATE = { flag: FLAG, path, pem: readFileSync(path, 'utf8') }
const TERM = certificateOf(FLAG, CERTIFICATE.pem)
const { validFrom, validTo } = TERM
const DAY_MS = 86_400_000

describe('the age of a certificate', () => {
  it.each([
    [14, null],
    [13.9, /expires in 13 days, on Jan /],
    [1.5, /expires in 1 day, on /],
    [0.5, /expires in less than a day, on /],
    [-0.001, /expired on Jan .* and is refused: replace the file/],
  ])('%d days are left', (days, text) => {
    const warning = ageWarning(CERTIFICATE, TERM, Date.parse(validTo) - days * DAY_MS)
    if (text === null) expect(warning).toBe(null)
    else expect(warning).toMatch(text)
  })

  it.each([
    [12, 3, null],
    [12, 2.99, /expires in 2 days/],
    [1, 0.25, null],
    [1, 0.24, /expires in less than a day/],
  ])('it lives for %d days, %d are left', (ofDays, days, text) => {
    const startMs = Date.parse(validTo) - ofDays * DAY_MS
    const term = { validFrom: new Date(startMs).toUTCString(), validTo }
    const warning = ageWarning(CERTIFICATE, term, Date.parse(validTo) - days * DAY_MS)
    if (text === null) expect(warning).toBe(null)
    else expect(warning).toMatch(text)
  })

  it('it is not valid yet', () => {
    const warning = ageWarning(CERTIFICATE, TERM, Date.parse(validFrom) - 1)
    expect(warning).toMatch(/is not valid before Jan .*: correct the clock/)
  })

  it('while the process runs - it is told once a day, and when it is replaced', () => {
    const clock = new VirtualClock({ epochMs: Date.parse(validTo) - 2.5 * DAY_MS })
    const run = (forMs: number): void => {
      const untilMs = clock.nowMs() + forMs
      while (clock.fireNext(untilMs));
    }
    const pem = { now: CERTIFICATE.pem }
    const told: (string | null)[] = []
    const ages = new CertificateAges({
      clock,
      certificates: () => [{ ...CERTIFICATE, pem: pem.now }],
      tell: (_, warning) => told.push(warning),
    })
    run(2.5 * DAY_MS + 10_000)
    expect(told).toEqual(
      ['in 2 days', 'in 1 day,', 'in less than a day', 'expired on'].map((text) =>
        expect.stringContaining(text),
      ),
    )
    pem.now = readFileSync(path.replace('expired', 'fleet'), 'utf8')
    run(10_000)
    expect(told).toHaveLength(5)
    expect(told.at(-1)).not.toMatch(/ expired on /)
    ages.close()
  })
})
