/**
 * Makes the pictures of the console in docs/: `npx tsx scripts/screenshots.ts`, with a Chromium (BATON_TEST_CHROMIUM).
 *
 * A real server with the simulated engine and a little load, so that the pictures show what a reader will see.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { chromiumPath, startChromium } from '../test/browser/chromium.ts'
import { startServer } from '../test/running-server.ts'
import { recordPage } from './record-page.ts'

const DOCS = fileURLToPath(new URL('../docs/', import.meta.url))
const WORDS = 'amber birch cedar delta ember fjord grove heron inlet jetty'.split(' ')
const CLIENTS = 10
const VIEWPORT = { width: 1200, height: 800 }
const RECORDING = { forMs: 6_000, width: 1200, height: 620, pictureWidth: 800 }

let isOver = false

/** Conversations with a common beginning, one after the other. */
async function load(url: string, client: number): Promise<void> {
  for (let turn = 0; !isOver; turn++) {
    const text = WORDS.map((word, i) => `${word} ${(client * 31 + turn * 7 + i) % 97}`).join(' ')
    const messages = [
      { role: 'system', content: 'You answer in short sentences. '.repeat(20) },
      { role: 'user', content: text.repeat(1 + ((client + turn) % 5)) },
    ]
    const body = JSON.stringify({ model: 'storyteller', messages, max_tokens: 60, stream: true })
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
    await reply.text()
  }
}

async function main(): Promise<void> {
  const path = chromiumPath()
  if (path === null) return
  const server = await startServer(['--engine', 'sim', '--prefill', '2', '--decode', '3'])
  const browser = await startChromium(path)
  const clients = Array.from({ length: CLIENTS }, (_, client) => load(server.url, client))
  const page = await browser.newPage({ viewport: VIEWPORT })
  await page.goto(server.url)
  await page.waitForTimeout(6000)
  await page.screenshot({ path: `${DOCS}console-fleet.png` })
  const moving = await recordPage(page, await browser.newPage(), RECORDING)
  writeFileSync(`${DOCS}console.webp`, moving)
  isOver = true
  await Promise.all(clients)
  await page.goto(`${server.url}/#/requests`)
  await page.locator('tbody a').first().click()
  await page.getByRole('heading', { name: 'Decisions' }).waitFor()
  await page.waitForTimeout(300)
  await page.screenshot({ path: `${DOCS}console-request.png` })
  const dark = await browser.newPage({ viewport: VIEWPORT, colorScheme: 'dark' })
  await dark.goto(`${server.url}/#/chat`)
  await dark.locator('#chat-max-tokens').fill('80')
  await dark.getByLabel('Your message').fill('Tell me a story about a brave fox.')
  await dark.keyboard.press('Enter')
  await dark.getByText(/TTFT .* tokens/).waitFor()
  await dark.screenshot({ path: `${DOCS}console-chat.png` })
  await browser.close()
  await server.stop()
}

await main()
