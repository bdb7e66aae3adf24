/**
 * Finds a real Chromium for tests: `BATON_TEST_CHROMIUM`, or where Debian installs it. Without one the tests are
 * skipped with a message.
 */
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

export function chromiumPath(): string | null {
  const named = process.env['BATON_TEST_CHROMIUM']
  const path = named ?? PLACES.find((place) => existsSync(place)) ?? null
  if (path === null)
    console.log('SKIPPED: no Chromium is installed (BATON_TEST_CHROMIUM names one)')
  return path
}

/** Switches off Chromium's own network requests. */
export function startChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
}

/** Collects the page's errors, including scripts that its content security policy blocks. */
export function complaintsOf(page: Page): string[] {
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text())
  })
  return complaints
}
