import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runBaton } from '../running-server.ts'
import { chromiumPath } from './chromium.ts'
import { openConsole } from './open-console.ts'
import type { OpenConsole } from './open-console.ts'

const path = chromiumPath()
const QUESTION = 'textarea[aria-label="Your message"]'

describe.skipIf(path === null)('the console in a real browser', () => {
  let opened: OpenConsole
  let page: Page

  beforeAll(async () => {
    opened = await openConsole(path ?? '', ['--prefill', '1', '--decode', '2'])
    page = opened.page
  })
  afterAll(() => opened?.close())

  it('fleet - shows workers by role with figures, and loads nothing from other hosts', async () => {
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).origin))
    await page.goto(opened.server.url)
    await page.getByText('storyteller: 3 workers').waitFor()
    const roles = await page.locator('tbody .role').allTextContents()
    expect(roles).toEqual(['prefill', 'decode', 'decode'])
    await page.getByText('Baton 0.', { exact: false }).first().waitFor()
    expect(new Set(asked)).toEqual(new Set([new URL(opened.server.url).origin]))
  })

  it('chat by keyboard alone - shows which workers ran prefill and decode, and the duration', async () => {
    await page.goto(`${opened.server.url}/#/chat`)
    await page.locator(QUESTION).focus()
    await page.keyboard.type('Tell me a story.')
    await page.keyboard.press('Enter')
    await page.getByText(/Prompt computed by .* output by .* TTFT .* tokens/).waitFor()
    expect((await page.locator('.assistant .said').textContent())?.length).toBeGreaterThan(20)
  })

  it('an invalid tool list - is reported and nothing is sent', async () => {
    await page.getByText('Tools and schema').click()
    await page.locator('#chat-tools').fill('[{')
    await page.locator(QUESTION).fill('hi')
    await page.keyboard.press('Enter')
    await page.getByText(/failed: Tools/).waitFor()
    await page.locator('#chat-tools').fill('')
  })

  it('a request - shows its phases, its decisions, and the choice with other weights', async () => {
    await page.getByRole('link', { name: 'Phases and decision' }).first().click()
    await page.getByRole('heading', { name: 'Decisions' }).waitFor()
    expect(await page.locator('.waterfall .phase').count()).toBeGreaterThan(4)
    const table = page.locator('table.candidates').last()
    const cost = () => table.locator('tbody tr').first().locator('td').nth(1).textContent()
    const before = await cost()
    await table.getByLabel(/^weight of decode/).fill('1000')
    expect(await cost()).not.toBe(before)
  })

  it('the list of requests - has the call, and the request leads back to the list', async () => {
    await page.getByRole('link', { name: 'Requests', exact: true }).click()
    await page.locator('tbody a').first().click()
    await page.getByRole('heading', { name: 'Phases' }).waitFor()
  })

  it('an unknown id - is reported', async () => {
    await page.goto(`${opened.server.url}/#/requests/nope`)
    await page.getByText('request nope is not known').waitFor()
  })

  it('text from a server - is never interpreted as markup', async () => {
    await page.goto(`${opened.server.url}/#/requests/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E`)
    await page.getByText('is not known').waitFor()
    expect(await page.locator('main img').count()).toBe(0)
    // A right-to-left override would reverse the text that follows.
    await page.goto(`${opened.server.url}/#/requests/a%E2%80%AEb`)
    await page.getByRole('heading', { name: 'a\uFFFDb' }).waitFor()
    expect(await page.locator('main').textContent()).not.toContain('\u202E')
  })

  it('reduced motion and dark mode - no moving dots, and dark colours', async () => {
    const calm = await opened.browser.newPage({ reducedMotion: 'reduce', colorScheme: 'dark' })
    await calm.goto(opened.server.url)
    await calm.getByText('storyteller: 3 workers').waitFor()
    await fetch(`${opened.server.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'storyteller', prompt: 'hi', max_tokens: 3 }),
    })
    await calm.locator('dd', { hasText: /in total/ }).waitFor()
    expect(await calm.locator('.dot').count()).toBe(0)
    const ground = await calm.evaluate('getComputedStyle(document.body).backgroundColor')
    expect(ground).toBe('rgb(21, 23, 26)')
    await calm.close()
  })

  it('operate - a worker is drained and resumed', async () => {
    await page.goto(`${opened.server.url}/#/operate`)
    page.on('dialog', (dialog) => void dialog.accept())
    const row = page.locator('tr', { hasText: 'decode' }).first()
    await row.getByRole('button', { name: 'drain' }).click()
    await page.getByText('Done. drain').waitFor()
    await page.getByRole('button', { name: 'resume' }).click()
    await page.getByText('Done. resume').waitFor()
    await page.getByText('No keys are asked for').waitFor()
  })

  it('errors of the page - none, and the policy blocked nothing', () => {
    // The unknown ids above were answered with 404, which the browser counts as an error.
    expect(opened.complaints.filter((text) => !text.includes('404'))).toEqual([])
  })
})

describe.skipIf(path === null)('the console with keys', () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-console-'))
  const keys = join(folder, 'keys.json')
  let opened: OpenConsole
  let key: string

  beforeAll(async () => {
    const added = await runBaton(['keys', 'add', '--file', keys, '--tenant', 'ops', '--operator'])
    // The surrounding sentence has spaces, the key has none.
    key = /^\S+$/m.exec(added.printed)?.[0] ?? ''
    opened = await openConsole(path ?? '', ['--keys', keys])
  })
  afterAll(async () => {
    await opened?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it("without a key - shows nothing of the fleet; with an operator's key everything", async () => {
    const { page } = opened
    await page.goto(opened.server.url)
    const field = page.getByLabel('API key of an operator')
    await field.waitFor()
    expect(await page.locator('tbody tr').count()).toBe(0)
    await field.fill(key)
    await page.keyboard.press('Enter')
    await page.getByText('storyteller: 2 workers').waitFor()
    await page.getByRole('link', { name: 'Operate' }).click()
    await page.getByRole('cell', { name: 'ops' }).waitFor()
    expect(await page.locator('body').textContent()).not.toContain(key)
  })
})
