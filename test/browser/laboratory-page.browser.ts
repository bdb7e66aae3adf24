/** The pages of `replay`, `compare` and `plan` in a real browser: nothing is loaded, every chart has data. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runBaton } from '../running-server.ts'
import { chromiumPath, complaintsOf, startChromium } from './chromium.ts'

const path = chromiumPath()
const LOAD = 'workload:random,requests=60,rate=30'
const PAGES = {
  replay: ['replay', LOAD, '--prefill', '1', '--decode', '2'],
  compare: ['compare', LOAD, '--policy', 'kv', '--policy', 'random', '--seeds', '2'],
  plan: ['plan', LOAD, '--max', '4', '--seeds', '2'],
} as const
/** WCAG 2.2: of graphical objects, and of text. */
const CONTRAST_OF_LINES = 3
const CONTRAST_OF_TEXT = 4.5

describe.skipIf(path === null)('the pages of the laboratory in a real browser', () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-pages-'))
  const at = (name: string): string => join(folder, name)
  let browser: Browser
  beforeAll(async () => {
    browser = await startChromium(path ?? '')
    for (const [name, args] of Object.entries(PAGES)) {
      const files = ['--html', at(`${name}.html`), '--json', at(`${name}.json`)]
      expect((await runBaton([...args, ...files])).exitCode).toBe(0)
    }
  })
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true })
  })

  it.each(
    Object.keys(PAGES).flatMap((name) => [
      [name, 'light'],
      [name, 'dark'],
    ]) as [string, 'light' | 'dark'][],
  )('%s in %s mode - readable on wide and narrow screens', async (name, colorScheme) => {
    const page = await browser.newPage({ colorScheme })
    const complaints = complaintsOf(page)
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    const url = pathToFileURL(at(`${name}.html`)).href
    await page.goto(url)
    expect(asked).toEqual([url])
    for (const width of [1280, 400]) {
      await page.setViewportSize({ width, height: 800 })
      const over = 'document.documentElement.scrollWidth - innerWidth'
      expect(await page.evaluate(over)).toBe(0)
    }
    const points = await page.$$eval('svg path', (paths) =>
      paths.map((each) => each.getAttribute('d')?.match(/[ML]/g)?.length ?? 0),
    )
    expect(points.length).toBeGreaterThanOrEqual(7)
    for (const count of points) expect(count).toBeGreaterThan(5)
    const paper = await colourOf('body', 'backgroundColor')
    const card = await colourOf('svg', 'backgroundColor')
    for (const selector of ['body', 'p, li, .card span'])
      expect(contrast(await colourOf(selector, 'color'), paper)).toBeGreaterThan(CONTRAST_OF_TEXT)
    const line = await colourOf('svg path', 'stroke')
    expect(contrast(line, card)).toBeGreaterThan(CONTRAST_OF_LINES)
    expect(complaints).toEqual([])
    await page.close()

    function colourOf(selector: string, of: 'backgroundColor' | 'color' | 'stroke') {
      const node = `document.querySelector(${JSON.stringify(selector)})`
      return page.evaluate<string>(`getComputedStyle(${node}).${of}`)
    }
  })

  it('the figures of the page - are those of the JSON', async () => {
    const page = await browser.newPage()
    await page.goto(pathToFileURL(at('replay.html')).href)
    const { run } = JSON.parse(readFileSync(at('replay.json'), 'utf8')) as {
      run: { report: Record<'ttftMs' | 'e2eMs', Record<'mean' | 'p50' | 'p99', number>> }
    }
    const cells = await page
      .locator('table')
      .first()
      .locator('tr')
      .nth(1)
      .locator('td')
      .allTextContents()
    const { ttftMs, e2eMs } = run.report
    expect(cells.slice(1, 4)).toEqual(
      [ttftMs.mean, ttftMs.p50, ttftMs.p99].map((ms) => ms.toFixed(0)),
    )
    expect(cells.slice(7, 10)).toEqual(
      [e2eMs.mean, e2eMs.p50, e2eMs.p99].map((ms) => ms.toFixed(0)),
    )
    await page.close()
  })
})

/** Of two colours as `rgb(r, g, b)`. */
function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].toSorted((x, y) => y - x)
  return (light! + 0.05) / (dark! + 0.05)
}

function luminance(colour: string): number {
  const [red, green, blue] = [...colour.matchAll(/\d+/g)].map(([digits]) => {
    const share = Number(digits) / 255
    return share <= 0.040_45 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
}
