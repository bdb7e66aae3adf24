import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath } from './chromium.ts'
import { openConsole } from './open-console.ts'
import type { OpenConsole } from './open-console.ts'

const path = chromiumPath()
const REQUESTS = 30

describe.skipIf(path === null)('the console with two frontends behind one port', () => {
  let opened: OpenConsole
  let page: Page

  beforeAll(async () => {
    opened = await openConsole(path ?? '', ['--frontends', '2', '--sim-speedup', '0'])
    page = opened.page
  })
  afterAll(() => opened?.close())

  /** Each request on its own connection, so that both frontends get some; returns which one served it. */
  async function complete(requestId: string): Promise<void> {
    const headers = {
      'content-type': 'application/json',
      connection: 'close',
      'x-request-id': requestId,
    }
    const body = JSON.stringify({ model: 'storyteller', prompt: 'Once', max_tokens: 4 })
    await fetch(`${opened.server.url}/v1/completions`, { method: 'POST', headers, body })
  }

  async function servedBy(): Promise<readonly number[]> {
    const reply = await fetch(`${opened.server.url}/metrics`)
    const lines = (await reply.text()).matchAll(/^baton_frontend_requests_total{.*} (\d+)$/gm)
    return [...lines].map(([, value]) => Number(value))
  }

  it('fleet - shows two frontends and the sum of their requests', async () => {
    await page.goto(opened.server.url)
    const frontends = page.locator('.figures div', { hasText: 'Frontends' })
    await expect.poll(() => frontends.locator('dd').textContent()).toContain('2')
    await Promise.all(Array.from({ length: REQUESTS }, (_, i) => complete(`both-${i}`)))
    const all = page.locator('dd', { hasText: 'in total' })
    await expect.poll(() => all.textContent()).toContain(`${REQUESTS} in total`)
    const shares = await servedBy()
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(REQUESTS)
    expect(shares.filter((share) => share > 0).length).toBe(2)
  })

  it('requests - the list has those of both frontends, and each leads to its phases and decision', async () => {
    await page.getByRole('link', { name: 'Requests', exact: true }).click()
    const rows = page.locator('tbody tr')
    await expect.poll(() => rows.count()).toBe(REQUESTS)
    // One by one: whichever frontend the page asks, the other one routed some of the requests.
    for (const i of [0, 7, 14, 21, 29]) {
      await page.goto(`${opened.server.url}/#/requests/both-${i}`)
      await page.getByRole('heading', { name: `Request both-${i}` }).waitFor()
      await page.getByRole('heading', { name: 'Phases' }).waitFor()
      await page.locator('table.candidates').first().waitFor()
    }
  })

  it('chat and operate - work whichever frontend answers', async () => {
    await page.goto(`${opened.server.url}/#/chat`)
    await page.locator('#chat-max-tokens').fill('20')
    for (let turn = 1; turn <= 4; turn++) {
      await page.getByLabel('Your message').fill(`Question ${turn}`)
      await page.keyboard.press('Enter')
      await expect.poll(() => page.getByText(/TTFT .* tokens/).count()).toBe(turn)
    }
    await page.goto(`${opened.server.url}/#/operate`)
    page.on('dialog', (dialog) => void dialog.accept())
    await page.locator('tr', { hasText: 'decode' }).getByRole('button', { name: 'drain' }).click()
    await page.getByRole('button', { name: 'resume' }).waitFor()
    await page.getByRole('button', { name: 'resume' }).click()
    await expect.poll(() => page.getByRole('button', { name: 'drain' }).count()).toBe(2)
  })

  it('errors of the page - none', () => {
    expect(opened.complaints).toEqual([])
  })
})
