import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath } from './chromium.ts'
import { openConsole } from './open-console.ts'
import type { OpenConsole } from './open-console.ts'

const path = chromiumPath()

/** A node of Chromium's accessibility tree. */
interface Told {
  readonly ignored: boolean
  readonly role?: { readonly value: string }
  readonly name?: { readonly value: string }
}
const CONTROLS = new Set([
  'button',
  'link',
  'textbox',
  'searchbox',
  'spinbutton',
  'combobox',
  'slider',
  'meter',
  'DisclosureTriangle',
])

/** A description of the focused element, and whether it is visible. */
const FOCUSED = `(() => {
  const active = document.activeElement
  const { outlineStyle, outlineWidth } = getComputedStyle(active)
  const { left, right } = active.getBoundingClientRect()
  const label = active.labels?.[0]?.firstChild?.textContent
  return {
    text: active.getAttribute('aria-label') ?? label ?? active.textContent.trim().slice(0, 80),
    isSeen: outlineStyle !== 'none' && outlineWidth !== '0px' && right > 0 && left < innerWidth,
  }
})()`

/** Visible texts with too little contrast to their background: below 4.5, or below 3 for large text (WCAG 2 AA). */
const PALE = `(() => {
  const parse = (color) => {
    const context = new OffscreenCanvas(1, 1).getContext('2d')
    context.fillStyle = color
    context.fillRect(0, 0, 1, 1)
    return [...context.getImageData(0, 0, 1, 1).data]
  }
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const behind = (element) => {
    for (let each = element; each !== null; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor)
      if (color[3] === 255) return color
    }
    return parse('white')
  }
  const pale = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement
    if (node.data.trim() === '' || !element.checkVisibility({ visibilityProperty: true })) continue
    const style = getComputedStyle(element)
    const isDrawn = element instanceof SVGElement
    const [a, b] = [light(parse(isDrawn ? style.fill : style.color)), light(behind(element))]
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const isLarge = parseFloat(style.fontSize) >= 24
    if (contrast < (isLarge ? 3 : 4.5)) pale.push(node.data.trim() + ': ' + contrast.toFixed(2))
  }
  return pale
})()`

describe.skipIf(path === null)('keyboard and screen reader access to the console', () => {
  let opened: OpenConsole
  let page: Page
  const requestId = 'request-of-this-test'

  beforeAll(async () => {
    opened = await openConsole(path ?? '', ['--prefill', '1', '--decode', '2'])
    page = opened.page
    page.on('dialog', (dialog) => void dialog.accept())
    const headers = { 'content-type': 'application/json', 'x-request-id': requestId }
    const messages = [{ role: 'user', content: 'word '.repeat(200) }]
    const body = JSON.stringify({ model: 'storyteller', messages, max_tokens: 5 })
    await fetch(`${opened.server.url}/v1/chat/completions`, { method: 'POST', headers, body })
  })
  afterAll(() => opened?.close())

  /** Elements that must exist before a page is checked. */
  const PAGES = [
    ['fleet', 'table'],
    ['chat', 'textarea'],
    ['requests', 'tbody a'],
    [`requests/${requestId}`, 'table.candidates'],
    ['operate', 'tbody button'],
  ] as const

  async function open(on: Page, name: string, ready: string): Promise<void> {
    await on.goto(`${opened.server.url}/#/${name}`)
    await on.locator(ready).first().waitFor()
    if (name === 'chat') await on.getByText('Tools and schema').click()
  }

  async function told(): Promise<readonly Told[]> {
    const session = await page.context().newCDPSession(page)
    const { nodes } = (await session.send('Accessibility.getFullAXTree')) as {
      nodes: readonly Told[]
    }
    await session.detach()
    return nodes.filter(({ ignored }) => !ignored)
  }

  async function focused(): Promise<{ text: string; isSeen: boolean }> {
    return await page.evaluate(FOCUSED)
  }

  it.each(PAGES)(
    '%s - has one main landmark, one h1, and a distinct name for every control',
    async (name, ready) => {
      await open(page, name, ready)
      const nodes = await told()
      const of = (role: string) => nodes.filter((node) => node.role?.value === role)
      expect([of('main').length, of('banner').length, of('navigation').length]).toEqual([1, 1, 1])
      expect(await page.locator('h1').count()).toBe(1)
      const controls = nodes.filter((node) => CONTROLS.has(node.role?.value ?? ''))
      expect(controls.length).toBeGreaterThan(4)
      const nameless = controls.filter((node) => (node.name?.value ?? '').trim() === '')
      expect(nameless).toEqual([])
      const buttons = of('button').map((node) => node.name?.value)
      expect(new Set(buttons).size).toBe(buttons.length)
      for (const table of await page.locator('table').all()) {
        expect((await table.locator('caption').textContent())?.length).toBeGreaterThan(4)
        for (const head of await table.locator('thead th').all())
          expect([await head.textContent(), await head.getAttribute('scope')]).toEqual([
            expect.stringMatching(/./),
            expect.stringMatching(/^(col|row)$/),
          ])
      }
    },
  )

  it('Tab - visits the skip link, the navigation, then the controls of the page from top to bottom, all visible', async () => {
    await open(page, 'chat', 'textarea')
    await page.reload()
    await page.locator('textarea').first().waitFor()
    const order: string[] = []
    for (let i = 0; i < 17; i++) {
      await page.keyboard.press('Tab')
      const { text, isSeen } = await focused()
      expect([text, isSeen]).toEqual([text, true])
      order.push(text)
    }
    expect(order).toEqual([
      'Skip to content',
      'Fleet',
      'Chat',
      'Requests',
      'Operate',
      expect.stringContaining('Mira'),
      expect.stringContaining('kite'),
      expect.stringContaining('JSON'),
      'Your message',
      'Send',
      'New conversation',
      'Model',
      'System prompt',
      'Temperature',
      'Top p',
      'Max tokens',
      'Seed',
    ])
  })

  it('skip link - leads into the current page', async () => {
    await open(page, 'operate', 'tbody button')
    await page.reload()
    await page.locator('tbody button').first().waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    expect(new URL(page.url()).hash).toBe('#/operate')
    await page.keyboard.press('Tab')
    expect((await focused()).text).toMatch(/^drain worker/)
  })

  it('a selected page - gets the focus, and its name is in the title', async () => {
    await open(page, 'fleet', 'table')
    await page.getByRole('link', { name: 'Chat' }).focus()
    await page.keyboard.press('Enter')
    await expect.poll(() => page.title()).toBe('Baton: Chat')
    expect(await page.evaluate('document.activeElement.id')).toBe('main')
    expect(await page.locator('nav [aria-current=page]').textContent()).toBe('Chat')
    await page.keyboard.press('Tab')
    expect((await focused()).text).toContain('Mira')
  })

  it('updated figures - change in place, so that a screen reader keeps its position', async () => {
    await open(page, 'fleet', 'table')
    await page.evaluate(`window.cells = [...document.querySelectorAll('table, td, dd')]`)
    const total = page.locator('dd', { hasText: 'in total' })
    const before = await total.textContent()
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'storyteller', prompt: 'hi', max_tokens: 3 })
    await fetch(`${opened.server.url}/v1/completions`, { method: 'POST', headers, body })
    await expect.poll(() => total.textContent()).not.toBe(before)
    expect(await page.evaluate('window.cells.every((cell) => cell.isConnected)')).toBe(true)
  })

  it('operate by keyboard - the focus stays on the worker while its row is replaced', async () => {
    await open(page, 'operate', 'tbody button')
    const drain = page.locator('tr', { hasText: 'decode' }).first().getByText('drain')
    const name = (await drain.getAttribute('aria-label')) ?? ''
    await drain.focus()
    await page.evaluate(`window.button = document.activeElement`)
    await expect.poll(() => page.evaluate('window.button.isConnected')).toBe(false)
    expect((await focused()).text).toBe(name)
    await page.keyboard.press('Enter')
    const worker = name.replace('drain ', '')
    await expect.poll(async () => (await focused()).text).toBe(`resume ${worker}`)
    await page.keyboard.press('Enter')
    await expect.poll(async () => (await focused()).text).toBe(`drain ${worker}`)
  })

  it('an answer - is announced when it is complete', async () => {
    await open(page, 'chat', 'textarea')
    const log = page.getByRole('log')
    await page.locator('#chat-max-tokens').fill('200')
    await page.getByLabel('Your message').fill('Tell me a story.')
    await page.keyboard.press('Enter')
    await page.locator('.assistant .said').waitFor()
    expect(await log.getAttribute('aria-busy')).toBe('true')
    await page.getByText(/TTFT .* tokens/).waitFor()
    expect(await log.getAttribute('aria-busy')).toBeNull()
  })

  it('an address with an invalid escape - is looked up unchanged', async () => {
    await page.goto(`${opened.server.url}/#/requests/%E0%A4%A`)
    await page.getByText('is not known').waitFor()
  })

  it.each(['light', 'dark'] as const)(
    '%s - every text has enough contrast',
    async (colorScheme) => {
      const other = await opened.browser.newPage({ colorScheme })
      for (const [name, ready] of PAGES) {
        await open(other, name, ready)
        expect([name, await other.evaluate(PALE)]).toEqual([name, []])
      }
      await other.close()
    },
  )

  it('320 pixels wide - only tables and pictures need horizontal scrolling', async () => {
    const narrow = await opened.browser.newPage({ viewport: { width: 320, height: 640 } })
    for (const [name, ready] of PAGES) {
      await open(narrow, name, ready)
      const width = await narrow.evaluate('document.documentElement.scrollWidth')
      expect([name, width]).toEqual([name, 320])
    }
    await narrow.close()
  })
})
